"""Starts a supervisor in the background: in a session of its own, with nothing of this terminal.

Knows processes; nothing of what is shown meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from pallas_common.processes.spawning import execute

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
        command = [sys.executable, "-P", "-m", "pallas", "up", "--in-background", *arguments]
        self._pid = execute(command, os.environ, [], self._printed)
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._pid

    def ended(self) -> int | None:
        """Its exit status, or None while it runs."""
        if self._status is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def printed(self) -> str:
        """What it has printed."""
        return os.pread(self._printed, MOST_PRINTED, 0).decode(errors="replace")
