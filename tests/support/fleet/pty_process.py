"""A program in a terminal of its own, as a person runs it: what it shows, and keys that are typed.

Waits for what is shown, never for time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PATIENCE = 180.0

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def _take_terminal() -> None:
    """Make stdin the controlling terminal: Ctrl-C and a hang-up reach only who has one.

    Also where whoever started the tests has them ignore a hang-up, as `nohup` does.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class PtyProcess:
    """The program; as a context manager its terminal is closed, and what is left of it killed, at the end."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        env: Mapping[str, str],
        columns: int = 250,
    ) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env={"TERM": "xterm-256color", **env},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self._shown = b""
        self._news = threading.Condition()
        self._over = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        try:
            self.process.wait(PATIENCE if self.process.poll() is not None else 30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reading.join(PATIENCE)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                data = b""
            with self._news:
                self._shown += data
                self._over = not data
                self._news.notify_all()
                if self._over:
                    return

    @property
    def raw(self) -> str:
        """All that it has shown."""
        return self._shown.decode(errors="replace")

    @property
    def text(self) -> str:
        """All that it has shown, without colours."""
        return _COLOURS.sub("", self.raw).replace("\r\n", "\n")

    def until(self, pattern: str) -> re.Match[str]:
        """The first match in what is shown, as soon as it is there."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, self.text, re.MULTILINE)

        with self._news:
            self._news.wait_for(lambda: found() or self._over, PATIENCE)
        match = found()
        assert match, f"{pattern!r} is not shown:\n{self.text[-4000:]}"
        return match

    def type(self, keys: str) -> None:
        """Type these keys; `\\x03` is Ctrl-C."""
        os.write(self._master, keys.encode())

    def wait(self) -> int:
        """The exit status, once it has ended and all that it has shown is read."""
        status = self.process.wait(PATIENCE)
        with self._news:
            self._news.wait_for(lambda: self._over, 5.0 if self._reading.is_alive() else 0.0)
        return status

    def hang_up(self) -> None:
        """Close the terminal, as its window does: what has it as its controlling one gets SIGHUP."""
        if self._master >= 0:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGHUP)
            with contextlib.suppress(OSError):
                os.close(self._master)
            self._master = -1
