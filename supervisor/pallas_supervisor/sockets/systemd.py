"""What the supervisor says to systemd, and hands to it; silent where there is no systemd (sd_notify(3)).

Knows one datagram socket and the protocol's words; nothing of agents, and nothing of what the descriptors are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from itertools import batched
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


SEND_TIMEOUT = 0.1
"""Seconds that a manager may be too busy to listen; the loop waits for so long."""

BARRIER_TIMEOUT = 5.0
"""Seconds that a manager may take to read what was sent."""

MOST_DESCRIPTORS = 253
"""Of one message (SCM_RIGHTS in unix(7))."""

PROBE_NAME = "pallas-probe"
"""What the descriptor is called that only finds out whether descriptors are kept."""


class Notifier:
    """Sends state to the manager named by `NOTIFY_SOCKET`; a manager that has gone is no error."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._status: str | None = None
        self.watchdog_interval = _watchdog_interval(environ)
        """Seconds between keep-alives (half of what systemd allows), or None if it expects none."""

    def send(self, *assignments: str, descriptors: Iterable[int] = ()) -> bool:
        """Send assignments such as `READY=1` in one datagram, with descriptors; whether it was sent."""
        if not self._address:
            return False
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(SEND_TIMEOUT)
            channel.connect(self._address)
            socket.send_fds(channel, ["\n".join(assignments).encode()], list(descriptors))
            return True
        return False

    def status(self, text: str) -> None:
        """Show `text` in `systemctl status`; repeating it sends nothing."""
        if self._status != text:
            self._status = text
            self.send(f"STATUS={' '.join(text.split())}")

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        """Let the manager know that the configuration is being read again, and when that is over."""
        # The time lets `Type=notify-reload` tell this reload from an earlier one.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.send("RELOADING=1", f"MONOTONIC_USEC={now}")
        try:
            yield
        finally:
            self.send("READY=1")

    def extend_timeout(self, seconds: float) -> None:
        """Ask for so many more seconds from now for what is under way; never shortens the manager's own limit."""
        self.send(f"EXTEND_TIMEOUT_USEC={round(seconds * 1_000_000)}")

    # --- descriptors that the manager keeps ---------------------------------------------------------------

    def store(self, name: str, descriptors: Sequence[int]) -> bool:
        """Have the manager keep copies of descriptors for the next process of the unit; whether all were sent.

        It has them beside those that it keeps under this name already, except what it has anyway.
        """
        return all(
            self.send("FDSTORE=1", f"FDNAME={name}", descriptors=piece)
            for piece in batched(descriptors, MOST_DESCRIPTORS, strict=False)
        )

    def remove(self, name: str) -> None:
        """Have the manager close all that it keeps under this name."""
        self.send("FDSTOREREMOVE=1", f"FDNAME={name}")

    async def keeps_descriptors(self) -> bool:
        """Whether the manager keeps what it is given.

        There is nothing to ask for this in older ones, so it is tried: a manager that does not keep the end of a
        socket pair closes it, and the other end tells.
        """
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                sent = self.store(PROBE_NAME, [theirs.fileno()])
            if not sent or not await self._barrier():
                return False
            ours.setblocking(False)
            try:
                return ours.recv(1) != b""
            except BlockingIOError:
                return True
            except OSError:
                return False
            finally:
                self.remove(PROBE_NAME)

    async def _barrier(self) -> bool:
        """Wait until the manager has worked off everything that was sent so far; whether it has in time."""
        ours, theirs = os.pipe()
        loop = asyncio.get_running_loop()
        closed = asyncio.Event()
        try:
            sent = self.send("BARRIER=1", descriptors=[theirs])
        finally:
            os.close(theirs)
        if sent:
            loop.add_reader(ours, closed.set)
        try:
            async with asyncio.timeout(BARRIER_TIMEOUT if sent else 0):
                await closed.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(ours)
            os.close(ours)
        return True


def _watchdog_interval(environ: Mapping[str, str]) -> float | None:
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        microseconds = int(environ["WATCHDOG_USEC"])
    except (KeyError, ValueError):
        return None
    return microseconds / 2_000_000 if microseconds > 0 else None
