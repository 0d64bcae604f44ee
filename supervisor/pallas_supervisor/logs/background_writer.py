"""Lines handed to a thread that writes them, so that a slow disk or terminal delays that thread alone.

Knows one bounded queue and one function that writes; nothing of what the lines are or where they go.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_OVERHEAD = 100


class BackgroundWriter:
    """One thread that writes lines in the order in which they came; `put` never waits.

    Args:
        write: writes one line; may block, must not raise.
        limit: bytes of lines that may wait.
        finish: called on the thread after the last line.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[bytes], None],
        *,
        limit: int,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        self._write = write
        self._limit = limit
        self._finish = finish
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self.dropped = 0
        """Lines for which there was no room."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Hand over one line; drop and count it if too many bytes wait already."""
        with self._lock:
            if self._waiting > self._limit:
                self.dropped += 1
                return
            self._waiting += len(line) + LINE_OVERHEAD
        self._queue.put(line)

    def close(self) -> None:
        """Take no more lines. The thread ends once it has written those that wait; `join` waits for that."""
        self._queue.put(None)

    def join(self, timeout: float) -> bool:
        """Wait at most so many seconds for the thread's end; whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (line := self._queue.get()) is not None:
                with self._lock:
                    self._waiting -= len(line) + LINE_OVERHEAD
                self._write(line)
        finally:
            self._finish()
