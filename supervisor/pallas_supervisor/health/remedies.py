"""What to do about an agent that is not well, in one line. Pure.

Knows states and health documents; the commands that it names are those of `pallasctl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_supervisor.lifecycle.states import Desired, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pallas_supervisor.lifecycle.states import Agent


def remedy(agent: Agent, health: Mapping[str, Any], awaited: Sequence[str]) -> str | None:
    """What a person can do; None if there is nothing to do.

    Args:
        health: the agent's entry in the health document.
        awaited: what it depends on and is not ready.
    """
    name = agent.name
    match agent.state:
        case State.FAILED:
            return f"mend the cause (`pallasctl logs {name}`), then `pallasctl start {name}`"
        case State.BACKOFF:
            return f"it is started again by itself; `pallasctl logs {name}` says what happened"
        case State.STOPPED:
            return f"`pallasctl start {name}` starts it" if agent.desired is Desired.DOWN else None
        case State.WAITING if awaited:
            return f"it starts when {', '.join(awaited)} is ready; see `pallasctl describe {awaited[0]}`"
        case State.READY if health["status"] != "ok":
            return _of_ready(health)
    return None


def _of_ready(health: Mapping[str, Any]) -> str | None:
    down = [server["name"] for server in health.get("downstreams", ()) if not server["up"]]
    if down:
        servers = ", ".join(down)
        return f"see that {servers} can be reached from here; it is tried again by itself"
    provider = health["provider"]
    if provider is not None and not provider["up"]:
        return f"see that {provider['name']} can be reached and takes the key; it is tried again by itself"
    return None
