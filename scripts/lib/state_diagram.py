"""The text of docs/states.md, the diagram of an agent's states, from the table that the supervisor runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_supervisor.lifecycle import second_worker
from pallas_supervisor.lifecycle.second_worker import KILL_TIMEOUT
from pallas_supervisor.lifecycle.states import SecondWorkerState, State
from pallas_supervisor.lifecycle.table import IGNORE, TABLE

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.events import Event

WORDS = {
    "Arm": "deployed",
    "Start": "start",
    "Wanted": "a connection waits",
    "Stop": "stop",
    "HardRestart": "restart --now",
    "RollingRestart": "restart",
    "BeginReplacement": "turn to be replaced",
    "CancelReplacement": "restart of all ended",
    "Redefine": "changed definition",
    "Rebind": "changed port",
    "DependenciesReady": "dependencies ready",
    "DependencyLost": "dependency lost",
    "Spawned": "process exists",
    "SpawnFailed": "cannot be spawned",
    "Ready": "ready",
    "StartFailureReported": "says why it fails",
    "BecameIdle": "idle_timeout without a call",
    "Unhealthy": "heartbeats missed",
    "KillNow": "to be killed at once",
    "Died": "process ended",
    "Reaped": "nothing left of it",
}

TIMERS = {
    State.STARTING: "start_timeout",
    State.READY: "reset_after",
    State.STOPPING: "stop_timeout",
    State.KILLING: f"{KILL_TIMEOUT:g} s",
    State.BACKOFF: "retry time",
}

SECOND_WORKER_TIMERS = {
    SecondWorkerState.STARTING: "start_timeout",
    SecondWorkerState.DRAINING: "stop_timeout",
    SecondWorkerState.KILLING: f"{KILL_TIMEOUT:g} s",
}

TOP = """\
# States of an agent

Written by `scripts/generate` from the table of states × events in `supervisor/pallas_supervisor/lifecycle/table.py`;
a test compares the two. An arrow bears every event that may take it; where an event has several arrows, what the
operator wants, the restart policy and the failures so far decide. What each state means:
[operation.md](operation.md#states).

```mermaid
stateDiagram-v2
"""

BOTTOM = """\
```

Events that change no state, but what becomes of the agent:

| State | Event |
|---|---|
"""

SECOND_WORKERS = """
## A second worker

While an agent is replaced gracefully it has two workers: the one that the state above is about, and a second. At
first that is the new worker, which is `starting` beside the one that serves; when it is ready the two change places,
and the old one is `draining`. From the table in `supervisor/pallas_supervisor/lifecycle/second_worker.py`:

| Second worker | Event | What is done |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    arrows: dict[tuple[State, State], list[str]] = {}
    within: dict[State, list[str]] = {}
    for (state, event), row in sorted(TABLE.items(), key=_order):
        for target in row.to:
            arrows.setdefault((state, target), []).append(_word(state, event))
        if not row.to and row is not IGNORE:
            within.setdefault(state, []).append(_word(state, event))
    lines = ["    [*] --> stopped"]
    lines += [f"    {state} --> {target}: {', '.join(words)}" for (state, target), words in arrows.items()]
    table = [f"| `{state}` | {', '.join(words)} |" for state, words in within.items()]
    second_workers = [
        f"| `{state}` | {_second_worker_word(state, event)} | {act.__name__.replace('_', ' ')} |"
        for (state, event), act in second_worker.TABLE.items()
        if act is not second_worker.ignore
    ]
    parts = (
        TOP,
        "\n".join(lines),
        "\n",
        BOTTOM,
        "\n".join(table),
        "\n",
        SECOND_WORKERS,
        "\n".join(second_workers),
        "\n",
    )
    return "".join(parts)


def _order(item: tuple[tuple[State, type[Event]], object]) -> tuple[int, int]:
    (state, event), _ = item
    return list(State).index(state), [*WORDS, "Elapsed", "SecondWorkerElapsed"].index(event.__name__)


def _word(state: State, event: type[Event]) -> str:
    return TIMERS[state] if event.__name__ == "Elapsed" else WORDS[event.__name__]


def _second_worker_word(state: SecondWorkerState, event: type[Event]) -> str:
    return SECOND_WORKER_TIMERS[state] if event.__name__ == "SecondWorkerElapsed" else WORDS[event.__name__]
