"""Writes docs/states.md, the diagram of an agent's states, from the table that the supervisor runs on.

python scripts/lib/state_diagram.py
"""

from __future__ import annotations

from pathlib import Path

from pallas_supervisor.actions import KILL_TIMEOUT
from pallas_supervisor.machine import IGNORE, TABLE
from pallas_supervisor.states import Event, State

PAGE = Path(__file__).parents[2] / "docs" / "states.md"

WORDS = {
    "Start": "start",
    "Stop": "stop",
    "Restart": "restart",
    "Redefine": "changed definition",
    "DependenciesReady": "dependencies ready",
    "DependencyLost": "dependency lost",
    "Spawned": "process exists",
    "SpawnFailed": "cannot be spawned",
    "Ready": "ready",
    "Complained": "says why it fails",
    "Unhealthy": "heartbeats missed",
    "Died": "process ended",
    "Swept": "nothing left of it",
}

TIMERS = {
    State.STARTING: "start_timeout",
    State.READY: "reset_after",
    State.STOPPING: "stop_timeout",
    State.KILLING: f"{KILL_TIMEOUT:g} s",
    State.BACKOFF: "retry time",
}

TOP = """\
# States of an agent

Written by `scripts/diagram` from the table of states × events in `supervisor/pallas_supervisor/machine.py`; a test
compares the two. An arrow bears every event that may take it; where an event has several arrows, what the operator
wants, the restart policy and the failures so far decide. What each state means: [operation.md](operation.md#states).

```mermaid
stateDiagram-v2
"""

BOTTOM = """\
```

Events that change no state, but what becomes of the agent:

| State | Event |
|---|---|
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
    return TOP + "\n".join(lines) + "\n" + BOTTOM + "\n".join(table) + "\n"


def _order(item: tuple[tuple[State, type[Event]], object]) -> tuple[int, int]:
    (state, event), _ = item
    return list(State).index(state), [*WORDS, "Elapsed"].index(event.__name__)


def _word(state: State, event: type[Event]) -> str:
    return TIMERS[state] if event.__name__ == "Elapsed" else WORDS[event.__name__]


if __name__ == "__main__":
    PAGE.write_text(page())
