"""Words to systemd: READY, STATUS, STOPPING, WATCHDOG; silent where there is no systemd (sd_notify(3)).

Knows one datagram socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


SEND_TIMEOUT = 0.1
"""Seconds that a manager may be too busy to listen; the loop waits for so long."""


class Notifier:
    """Sends state to the manager named by `NOTIFY_SOCKET`; a manager that has gone is no error."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._status: str | None = None
        self.watchdog_interval = _watchdog_interval(environ)
        """Seconds between keep-alives (half of what systemd allows), or None if it expects none."""

    def send(self, *assignments: str) -> None:
        """Send assignments such as `READY=1` in one datagram."""
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(SEND_TIMEOUT)
            channel.connect(self._address)
            channel.send("\n".join(assignments).encode())

    def status(self, text: str) -> None:
        """Show `text` in `systemctl status`; repeating it sends nothing."""
        if self._status != text:
            self._status = text
            self.send(f"STATUS={' '.join(text.split())}")


def _watchdog_interval(environ: Mapping[str, str]) -> float | None:
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        microseconds = int(environ["WATCHDOG_USEC"])
    except (KeyError, ValueError):
        return None
    return microseconds / 2_000_000 if microseconds > 0 else None
