"""The supervisor's process, as the kernel and systemd know it: who listens on the socket, and who has started it.

Knows SO_PEERCRED, pidfds and /proc; nothing of documents or verbs.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from pallas_control.errors import ForbiddenError

if TYPE_CHECKING:
    from types import TracebackType

_CREDENTIALS = struct.Struct("3i")
_UNIT = re.compile(r"/([^/]+\.service)(?=/|$)")


class Unit(NamedTuple):
    """A unit of a service manager."""

    name: str
    of_user: bool
    """Whether it is the user's own manager's."""

    @property
    def stop_command(self) -> str:
        """What stops it."""
        return f"systemctl {'--user ' if self.of_user else ''}stop {self.name}"


class SupervisorProcess:
    """The process that listens on a control socket, held so that its number cannot become another's.

    Args:
        path: of the control socket.

    Raises:
        FileNotFoundError, ConnectionRefusedError: nobody listens there.
        ForbiddenError: this user may not connect.
        ProcessLookupError: it has just ended.
    """

    def __init__(self, path: Path) -> None:
        self.pid, self.uid = _listener(path)
        self._pidfd = os.pidfd_open(self.pid)
        if _listener(path)[0] != self.pid:  # it ended between the two, and its number may be another's
            os.close(self._pidfd)
            raise ProcessLookupError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        os.close(self._pidfd)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; one that has ended gets none.

        Raises:
            PermissionError: it belongs to another user.
        """
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            return

    def has_ended(self, timeout: float) -> bool:
        """Whether it ends within so many seconds."""
        return bool(select.select([self._pidfd], [], [], timeout)[0])

    @property
    def unit(self) -> Unit | None:
        """The unit as whose process a service manager has started it; None if somebody else has."""
        try:
            cgroup = Path(f"/proc/{self.pid}/cgroup").read_text()
            environment = Path(f"/proc/{self.pid}/environ").read_bytes()
        except OSError:
            return None
        return unit_of(self.pid, cgroup, environment)


def unit_of(pid: int, cgroup: str, environment: bytes) -> Unit | None:
    """The unit of a process that systemd has executed itself, which systemd.exec(5) tells by `SYSTEMD_EXEC_PID`.

    Its control group alone would not do: what is started from a terminal is within the terminal's unit.

    Args:
        cgroup: its `/proc/PID/cgroup`.
        environment: its `/proc/PID/environ`.
    """
    if f"SYSTEMD_EXEC_PID={pid}".encode() not in environment.split(b"\0"):
        return None
    names = _UNIT.findall(cgroup)
    if not names:
        return None
    return Unit(names[-1], any(name.startswith("user@") for name in names[:-1]))


def _listener(path: Path) -> tuple[int, int]:
    """Process and user that listen on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10.0)
        try:
            connection.connect(str(path))
        except PermissionError:
            raise ForbiddenError(
                f"no permission for {path}: it runs as another user; stop it as that user, or with sudo"
            ) from None
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return pid, uid
