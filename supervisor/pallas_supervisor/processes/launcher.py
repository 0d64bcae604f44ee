"""Worker processes: spawned, watched, signalled, reaped. The engine's `Processes`, and the only maker of workers.

Knows process IDs and pidfds; answers with events and never looks at an agent's state.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.spec import EXIT_FAILURE
from pallas_supervisor.lifecycle.events import Died, Event, Reaped, Spawned, SpawnFailed
from pallas_supervisor.lifecycle.states import Exit, WorkerId, label
from pallas_supervisor.processes.keeper.client import Keeper
from pallas_supervisor.processes.linux.process_tree import exists, send_signal
from pallas_supervisor.processes.origins import Origins
from pallas_supervisor.processes.reaper import REAP_INTERVALS, Reaper
from pallas_supervisor.processes.starter import CalledOffError, LaunchContext, Starter
from pallas_supervisor.processes.worker import Worker, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLIND_INTERVAL = 0.5
"""Seconds between tries while this process has no descriptor left to look at others with."""

_UNUSABLE_INTERPRETER = (FileNotFoundError, NotADirectoryError, PermissionError)
"""What trying again does not mend."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What says that the machine, or this process, has run out of something."""

_log = get_logger("pallas.supervisor.launch")


class Launcher:
    """All live workers, from spawn until nothing is left of them.

    A worker's death is its pidfd's, which the loop watches: a grandchild may hold its pipes open for ever, and to wait
    for any child would take those of others. The dead worker stays a zombie until its group has been killed, because
    its number, which is the group's, is not given to another process for so long.

    Args:
        context: what workers are started with.
        emit: takes the events.
        gone: is called when nothing of a worker is left: before `Reaped`, and where a start came to nothing.
    """

    def __init__(
        self,
        context: LaunchContext,
        *,
        emit: Callable[[str, Event], None],
        gone: Callable[[WorkerId], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = context
        self._emit = emit
        self._gone = gone
        self._workers: dict[WorkerId, Worker] = {}
        self._reaper = Reaper(self._workers, context.zygote, context.parent)
        self._origins = Origins(
            context.parent, context.groups, None if context.zygote is None else context.zygote.pid
        )
        self._starter = Starter(context, self._reaper)
        self._spawning: set[asyncio.Task[None]] = set()
        if context.zygote is not None:
            context.zygote.watch()
        if isinstance(context.parent, Keeper):
            context.parent.watch(self.reap_adopted, self._keeper_replaced)

    def is_from_workers(self, pid: int) -> bool:
        """Whether a process is a worker's or the zygote's, or descends from one; also where that cannot be seen.

        Raises:
            OSError: no descriptor is left to look with.
        """
        return self._origins.is_from_workers(pid)

    @property
    def lifeline(self) -> int:
        """The descriptor of the pipe that every worker holds."""
        return self._starter.lifeline

    def worker(self, worker_id: WorkerId) -> Worker | None:
        """The live worker of this start of an agent."""
        return self._workers.get(worker_id)

    @property
    def workers(self) -> dict[WorkerId, Worker]:
        """All live workers."""
        return self._workers.copy()

    def reap_adopted(self) -> None:
        """Reap adopted processes that have ended; for SIGCHLD. A pending spawn may be among the children."""
        if self._spawning:
            return
        try:
            self._reaper.reap()
        except OSError:  # no descriptor is left to look with
            self._loop.call_later(BLIND_INTERVAL, self.reap_adopted)

    # --- the engine's calls -------------------------------------------------------------------------------

    def spawn(self, worker_id: WorkerId) -> None:
        """Start a worker; answers with `Spawned` or `SpawnFailed`."""
        task = self._loop.create_task(self._spawn(worker_id), name=f"spawn {worker_id.name}")
        self._spawning.add(task)
        task.add_done_callback(self._spawned)

    def terminate(self, worker_id: WorkerId) -> None:
        """Ask the worker to drain and exit."""
        self._starter.call_off(worker_id)
        if (worker := self._workers.get(worker_id)) is not None:
            send_signal(worker.pidfd, signal.SIGTERM)

    def kill(self, worker_id: WorkerId, reason: str | None = None) -> None:
        """Kill the worker and all that it has started; `reason` goes into its exit."""
        self._starter.call_off(worker_id)
        if (worker := self._workers.get(worker_id)) is None:
            return
        worker.reason = worker.reason or reason
        if worker.launch_info.group is not None:
            worker.launch_info.group.kill()
        send_signal(worker.pidfd, signal.SIGKILL)  # it may not have opened its group yet
        if not worker.group_empty:  # else its number may be another group's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)

    def reap(self, worker_id: WorkerId) -> None:
        """Kill what is left of the group and of strays, reap, and say `Reaped` when nothing is left."""
        self._reap(self._workers[worker_id], 0)

    async def close(self) -> None:
        """Let go of the lifeline and end all that is left of agents and zygote, once no worker is left."""
        with contextlib.suppress(OSError):  # no descriptor is left to look with
            await self._reaper.end_all()
        self._starter.close()

    # --- how it is done -----------------------------------------------------------------------------------

    def _keeper_replaced(self) -> None:
        """Have the zygote start anew: what the present one forks would be no child of the next keeper."""
        if self._context.zygote is not None:
            self._context.zygote.kill()
        self.reap_adopted()

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._spawning.discard(task)
        self.reap_adopted()  # what ended meanwhile had to be left alone

    async def _spawn(self, worker_id: WorkerId) -> None:
        name, generation = worker_id
        try:
            worker = self._workers[worker_id] = await self._starter.start(worker_id)
            self._reaper.starting.discard(worker_id)
        except Exception as error:  # noqa: BLE001 - the engine counts on an answer
            if not isinstance(error, OSError | CalledOffError):
                _log.exception(f"{label(name)}: cannot be started", agent=label(name))
            self._let_go(worker_id)
            message = f"cannot be started: {error}"
            permanent = isinstance(error, _UNUSABLE_INTERPRETER)
            exhausted = isinstance(error, OSError) and error.errno in _EXHAUSTED
            self._emit(name, SpawnFailed(generation, message, permanent, exhausted))
            return
        self._loop.add_reader(worker.pidfd, self._ended, worker)
        self._emit(name, Spawned(generation, worker.pid))

    def _ended(self, worker: Worker) -> None:
        exit_ = self._exit_of(worker)
        if exit_ is None:
            return
        self._loop.remove_reader(worker.pidfd)
        with self._errors_logged(worker.id):
            exit_ = replace(exit_, reason=reason_of(worker, exit_))
            self._context.pipes.drain(worker.id)
        self._emit(worker.id.name, Died(worker.id.generation, exit_))

    def _exit_of(self, worker: Worker) -> Exit | None:
        try:
            return self._context.parent.exit_of(worker.pid, worker.pidfd)
        except ChildProcessError:  # it has been reaped elsewhere
            return Exit(status=EXIT_FAILURE)

    def _reap(self, worker: Worker, attempt: int) -> None:
        delay = REAP_INTERVALS[min(attempt, len(REAP_INTERVALS) - 1)]
        try:
            clean = self._reaper.clean_up(worker)
            if clean and exists(worker.pidfd):  # it ended before it opened its group
                self._context.parent.reap([worker.pid])
        except OSError:
            clean, delay = False, BLIND_INTERVAL
        if not clean:
            self._loop.call_later(delay, self._reap, worker, attempt + 1)
            return
        del self._workers[worker.id]
        os.close(worker.pidfd)
        with self._errors_logged(worker.id):
            if worker.launch_info.group is not None:
                worker.launch_info.group.remove()
            self._context.pipes.drain(worker.id)
        self._let_go(worker.id)
        self._emit(worker.id.name, Reaped(worker.id.generation))

    def _let_go(self, worker_id: WorkerId) -> None:
        for end in (self._context.pipes.close, self._gone):
            with self._errors_logged(worker_id):
                end(worker_id)

    @contextlib.contextmanager
    def _errors_logged(self, worker_id: WorkerId) -> Iterator[None]:
        """Let nothing that a dead worker has left in its pipes keep the engine from hearing of its end."""
        try:
            yield
        except Exception:  # noqa: BLE001 - whatever it is, the engine waits for the event
            _log.exception(f"{label(worker_id.name)}: cannot be settled", agent=label(worker_id.name))
