"""`status --watch`: a picture of the status document that is drawn again when something has happened.

Knows when to ask again; what the picture looks like is the caller's.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from pallas_control.errors import ControlError
from pallas_control.events import follow_events
from pallasctl.live import Screen
from pallasctl.text import one_line, paint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pallas_control.client import Control
    from pallas_control.documents import EventPosition, StatusDocument

REFRESH = 2.0
"""Seconds after which it is drawn again though nothing has happened: durations go on."""

PAUSE = 0.1
"""Seconds between two requests at least: many events that come together are one change."""


class Picture(NamedTuple):
    """What is drawn."""

    head: Sequence[str]
    rows: Sequence[str]
    foot: Sequence[str]


class Changes:
    """A descriptor that can be read once something has happened since the position of a document.

    A thread of its own follows the events; it ends with the process.
    """

    def __init__(self, control: Control, after: EventPosition | None) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.descriptor = self._reader.fileno()
        if after is not None:  # a supervisor that has no events yet is asked every now and then only
            threading.Thread(target=self._follow, args=(control, after), name="events", daemon=True).start()

    def forget(self) -> None:
        """Wait for the next one."""
        with contextlib.suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass

    def _follow(self, control: Control, after: EventPosition) -> None:
        with contextlib.suppress(ControlError):
            for _ in follow_events(control, {}, after):
                with contextlib.suppress(BlockingIOError):
                    self._writer.send(b"!")


def watch(control: Control, document: StatusDocument, draw: Callable[[StatusDocument], Picture]) -> None:
    """Draw the document, and each that comes after it, until `q` is typed.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    changes = Changes(control, document.get("events"))
    gone = ""
    with Screen() as screen:
        while True:
            picture = draw(document)
            screen.draw(picture.head, picture.rows, [*picture.foot, *_below(gone)], what="agent")
            asked = time.monotonic()
            if "q" in screen.wait(REFRESH, changes.descriptor).lower():
                return
            if "q" in screen.wait(max(0.0, asked + PAUSE - time.monotonic())).lower():
                return
            changes.forget()
            try:
                document, gone = control.get("/v1/status"), ""
            except ControlError as error:
                gone = error.message


def _below(gone: str) -> list[str]:
    if gone:
        return ["", paint(f"{one_line(gone)}; this is how it was before", "red")]
    return ["", paint("q or Ctrl-C ends", "dim")]
