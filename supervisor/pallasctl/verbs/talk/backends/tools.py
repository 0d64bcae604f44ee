"""The tools of an agent, as the supervisor knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from pallasctl.failures import Failure
from pallasctl.options import control

if TYPE_CHECKING:
    from collections.abc import Sequence


def tools_of(agent: str) -> Sequence[str]:
    """Their names as the model sees them, those of agents below it among them.

    Raises:
        ControlError: the supervisor cannot be asked.
        Failure: it does not know them: the agent has not run yet.
    """
    served = control().get(f"/v1/agents/{quote(agent, safe='')}").get("served")
    if not isinstance(served, dict):
        raise Failure(f"the tools of {agent} are known once it has started: `pallasctl start {agent}`")
    return list(dict.fromkeys(tool for part in served["parts"] for tool in part["tools"]))
