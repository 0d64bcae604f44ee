"""The last exits of each agent's workers: when, how, what for, and what they wrote before.

Knows log records by their fields; bounded, whatever an agent does and writes.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.problems import shortened
from pallas_common.times import ago, timestamp
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import After, SecondWorkerState, State, WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pallas_supervisor.lifecycle.events import Died
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.logs.router import LogRouter

KEPT = 5
"""Exits of each agent."""
LINES = 10
"""Records of the worker that are kept with its exit."""
LONGEST = 500
"""Characters of one of them."""

_LOOKED_AT = 40
"""The newest records of the agent, among which its worker's are looked for."""
_OWN_LOGGERS = "pallas.supervisor"


class LogLine(NamedTuple):
    """The part of a log record that people read."""

    time: str
    level: str
    message: str
    """One text; of a traceback the last line behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastExit:
    """How one worker ended."""

    time: str
    """RFC 3339."""
    generation: int
    pid: int | None
    exit: str
    """`exit status 78`, `killed by SIGKILL`."""
    asked: bool
    """Whether the supervisor had asked for it."""
    reason: str
    """What it was doing, or why it was asked to end; empty if nothing is known."""
    ran: float | None
    """Seconds since its start."""
    lines: tuple[LogLine, ...]
    """The last that it wrote, the newest last."""


class PastExits:
    """The newest exits of all agents.

    Args:
        router: has the agents' log lines.
        started: when a live worker was asked for, in seconds since the epoch.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        router: LogRouter,
        started: Callable[[WorkerId], float | None],
        now: Callable[[], float],
    ) -> None:
        self._router = router
        self.started = started
        self._now = now
        self._exits: dict[str, deque[PastExit]] = {}

    def note(self, before: Agent, event: Died) -> None:
        """A worker has ended; `before` is the agent as it was then. That one ended for want of calls is no news."""
        if before.after is After.IDLE and before.state is State.STOPPING and event.exit.status == 0:
            return
        started = self.started(WorkerId(before.name, event.generation))
        lines = self._router.newest([before.name], _LOOKED_AT)
        kept = deque(worker_lines(lines, event.generation), maxlen=LINES)
        asked, reason = why_ended(before, event.generation)
        found = PastExit(
            time=ago(),
            generation=event.generation,
            pid=_pid(before, event.generation),
            exit=describe_exit(event.exit),
            asked=asked,
            reason=shortened(reason, LONGEST),
            ran=None if started is None else round(max(self._now() - started, 0.0), 3),
            lines=tuple(kept),
        )
        self._exits.setdefault(before.name, deque(maxlen=KEPT)).append(found)

    def of(self, name: str) -> list[dict[str, Any]]:
        """An agent's exits as JSON, the newest first."""
        return [
            {**asdict(past), "lines": [line._asdict() for line in past.lines]}
            for past in reversed(self._exits.get(name, ()))
        ]

    def forget(self, name: str) -> None:
        """The agent has left."""
        self._exits.pop(name, None)


def why_ended(before: Agent, generation: int) -> tuple[bool, str]:
    """Whether a worker was asked to end, and why it did, as far as the agent's state before tells. Pure."""
    second = before.second_worker
    if second is not None and generation == second.generation:
        match second.state:
            case SecondWorkerState.DRAINING:
                return True, f"replaced ({second.cause})" if second.cause else "replaced"
            case SecondWorkerState.STARTING:
                return False, f"while it started to replace the one before; {before.message}".rstrip("; ")
            case _:
                return True, "killed after it was replaced"
    match before.state:
        case State.STOPPING if before.after is After.RESTART:
            return True, f"restart ({before.cause})" if before.cause else "restart"
        case State.STOPPING | State.KILLING if before.message:
            return True, before.message
        case State.STOPPING:
            return True, "stop"
        case State.KILLING:
            return True, f"did not end within stop_timeout, {before.policy.stop_timeout:g} s"
        case State.STARTING:
            return False, f"while it started; {before.message}".rstrip("; ")
        case _:
            return False, before.message


def worker_lines(lines: Iterable[bytes], generation: int) -> list[LogLine]:
    """What this worker wrote among an agent's log lines; the supervisor's own are left out."""
    return [
        log_line(record)
        for record in records(lines)
        if record.get("generation") == generation
        and not str(record.get("logger", "")).startswith(_OWN_LOGGERS)
    ]


def records(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    """The records that the lines hold."""
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def log_line(record: dict[str, Any]) -> LogLine:
    """What people read of a record, shortened."""
    message = " ".join(str(record.get("message", "")).split())
    traceback: Sequence[str] = str(record.get("exception") or "").strip().splitlines()
    if traceback and (last := " ".join(traceback[-1].split())) not in message:
        message = f"{shortened(message, LONGEST // 2)}: {last}"
    return LogLine(
        shortened(str(record.get("time", "")), 40),
        shortened(str(record.get("level", "")), 20),
        shortened(message, LONGEST),
    )


def at(seconds: float | None) -> str | None:
    """A time in seconds since the epoch, as RFC 3339."""
    return None if seconds is None else timestamp(seconds)


def _pid(before: Agent, generation: int) -> int | None:
    second = before.second_worker
    return second.pid if second is not None and second.generation == generation else before.pid
