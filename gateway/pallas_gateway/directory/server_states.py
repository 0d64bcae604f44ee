"""How a server of an agent is: one answer from both who use it, the gateway for the agent and the agent's worker. Pure.

Either may know first: a worker looks every few seconds, the gateway when the agent's compositor is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServerState(NamedTuple):
    """What people and agents are told alike."""

    state: str
    """`initializing`, `running` or `failed`."""
    since: str | None
    error: str | None
    incomplete: str | None
    """What is missing in its lists."""


def server_state(composed: Mapping[str, Any] | None, looked: Mapping[str, Any] | None) -> ServerState:
    """Say how a server is: as the gateway's connection is, or else as the worker has found it.

    Args:
        composed: as the gateway describes its own connection; None where it has none.
        looked: the server in the health of the agent; None where it is not known yet.
    """
    if composed is not None and composed["state"] != "initializing":
        return ServerState(
            composed["state"], composed["since"], composed["error"], composed.get("incomplete")
        )
    if looked is not None:
        state = "running" if looked.get("up") else "failed"
        return ServerState(state, looked.get("since"), looked.get("error"), looked.get("incomplete"))
    since = None if composed is None else composed["since"]
    return ServerState("initializing", since, None, None)
