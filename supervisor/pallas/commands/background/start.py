"""Starts a supervisor in the background: in a session of its own, with nothing of this terminal.

Knows processes; nothing of what is shown meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_PRINTED = 64 * 1024
"""Bytes that are shown of what it has printed."""


class BackgroundSupervisor:
    """A supervisor that has just been started.

    What it prints before its log is open is kept in memory for as long as this process reads it; from then on it
    prints nothing. A session of its own has no terminal: the end of this one sends it no SIGHUP, which would have it
    reload, and Ctrl-C no SIGINT.

    Args:
        arguments: of `pallas up`.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._printed = os.memfd_create("pallas-up", os.MFD_CLOEXEC)
        # -P: modules of the working directory must not take the place of ours.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-P", "-m", "pallas", "up", "--in-background", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=self._printed,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit status, or None while it runs."""
        return self._process.poll()

    def printed(self) -> str:
        """What it has printed."""
        return os.pread(self._printed, MOST_PRINTED, 0).decode(errors="replace")
