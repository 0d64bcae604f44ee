"""What is under way, by the token that it was asked with: it ends when that does.

Knows principals and functions that end something; nothing of HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pallas_gateway.identity.principal import Principal


class InFlight:
    """Requests and streams that are open."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[Principal, set[Callable[[], object]]]] = {}

    def __len__(self) -> int:
        return sum(len(ends) for _, ends in self._open.values())

    def enter(self, principal: Principal, end: Callable[[], object]) -> None:
        """It is under way; `end` is called at most once, and must not raise."""
        self._open.setdefault((principal.id, principal.credential), (principal, set()))[1].add(end)

    def leave(self, principal: Principal, end: Callable[[], object]) -> None:
        """It has ended; harmless when it was ended."""
        key = principal.id, principal.credential
        if (found := self._open.get(key)) is not None:
            found[1].discard(end)
            if not found[1]:
                del self._open[key]

    def principals(self) -> Iterator[Principal]:
        """Those of whom something is under way, once for each of their tokens."""
        return iter([principal for principal, _ in self._open.values()])

    def update(self, principal: Principal) -> None:
        """Its token counts on, until another time."""
        key = principal.id, principal.credential
        if (found := self._open.get(key)) is not None:
            self._open[key] = principal, found[1]

    def end(self, principal: Principal) -> int:
        """End all that was asked with the principal's token; how much that was."""
        _, ends = self._open.pop((principal.id, principal.credential), (principal, set()))
        for end in ends:
            end()
        return len(ends)
