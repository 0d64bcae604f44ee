"""A conversation that is kept here, where nobody else keeps it: its turns, shortened when they are too many.

Pure; knows no transport. A turn that failed or was cancelled is no part of it, and can be taken again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_control.mcp.errors import CallError, TooLargeError
from pallasctl.verbs.talk.backends.backend import Aside

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pallasctl.verbs.talk.backends.backend import Happened, Message


class NothingAskedError(CallError):
    """The last turn was to be taken again, and there is none."""

    kind = "usage"


class KeptTurns[Row]:
    """Turns that were answered, each with the rows that it has made."""

    def __init__(self) -> None:
        self._turns: list[list[Row]] = []
        self._last: Message | None = None
        self._replaces = False

    def begin(self, message: Message | None) -> Message:
        """What is asked now; None: what was asked last, whose turn is replaced if this one ends well.

        Raises:
            NothingAskedError: nothing was asked before.
        """
        if message is not None:
            self._last, self._replaces = message, False
        elif self._last is None:
            raise NothingAskedError("there is nothing to ask again: no message has been sent yet")
        else:
            self._replaces = self._replaces or self._answered
        self._answered = False
        assert self._last is not None
        return self._last

    _answered = False

    @property
    def history(self) -> list[Row]:
        """The rows before the turn that has begun, oldest first."""
        turns = self._turns[:-1] if self._replaces else self._turns
        return [row for turn in turns for row in turn]

    @property
    def rows(self) -> list[Row]:
        """All rows, oldest first."""
        return [row for turn in self._turns for row in turn]

    def end(self, rows: Sequence[Row]) -> None:
        """The turn that has begun has ended well, and these are its rows."""
        if self._replaces and self._turns:
            del self._turns[-1]
        self._turns.append(list(rows))
        self._replaces, self._answered = False, True

    def shorten(self) -> int:
        """Leave the older half of the turns before this one out, and at least one; how many that were, 0 for none."""
        number = (len(self._turns) - self._replaces + 1) // 2
        del self._turns[:number]
        return number

    def asked(
        self, message: Message | None, turn: Callable[[Message], Generator[Happened | None]]
    ) -> Generator[Happened | None]:
        """What happens in a turn, which is begun again without the oldest ones where they are too many.

        Args:
            message: as `begin` takes it.
            turn: takes it.

        Raises:
            NothingAskedError: nothing was asked before.
            CallError: there is no answer.
        """
        begun = self.begin(message)
        while True:
            try:
                yield from turn(begun)
            except TooLargeError:
                if not (number := self.shorten()):
                    raise
                oldest = "oldest turn is" if number == 1 else f"{number} oldest turns are"
                yield Aside(
                    f"the conversation has become too long for one request: its {oldest} left out from now on"
                )
            else:
                return

    def clear(self) -> None:
        """Begin anew."""
        self._turns.clear()
        self._last, self._replaces, self._answered = None, False, False
