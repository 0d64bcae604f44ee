"""The supervisor's end of the keeper: has it start programs, asks how they ended, and has them reaped.

Knows the command channel (`subreaper` is the other end) and what follows when it fails: a keeper that dies leaves its
children to the supervisor, which is a subreaper itself, and one that does not answer is killed, with the same effect.

It is asked within the loop's turn, and the loop waits for the answer, for a fraction of a millisecond: between the
question and the answer nothing else of the supervisor may look at, signal or reap the same child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import sys
from itertools import batched
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_supervisor.processes.keeper import subreaper
from pallas_supervisor.processes.linux.helper_process import HelperProcess
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS, ProcessParent, children, exit_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pallas_supervisor.lifecycle.states import Exit

START_TIMEOUT = 10.0
"""Seconds until a new keeper's first answer; it takes some twenty milliseconds to start. The supervisor's loop waits
for so long, `TRIES` times at most: less than a service manager's watchdog is patient, which would end the fleet."""

ANSWER_TIMEOUT = 5.0
"""Seconds that an answer may take; it takes a fraction of a millisecond. The supervisor's loop waits for so long."""

END_TIMEOUT = 3.0
"""Seconds that it may take to end what is left of its children, and itself."""

TRIES = 2
"""Keepers in a row that may go without a word; after that, all is started below the supervisor itself."""

_REAPED_AT_ONCE = 1000

_log = get_logger("pallas.supervisor.keeper")


class KeeperError(OSError):
    """The keeper has gone meanwhile, and its children are ours now; what was asked may have been done."""


class _Process(HelperProcess):
    """One keeper process, and the pipe on which it writes a byte for each child that has ended."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.deaths, write_end = os.pipe()
        os.set_blocking(self.deaths, False)
        command = [sys.executable, "-I", "-S", subreaper.__file__]
        try:
            super().__init__(THIS_PROCESS, command, environment, [write_end])
        except OSError:
            os.close(self.deaths)
            raise
        finally:
            os.close(write_end)
        self.channel.settimeout(START_TIMEOUT)
        self.answered = False

    def await_end(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """Let go of it; if it has ended, reap it."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        self.channel.close()
        os.close(self.deaths)
        os.close(self.pidfd)


class Keeper(ProcessParent):
    """One keeper process at a time; one that is gone is made again when something is to be started.

    Args:
        environment: the process's whole environment.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._process: _Process | None = None
        self._lost = False
        self._silent = 0
        self._died: Callable[[], None] = lambda: None
        self._replaced: Callable[[], None] = lambda: None
        self._watching = False
        self.start_observers: list[Callable[[], None]] = []
        """Called after each start of the process."""

    @property
    def pid(self) -> int | None:
        """The process ID, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process; returns at once. Needs no event loop.

        Raises:
            OSError: it cannot be started.
        """
        self._process = _Process(self._environment)
        self._add_readers()
        for observe in self.start_observers:
            observe()

    def watch(self, died: Callable[[], None], replaced: Callable[[], None]) -> None:
        """Notice deaths; for the running loop.

        Args:
            died: is called when children have ended.
            replaced: is called when the keeper has gone, and its children are ours; the next start makes another.
        """
        self._died, self._replaced, self._watching = died, replaced, True
        self._add_readers()

    # --- as the parent of what it has started -------------------------------------------------------------

    def execute(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        inherited: Iterable[int],
        output: int | None,
    ) -> int:
        """Start a program below the keeper; see `spawning.execute`.

        Raises:
            KeeperError: it may have been started, or not.
            OSError: it cannot be executed.
        """
        numbers = list(inherited)
        if self._process is None and self._silent < TRIES:
            self.start()
        if self._process is None:
            return super().execute(arguments, environment, numbers, output)
        memory = os.memfd_create("pallas-keeper")
        try:
            wanted = subreaper.pack(arguments, dict(environment), numbers, -1 if output is None else output)
            os.pwrite(memory, wanted, 0)
            answer = int(self._ask("execute", [memory, *numbers]))
        finally:
            os.close(memory)
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer), arguments[0])
        return answer

    def pids(self) -> set[int]:
        """The keeper's children; after a keeper has been lost also our own, among which its children are."""
        kept = self._kept()
        return kept | (super().pids() - self._own()) if self._lost else kept

    def adopted(self) -> set[int]:
        """All children, also those that come from no worker."""
        return self._kept() | (super().pids() - self._own())

    def is_certainly_ours(self, pid: int) -> bool:
        """Whether it is a child of the keeper, which has none but what comes from workers and the zygote."""
        return pid in self._kept()

    def exit_of(self, pid: int, pidfd: int) -> Exit | None:
        """How a child ended, without reaping it; None while it runs."""
        with contextlib.suppress(KeeperError):
            if self._process is not None and (answer := self._ask(f"exit {pid}")) != b"gone":
                return None if answer == b"alive" else exit_from(*map(int, answer.split()))
        return super().exit_of(pid, pidfd)

    def reap(self, pids: Iterable[int]) -> None:
        """Reap those of these children that have ended."""
        every = set(pids)
        theirs = every & self._kept()
        with contextlib.suppress(KeeperError):
            for some in batched(theirs, _REAPED_AT_ONCE, strict=False):
                self._ask(f"reap {' '.join(map(str, some))}")
        super().reap(every if self._process is None else every - theirs)

    def end(self) -> None:
        """Have all that is left of its children killed, and return once it is gone."""
        if (process := self._process) is None:
            return
        self._remove_readers(process)
        self._process = None
        with contextlib.suppress(OSError):
            process.channel.send(b"end")
        if not process.await_end(END_TIMEOUT):
            _log.warning(f"process {process.pid} goes on ending what agents have left behind")
        process.close()

    # --- how it is done -----------------------------------------------------------------------------------

    def _kept(self) -> set[int]:
        return set() if self._process is None else set(children(self._process.pid))

    def _own(self) -> set[int]:
        return set() if self._process is None else {self._process.pid}

    def _ask(self, command: str, descriptors: Sequence[int] = ()) -> bytes:
        process = self._process
        if process is None:
            raise KeeperError("there is no keeper")
        try:
            socket.send_fds(process.channel, [command.encode()], list(descriptors))
            answer = process.channel.recv(64)
        except OSError as error:
            answer = b""
            _log.warning(f"the keeper does not answer: {error}")
        if not answer:
            self._lose(process)
            raise KeeperError("the keeper has gone")
        if not process.answered:
            process.answered, self._silent = True, 0
            process.channel.settimeout(ANSWER_TIMEOUT)
        return answer

    def _lose(self, process: _Process) -> None:
        """Go on without a keeper: once it is dead, the kernel has made its children ours."""
        if process is not self._process:
            return
        self._remove_readers(process)
        self._process, self._lost = None, True
        self._silent += not process.answered
        process.kill()
        process.await_end(END_TIMEOUT)
        process.close()
        _log.warning("the keeper of workers has gone; running workers are not concerned")
        if self._watching:
            asyncio.get_running_loop().call_soon(self._replaced)

    def _add_readers(self) -> None:
        if self._watching and (process := self._process) is not None:
            loop = asyncio.get_running_loop()
            loop.add_reader(process.pidfd, self._lose, process)
            loop.add_reader(process.deaths, self._read_deaths, process)

    def _remove_readers(self, process: _Process) -> None:
        if self._watching:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its readers with it
                loop = asyncio.get_running_loop()
                loop.remove_reader(process.pidfd)
                loop.remove_reader(process.deaths)

    def _read_deaths(self, process: _Process) -> None:
        with contextlib.suppress(OSError):
            if os.read(process.deaths, 4096) == b"":
                asyncio.get_running_loop().remove_reader(process.deaths)
        self._died()
