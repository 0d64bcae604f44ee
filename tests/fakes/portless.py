"""`pallas`, whose agents listen on unix sockets where `env:` of their entry says so (`LISTEN: unix`).

Stands in for agents that are declared as resources, which have no entry; nothing else of `pallas` differs.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pallas.server import main
from pallas_registry.deployment import agents_file
from pallas_registry.deployment.agent_entry import read_agent

if TYPE_CHECKING:
    from pallas_registry.deployment.model import Agent


def _read(*arguments: Any) -> Agent:
    agent = read_agent(*arguments)
    return replace(agent, port=None) if agent.env.get("LISTEN") == "unix" else agent


vars(agents_file)["read_agent"] = _read
del sys.argv[1]  # `pallas` itself, which is started by way of this
main()
