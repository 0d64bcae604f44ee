"""Who answers a chat: the MCP endpoint that is named, else the gateway, else the agent's worker.

Where there is a gateway, it is the one that is asked: one that does not answer or refuses is an error to be told.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from pallas_control.errors import ControlError
from pallas_control.gateway import URL_VARIABLE
from pallasctl.failures import Failure
from pallasctl.options import control
from pallasctl.verbs.gateway.asking import gateway, named_gateway
from pallasctl.verbs.talk.backends.gateway import GatewayBackend
from pallasctl.verbs.talk.backends.mcp import McpBackend
from pallasctl.verbs.talk.backends.tools import tools_of
from pallasctl.verbs.talk.backends.worker import WorkerBackend
from pallasctl.verbs.talk.turn import find

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pallasctl.verbs.talk.backends.backend import Backend


def choose(agent: str, conversation_id: str) -> Backend:
    """With whom to talk.

    Args:
        agent: a name, or the URL of an MCP endpoint.
        conversation_id: what stands in the agent's log, where no thread's id does.

    Raises:
        ControlError, CallError, click.ClickException: there is none, or it refuses.
        ValueError: the URL is none.
    """
    if agent.startswith(("http://", "https://")):
        return McpBackend(agent, conversation_id)
    if named_gateway() or os.environ.get(URL_VARIABLE):
        return GatewayBackend(gateway(), agent, note="", tools=partial(_unknown_tools, agent))
    entry: dict[str, Any] | None = control().get("/v1/status").get("gateway")
    if entry is None:
        return WorkerBackend(agent, conversation_id)
    target = find(agent)
    if entry["state"] in ("stopped", "failed"):
        raise Failure(
            f"the gateway, which keeps conversations, {'is stopped' if entry['state'] == 'stopped' else 'has failed'}"
            f": start it with `pallasctl gateway start`; `pallasctl ask {agent}` works without it"
        )
    try:
        return GatewayBackend(gateway(), agent, note=target.note, tools=partial(tools_of, agent))
    except ControlError as error:
        if entry["state"] != "ready":
            raise Failure(f"{error.message} (it is {entry['state']})", details=error.details) from None
        raise


def _unknown_tools(agent: str) -> Sequence[str]:
    raise Failure(
        f"the tools of {agent} are not told by a gateway elsewhere: `pallasctl describe {agent}` does, where it runs"
    )
