"""What to do about an agent that is not well, in one line. Pure.

Knows states and health documents; the commands that it names are those of `pallasctl`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pallas_supervisor.lifecycle.states import Desired, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pallas_supervisor.lifecycle.states import Agent


_UNSET = re.compile(r"no API key is configured.{0,200}?: set ([A-Z][A-Z0-9_]{1,60}) in \.env")
"""What a worker says of an LLM without a key; see `pallas_worker.agent.models.keys`."""
_OF_PROVIDER = {
    "API key is not accepted": "put a key into .env that {} takes, then `pallasctl reload`",
    "not in credit": "top up the account at {}; it is tried again by itself",
    "not found": "correct the model, or where {} is, in the configuration, then `pallasctl reload`",
    "not known there": "correct the model, or where {} is, in the configuration, then `pallasctl reload`",
    "is base_url right": "correct the address of {} in the configuration, then `pallasctl reload`",
}
"""Words of what is wrong with a provider, and what to do."""


def remedy(
    agent: Agent, health: Mapping[str, Any], awaited: Sequence[str], commands: Mapping[str, str]
) -> str | None:
    """What a person can do; None if there is nothing to do.

    Args:
        health: the agent's entry in the health document.
        awaited: what it depends on and is not ready.
        commands: those of its servers that are started as one, by the server's name.
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
            return _of_ready(health, commands)
    return None


def _of_ready(health: Mapping[str, Any], commands: Mapping[str, str]) -> str | None:
    if (variable := _UNSET.search(health.get("message") or "")) is not None:
        return f"set {variable[1]} in .env, then `pallasctl reload`"
    down = [server["name"] for server in health.get("downstreams", ()) if not server["up"]]
    if down:
        return f"see that {', '.join(_server(name, commands) for name in down)}; it is tried again by itself"
    provider = health["provider"]
    if provider is None or provider["up"]:
        return None
    name, error = provider["name"], provider.get("error") or ""
    for said, what in _OF_PROVIDER.items():
        if said in error:
            return what.format(name)
    return f"see that {name} can be reached; it is tried again by itself"


def _server(name: str, commands: Mapping[str, str]) -> str:
    """What has to be so for a server to be up."""
    command = commands.get(name)
    return (
        f"{name} can be reached from here" if command is None else f"the command of {name} runs ({command})"
    )
