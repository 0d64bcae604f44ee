"""A bounded ring of numbered things, which many readers share: each has but a number, and a slow one costs no memory.

Knows numbers and sizes; nothing of what it keeps.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ring[Item]:
    """The newest items, numbered in the order in which they came.

    Args:
        most: items that are kept at most.
        most_bytes: bytes of them that are kept at most; the newest item is kept, whatever its size.
        first: the number of the first item that comes.
    """

    def __init__(self, most: int, most_bytes: int, first: int = 0) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._items: deque[tuple[Item, int]] = deque()
        self._bytes = 0
        self.begin = first
        """The number of the oldest item that is kept; of the next one to come where none is."""

    @property
    def end(self) -> int:
        """The number of the item that comes next."""
        return self.begin + len(self._items)

    def append(self, item: Item, size: int) -> list[Item]:
        """Keep an item of so many bytes; those that had to go for it, oldest first."""
        self._items.append((item, size))
        self._bytes += size
        return self.trim(self._most, self._most_bytes)

    def trim(self, most: int, most_bytes: int) -> list[Item]:
        """Keep the newest so many items, and so many bytes of them; those that had to go, oldest first."""
        gone = []
        while len(self._items) > most or (self._bytes > most_bytes and len(self._items) > 1):
            oldest, its_size = self._items.popleft()
            self.begin += 1
            self._bytes -= its_size
            gone.append(oldest)
        return gone

    def at(self, number: int) -> Item:
        """The item of a number from `begin` up to and without `end`."""
        return self._items[number - self.begin][0]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return (item for item, _ in self._items)

    def __reversed__(self) -> Iterator[Item]:
        return (item for item, _ in reversed(self._items))

    def clear(self) -> None:
        """Keep nothing; the numbers go on."""
        self.begin = self.end
        self._items.clear()
        self._bytes = 0
