"""How workers of the tests come to be, and a hold on each: forked from a zygote that all share, or executed.

Knows `main` and system calls; must not know what a worker serves.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_common.processes.spawning import execute
from pallas_supervisor.processes.linux.process_tree import become_subreaper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_common.protocol.spec import Descriptors

PROGRAM = str(Path(__file__).with_name("main.py"))

MODELS = ["openai.gpt-4.1", "anthropic.claude-sonnet-4-5"]
"""What the zygote imports the libraries for, so that not each worker has to."""

SMALL_ENVIRONMENT = {
    name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ
}
"""What every process needs, without any key."""

_PR_SET_CHILD_SUBREAPER = 36


class Child:
    """A child by its pidfd, with the part of `subprocess.Popen` that tests use. Threads may share it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Its exit status, or the negated number of the signal that ended it; None while it runs."""
        self._pidfd = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit status if it has ended."""
        with self._lock:
            if self.returncode is None and (info := os.waitid(os.P_PIDFD, self._pidfd, _NOW)) is not None:
                ended = info.si_code == os.CLD_EXITED
                self.returncode = info.si_status if ended else -info.si_status
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit status, once it has ended.

        Raises:
            TimeoutError: it has not ended within `timeout` seconds.
        """
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        waiting.poll(timeout * 1000)
        if (status := self.poll()) is None:
            raise TimeoutError(f"process {self.pid} has not ended within {timeout:g} s")
        return status

    def terminate(self) -> None:
        """Ask it to drain."""
        self._send(signal.SIGTERM)

    def end(self) -> None:
        """Kill it and what is left of its process group, and let go of it."""
        if self.poll() is None:
            self._send(signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait(30)
        os.close(self._pidfd)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)


_NOW = os.WEXITED | os.WNOHANG


def forked(descriptors: Descriptors, environment: Mapping[str, str]) -> Child:
    """A worker of the zygote's; it takes its environment from its specification."""
    return _zygote().fork(descriptors)


def executed(descriptors: Descriptors, environment: Mapping[str, str]) -> Child:
    """A worker in an interpreter of its own, as where an agent names one; it takes seconds to start."""
    command = [sys.executable, "-P", PROGRAM, "worker", ",".join(map(str, descriptors))]
    return Child(execute(command, environment, descriptors, descriptors.output))


class _Zygote:
    """The zygote of this process's workers; ends with it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", PROGRAM, "zygote", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=SMALL_ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._turn = threading.Lock()
        self._channel.send(json.dumps({"modules": [], "models": MODELS}).encode())
        while self._answer() != {"ready": True}:
            pass

    def fork(self, descriptors: Descriptors) -> Child:
        with self._turn, _adopting():
            socket.send_fds(self._channel, [b"spawn"], list(descriptors))
            answer = self._answer()
            assert isinstance(answer.get("pid"), int), answer
            return Child(answer["pid"])

    def close(self) -> None:
        self._channel.close()
        self._process.wait(30)

    def _answer(self) -> dict[str, Any]:
        packet = self._channel.recv(4096)
        assert packet, "the zygote has gone; see what it wrote to stderr"
        answer: dict[str, Any] = json.loads(packet)
        return answer


@functools.cache
def _zygote() -> _Zygote:
    zygote = _Zygote()
    atexit.register(zygote.close)
    return zygote


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """What is forked becomes this process's child; at other times orphans are none of its business."""
    become_subreaper()
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0)
