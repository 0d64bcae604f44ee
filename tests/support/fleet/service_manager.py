"""A service manager's side of the supervisor's life: hears what is said, keeps descriptors, hands them down again.

Knows sd_notify(3) and sd_listen_fds(3), as systemd keeps to them; nothing of what is supervised.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE = 90.0
MOST_DESCRIPTORS = 253
"""Of one message (SCM_RIGHTS in unix(7))."""

HAND_DOWN = """
import fcntl, os, sys
given = [int(number) for number in sys.argv[1].split(",") if number]
high = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in given]
for place, number in enumerate(high):
    os.dup2(number, 3 + place)
os.closerange(3 + len(given), 200)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Puts descriptors where the next program looks for them, and becomes that program."""


class ServiceManager:
    """Keeps what it is given under names; `keeps=False` is one that closes it, as systemd does without a store."""

    def __init__(self, directory: Path, *, keeps: bool = True) -> None:
        self._address = str(directory / "notify")
        self._keeps = keeps
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._channel.bind(self._address)
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self.said: list[str] = []
        """All assignments, in order."""
        self.store: dict[str, list[int]] = {}
        """Name → descriptors."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(b"END", self._address)
        self._thread.join()
        self._channel.close()
        for descriptor in self.descriptors:
            os.close(descriptor)

    # --- towards the service ------------------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        """What the next start is told."""
        environment = {"NOTIFY_SOCKET": self._address}
        if self.store:
            environment["LISTEN_FDS"] = str(len(self.descriptors))
            environment["LISTEN_FDNAMES"] = ":".join(name for name, kept in self.store.items() for _ in kept)
        return environment

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the next start inherits."""
        return tuple(descriptor for kept in self.store.values() for descriptor in kept)

    @property
    def wrapper(self) -> list[str]:
        """To be put before the service's command line."""
        return [sys.executable, "-IS", "-c", HAND_DOWN, ",".join(map(str, self.descriptors))]

    # --- what was heard -----------------------------------------------------------------------------------

    def until(self, reached: Callable[[list[str]], bool], since: int = 0) -> list[str]:
        """What was said after the first `since` assignments, as soon as `reached` holds of it."""
        with self._news:
            done = self._news.wait_for(lambda: reached(self.said[since:]), PATIENCE)
            assert done, f"not said: {self.said[since:]}"
            return self.said[since:]

    def _listen(self) -> None:
        while True:
            message, descriptors, _, _ = socket.recv_fds(self._channel, 65536, MOST_DESCRIPTORS)
            if message == b"END":
                return
            with self._news:
                self._take(message.decode().splitlines(), descriptors)
                self._news.notify_all()

    def _take(self, assignments: list[str], descriptors: list[int]) -> None:
        self.said += assignments
        fields = dict(assignment.split("=", 1) for assignment in assignments)
        name = fields.get("FDNAME", "stored")
        if fields.get("FDSTOREREMOVE") == "1":
            for descriptor in self.store.pop(name, ()):
                os.close(descriptor)
        if fields.get("FDSTORE") == "1" and self._keeps:
            had = {os.fstat(descriptor).st_ino for descriptor in self.descriptors}
            new = [descriptor for descriptor in descriptors if os.fstat(descriptor).st_ino not in had]
            self.store.setdefault(name, []).extend(new)
            descriptors = [descriptor for descriptor in descriptors if descriptor not in new]
        for descriptor in descriptors:
            os.close(descriptor)
