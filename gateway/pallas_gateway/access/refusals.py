"""Refusals of one principal, folded where they are many: none can push the lines of others out of the audit. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_gateway.identity.principal import Principal

WINDOW = 60.0
"""Seconds."""
MOST_LINES = 60
"""Refusals of one principal in a window that have a line of their own."""


@dataclass(slots=True)
class _Window:
    principal: Principal
    began: float
    refused: int = 0


class Refusals:
    """Counts them, by principal."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def fold(self, principal: Principal | None, at: float) -> bool:
        """Count one; whether it is told with others, and has no line of its own.

        Args:
            principal: None for the gateway itself, which is not folded.
            at: seconds, of a clock that never goes back. What was `told` of before is over.
        """
        if principal is None:
            return False
        window = self._windows.get(principal.id)
        if window is None:
            window = self._windows[principal.id] = _Window(principal, at)
        window.refused += 1
        return window.refused > MOST_LINES

    def told(self, at: float) -> Iterator[tuple[Principal, int]]:
        """Whose refusals are to be told of now, and how many had no line of their own; each once."""
        # The oldest come first, as windows are added when they begin.
        while self._windows:
            key, window = next(iter(self._windows.items()))
            if at - window.began < WINDOW:
                return
            del self._windows[key]
            if window.refused > MOST_LINES:
                yield window.principal, window.refused - MOST_LINES
