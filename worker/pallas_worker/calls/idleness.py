"""How long no call has run or waited: told each time that an agent's time-out has passed.

Knows numbers and a timer; must not know calls, nor what follows from their absence. Only turns count, of both surfaces:
probes, listings and scrapes come as often as they like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


TRY_AGAIN = 1.0
"""Seconds after which it is told again where it could not be taken, or the time-out if that is less."""


class Timer(Protocol):
    """What `asyncio.AbstractEventLoop.call_later` gives."""

    def cancel(self) -> None:
        """Let it not go off."""


class Idleness:
    """Tells of each further time-out that has passed without a call.

    Args:
        timeout: seconds.
        tell: called then; whether it was taken. Where it was not, it is told again soon.
        later: calls something so many seconds from now, as an event loop does it.
    """

    def __init__(
        self,
        timeout: float,
        tell: Callable[[], bool],
        later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._timeout = timeout
        self._tell = tell
        self._later = later
        self._timer: Timer | None = None
        self._watching = False
        self._busy = False

    def begin(self) -> None:
        """The agent can be called from now on."""
        self._watching = True
        self._wait()

    def end(self) -> None:
        """Nobody is told any more."""
        self._watching = False
        self._wait()

    def observe(self, running: int, waiting: int) -> None:
        """So many calls run and wait now; see `Admission`."""
        busy = bool(running or waiting)
        if busy != self._busy:
            self._busy = busy
            self._wait()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watching and not self._busy:
            self._timer = self._later(self._timeout, self._passed)

    def _passed(self) -> None:
        seconds = self._timeout if self._tell() else min(self._timeout, TRY_AGAIN)
        self._timer = self._later(seconds, self._passed)
