"""The engine's state as the status document shows it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pallas_supervisor.states import State
from pallas_supervisor.wording import describe_exit, describe_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_supervisor.states import Agent


def say_why(agent: Agent, waiting_for: tuple[str, ...], agents: Mapping[str, Agent], now: float) -> str:
    """One line on why the agent is in its state; empty when there is nothing to say.

    Args:
        waiting_for: dependencies that are not READY.
        agents: all agents by name.
        now: seconds on the engine's clock.
    """
    if agent.state is State.WAITING and waiting_for:
        names = ", ".join(f"{name} ({agents[name].state})" for name in waiting_for)
        return f"waiting for {names}"
    if agent.state is State.BACKOFF and agent.retry_at is not None:
        wait = agent.retry_at - now
        when = f"in {describe_seconds(wait)}" if wait >= 0.05 else "now"
        return f"{agent.message}; restarting {when}, failure {agent.failures}/{agent.policy.max_failures}"
    return agent.message


def agent_status(
    agent: Agent,
    *,
    port: int,
    depends_on: tuple[str, ...],
    message: str,
    health: str,
    memory: int | None,
    age: float,
    outdated: tuple[str, ...],
) -> dict[str, Any]:
    """One entry of the status document.

    Args:
        age: seconds that the agent has been in its state.
        outdated: configuration files that say something else for its worker now than at its start.
    """
    return {
        "name": agent.name,
        "state": str(agent.state),
        "desired": str(agent.desired),
        "pid": agent.pid,
        "port": port,
        "restarts": agent.restarts,
        "failures": agent.failures,
        "max_failures": agent.policy.max_failures,
        "since": timestamp(age),
        "health": health,
        "message": message,
        "last_exit": None if agent.last_exit is None else describe_exit(agent.last_exit),
        "generation": agent.generation,
        "depends_on": list(depends_on),
        "resident_memory": memory,
        "outdated": list(outdated),
    }


def timestamp(age: float = 0.0) -> str:
    """The moment `age` seconds ago as RFC 3339 in UTC, to the millisecond."""
    moment = datetime.now(UTC) - timedelta(seconds=age)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
