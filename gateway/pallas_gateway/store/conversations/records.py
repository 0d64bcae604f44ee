"""What the tables of conversations hold, as the code has it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

Status = Literal["pending", "complete", "error"]

REPLACED = "replaced by a later answer"
"""Why the rows of a turn are `error` in whose place another one was done."""

LEFT_OUT = "left out of the answer"
"""Why a row of a turn that has finished is `error`: it had been kept, and is not part of what the turn said at last."""

UNFINISHED = "had not finished when it was exported"
"""Why an imported row is `error` that was pending where it comes from."""


class ThreadGoneError(Exception):
    """There is no such thread, or not any more."""


class ThreadBusyError(Exception):
    """Another turn has the thread.

    Args:
        turn: which one.
        process: which gateway process works on it.
    """

    def __init__(self, turn: str, process: str | None) -> None:
        super().__init__(f"turn {turn} is under way")
        self.turn = turn
        self.process = process


class NothingToRedoError(Exception):
    """The thread has no turn that could be done again."""


class ToolCall(NamedTuple):
    """A call of a tool that an assistant's message asks for."""

    id: str
    name: str
    arguments: str
    """Text of JSON, as the model wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a message holds.

    The store keeps U+FFFD in place of NUL and of lone surrogates, wherever they stand: PostgreSQL takes neither.
    """

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str | list[dict[str, Any]] | None = None
    """A text, or parts as chat completions have them."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    """Of a tool's result: whether the call failed."""
    state: dict[str, Any] | None = None
    """The worker's own, handed back to it as it came."""

    @property
    def text(self) -> str:
        """The plain text of the content: that of its parts, one below the other."""
        if isinstance(self.content, list):
            return "\n".join(text for part in self.content if isinstance(text := part.get("text"), str))
        return self.content or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A row of a thread, in its place."""

    turn_index: int
    """From 0, without gaps."""
    turn: str
    """The turn that wrote it."""
    row: Row
    status: Status
    error: str | None = None
    created: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation of one principal with one agent."""

    tenant: str
    id: str
    agent: str
    """The agent's name."""
    agent_key: str
    """The resource's uid; of an agent of `agents.yaml` its name."""
    owner: str
    """The `subject` of a principal."""
    title: str
    session: str | None = None
    """A caller's own name for it."""
    created: dt.datetime
    last_turn: dt.datetime | None = None
    """When the last turn ended, well or not."""
    active: dt.datetime
    """`last_turn`, or `created` where there was no turn: by this threads are listed."""
    length: int = 0
    """How many messages it has: the next `turn_index`."""
    turn: str | None = None
    """The turn under way."""
    process: str | None = None
    """Which gateway process works on that."""

    @property
    def cursor(self) -> Cursor:
        """What a list goes on after that ended with this thread."""
        return Cursor(self.active, self.id)


class Cursor(NamedTuple):
    """A place in a list of threads."""

    active: dt.datetime
    id: str


class Begun(NamedTuple):
    """A turn that has a thread."""

    thread: Thread
    history: Sequence[Row]
    """The complete rows before what was asked now."""
    first: int
    """The `turn_index` of the first row of the answer."""


class PendingTurn(NamedTuple):
    """A turn under way, whether anybody works on it or not."""

    tenant: str
    thread: str
    turn: str
    process: str | None
