"""The engine's state as the status document shows it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.times import ago
from pallas_supervisor.lifecycle.exits import describe_exit, describe_seconds
from pallas_supervisor.lifecycle.states import SecondWorkerState, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_supervisor.lifecycle.states import Agent, SecondWorker


def say_why(agent: Agent, waiting_for: tuple[str, ...], agents: Mapping[str, Agent], now: float) -> str:
    """One line on why the agent is in its state; empty when there is nothing to say.

    Args:
        waiting_for: dependencies that are not READY.
        agents: all agents by name.
        now: seconds on the engine's clock.
    """
    if agent.state is State.WAITING and waiting_for:
        return f"waiting for {', '.join(_awaited(agents[name]) for name in waiting_for)}"
    if agent.state is State.BACKOFF and agent.retry_at is not None:
        wait = agent.retry_at - now
        when = f"in {describe_seconds(wait)}" if wait >= 0.05 else "now"
        return f"{agent.message}; restarting {when}, failure {agent.failures}/{agent.policy.max_failures}"
    if agent.state is State.READY and not agent.message:
        return _say_replacement(agent)
    return agent.message


def _awaited(agent: Agent) -> str:
    """A dependency that is not there, and for one that will not come by itself, why."""
    because = f": {agent.message}" if agent.state is State.FAILED and agent.message else ""
    return f"{agent.name} ({agent.state}{because})"


def _say_replacement(agent: Agent) -> str:
    if (second_worker := agent.second_worker) is None:
        return "" if agent.replace is None else f"will be replaced ({agent.replace})"
    match second_worker.state:
        case SecondWorkerState.STARTING:
            return f"being replaced ({second_worker.cause}): a new worker is starting"
        case SecondWorkerState.STUCK:
            return f"replaced; the old worker, process {second_worker.pid}, cannot be killed"
        case _:
            return f"replaced; process {second_worker.pid} is {second_worker.state}"


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
        "since": ago(age),
        "health": health,
        "message": message,
        "last_exit": None if agent.last_exit is None else describe_exit(agent.last_exit),
        "generation": agent.generation,
        "depends_on": list(depends_on),
        "resident_memory": memory,
        "outdated": list(outdated),
        "replacement": None if agent.second_worker is None else _replacement(agent.second_worker),
    }


def _replacement(second_worker: SecondWorker) -> dict[str, Any]:
    return {
        "generation": second_worker.generation,
        "state": str(second_worker.state),
        "pid": second_worker.pid,
    }
