"""The conversation as the client keeps it, for agents remember nothing: its rows, shortened when they are too many.

Pure; knows the rows of a history, and no terminal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pallas_control.mcp.messages import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_control.mcp.messages import ImageDocument


class Conversation:
    """Turns that were answered. One that failed or was cancelled is no part of it."""

    def __init__(self) -> None:
        self._turns: list[tuple[Row, ...]] = []

    def __len__(self) -> int:
        """How many turns there are."""
        return len(self._turns)

    @property
    def rows(self) -> list[Row]:
        """The history to send, oldest first."""
        return [row for turn in self._turns for row in turn]

    def add(self, message: str, images: Sequence[ImageDocument], answer: str) -> None:
        """A turn that has ended well. An empty answer has no row, as an agent would leave it out."""
        asked = Row(role="user", content=message, images=list(images))
        answered = Row(role="assistant", content=answer, images=[])
        self._turns.append((asked, answered) if answer else (asked,))

    def shorten(self) -> int:
        """Leave the older half of the turns out, and at least one; how many that were, 0 where there are none."""
        number = (len(self._turns) + 1) // 2
        del self._turns[:number]
        return number

    def clear(self) -> None:
        """Begin anew."""
        self._turns.clear()

    def as_text(self, agent: str) -> str:
        """For people: who said what."""
        said = [
            f"{'you' if row['role'] == 'user' else agent}: {row['content']}{_images(row)}\n"
            for row in self.rows
        ]
        return "\n".join(said)

    def as_json(self) -> str:
        """For programs: the rows, as the argument `history` of `send_message` takes them."""
        return json.dumps(self.rows, indent=2, ensure_ascii=False) + "\n"


def _images(row: Row) -> str:
    return "".join(f" [{image['mime_type']}]" for image in row["images"])
