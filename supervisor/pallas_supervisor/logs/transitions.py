"""What the log says of agents: one record for each change of state, and for each step of a replacement.

Knows the fields of these records, which scripts read; decides nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import After, Desired, State, label

if TYPE_CHECKING:
    from pallas_common.protocol.reports import HealthReport
    from pallas_supervisor.lifecycle.states import Agent, Transition

_LEVELS = {State.BACKOFF: logging.WARNING, State.FAILED: logging.ERROR}

_log = get_logger("pallas.supervisor.fleet")


def log_transition(change: Transition, why: str) -> None:
    """One change of an agent; `why` it is in its state, in one line, or empty."""
    if change.of_state or change.after.generation != change.before.generation:
        _tell_state(change.before, change.after, why)
    else:
        _tell_replacement(change.before, change.after)


def _tell_state(before: Agent, after: Agent, why: str) -> None:
    """Another state, or another worker in the same one."""
    level = _level(before, after)
    if not _log.isEnabledFor(level):
        return
    # After an end of its own nobody is killed: what is looked for is what it may have left behind.
    previous = (
        State.STOPPING if _has_ended_by_itself(before) and after.state is State.STOPPED else before.state
    )
    fields: dict[str, object] = {
        "agent": label(after.name),
        "state": str(after.state),
        "previous": str(previous),
        "generation": after.generation,
    }
    if after.pid is not None:
        fields["pid"] = after.pid
    if after.last_exit is not None and after.last_exit is not before.last_exit:
        fields["exit"] = describe_exit(after.last_exit)
    text = f"{label(after.name)}: {previous} -> {after.state}" + (f" ({why})" if why else "")
    _log.log(level, text, **fields)


def _level(before: Agent, after: Agent) -> int:
    """That agents are idle at the start is no news, nor each step of one's going idle: why it goes has been said."""
    if before.state is State.STOPPING and _has_ended_by_itself(after):
        return logging.DEBUG
    goes_idle = after.state is State.KILLING and before.state is State.STOPPING and after.after is After.IDLE
    if goes_idle or (after.state is State.IDLE and before.state is not State.BACKOFF):
        return logging.DEBUG
    return _LEVELS.get(after.state, logging.INFO)


def _has_ended_by_itself(agent: Agent) -> bool:
    """Whether it was asked to stop, and its process has done so."""
    is_wanted_down = agent.desired is Desired.DOWN and agent.after is not After.FAILURE
    ended = agent.last_exit is not None and agent.last_exit.signal is None
    return agent.state is State.KILLING and is_wanted_down and ended


def _tell_replacement(before: Agent, after: Agent) -> None:
    """A step of the worker beside the one that the state is about."""
    second_worker = after.second_worker or before.second_worker
    if second_worker is None:  # it is due, or not any more
        return
    generation = second_worker.generation
    stage = "gone" if after.second_worker is None else str(second_worker.state)
    process = "a new worker" if generation > after.generation else "the old worker"
    _log.info(
        f"{label(after.name)}: {process}, generation {generation}, is {stage}",
        agent=label(after.name),
        generation=generation,
        replacement=stage,
    )


def tell_inability(name: str, before: HealthReport | None, report: HealthReport) -> None:
    """An agent that is ready has found that it cannot answer, or that it can again."""
    was = before.message if before is not None and before.status == "error" else None
    now = report.message if report.status == "error" else None
    if now is not None and now != was:
        _log.error(f"{label(name)}: cannot answer: {now}", agent=label(name), health="error")
    elif now is None and was is not None:
        _log.info(f"{label(name)}: can answer again", agent=label(name), health=report.status)
