"""Server-sent events (WHATWG HTML, 9.2), as bytes come: the data of each event, bounded in size and number.

Pure; knows nothing of what the events carry.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pallas_control.mcp.errors import WrongAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 256 * 1024 * 1024
"""Of a whole stream."""
MOST_EVENTS = 100_000
"""Of one stream. A long run reports a few steps a second at most."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """Takes a stream in pieces of any size.

    Args:
        longest: bytes of one event; a line that is part of none counts as well.
    """

    def __init__(self, longest: int, most_bytes: int = MOST_BYTES, most_events: int = MOST_EVENTS) -> None:
        self._longest = longest
        self._bytes_left = most_bytes
        self._events_left = most_events
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        """Of `_line` and `_data` together."""
        self._after_return = False
        self._first = True

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The data of the events that are complete with this piece.

        Raises:
            WrongAnswerError: a limit is exceeded.
        """
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise WrongAnswerError("the answer's stream does not end")
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a line end whose first half came with the piece before
            self._after_return = False
        if not piece:
            return
        self._after_return = piece.endswith(b"\r")
        *ended, rest = _LINE_END.split(piece)
        for part in ended:
            self._append(part)
            if (event := self._end_line()) is not None:
                yield event
        self._append(rest)

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            raise WrongAnswerError(f"the answer is larger than {self._longest // 1024**2} MiB")
        if part:
            self._line.append(part)

    def _end_line(self) -> bytes | None:
        line = b"".join(self._line)
        self._line.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._end_event()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        else:
            self._size -= len(line)
        return None

    def _end_event(self) -> bytes | None:
        data = b"\n".join(self._data)
        self._size = 0
        if not self._data:
            return None
        self._data.clear()
        self._events_left -= 1
        if self._events_left < 0:
            raise WrongAnswerError("the answer's stream has too many events")
        return data
