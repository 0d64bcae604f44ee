"""Worker processes: spawned, watched, signalled, swept. The engine's `Processes`, and the only maker of workers.

Knows descriptors, process IDs and pidfds; answers with events and never looks at an agent's state.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.spec import EXIT_FAILURE, Descriptors
from pallas_supervisor.lifecycle.events import Died, Event, Reaped, Spawned, SpawnFailed
from pallas_supervisor.lifecycle.states import Exit, WorkerId
from pallas_supervisor.processes.keeper.client import Keeper, KeeperError
from pallas_supervisor.processes.linux import procfs
from pallas_supervisor.processes.linux.process_tree import (
    NASCENT,
    OWN,
    Offspring,
    is_unreaped,
    pidfd_of,
    send,
)
from pallas_supervisor.processes.reaper import SWEEP_INTERVALS, Reaper
from pallas_supervisor.processes.worker import LaunchInfo, Worker, reason_of
from pallas_supervisor.processes.zygote_client import Zygote, ZygoteError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pallas_common.protocol.spec import WorkerSpec
    from pallas_supervisor.processes.linux.cgroups import Groups, WorkerGroup
    from pallas_supervisor.processes.pipes.notices import NoticePipes

BLIND_INTERVAL = 0.5
"""Seconds between tries while this process has no descriptor left to look at others with."""

_UNUSABLE_INTERPRETER = (FileNotFoundError, NotADirectoryError, PermissionError)
"""What trying again does not mend."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What says that the machine, or this process, has run out of something."""

_log = get_logger("pallas.supervisor.launch")


class CalledOffError(Exception):
    """A start was not wanted any more while it waited for its turn."""


class WorkerPipes(Protocol):
    """Where a worker's pipes end; see `intake`."""

    def open(self, worker_id: WorkerId) -> tuple[int, int, int]:
        """Write ends for report, records and output; the caller closes them after the spawn."""

    def drain(self, worker_id: WorkerId) -> None:
        """Take in what the worker wrote before it died."""

    def close(self, worker_id: WorkerId) -> None:
        """Stop reading; nothing more can come."""


class Launcher:
    """Starts workers through the zygote, or by exec where an agent names its own interpreter.

    Args:
        zygote: None to start every worker by exec.
        describe: makes a worker's specification.
        interpreter: the agent's own interpreter, or None for ours.
        listener: the descriptor of the agent's listening socket.
        pipes: where the worker's pipes end.
        notices: where the pipe begins on which it hears from us.
        emit: takes the events.
        gone: is told that nothing of a worker is left: before `Reaped`, and where a start came to nothing.
        groups: where workers get control groups of their own; None where that cannot be had.
        offspring: below which workers are started, and the zygote was.
    """

    def __init__(
        self,
        *,
        zygote: Zygote | None,
        describe: Callable[[WorkerId], Awaitable[WorkerSpec]],
        interpreter: Callable[[str], str | None],
        listener: Callable[[str], int],
        pipes: WorkerPipes,
        notices: NoticePipes,
        emit: Callable[[str, Event], None],
        gone: Callable[[WorkerId], None],
        groups: Groups | None = None,
        offspring: Offspring = OWN,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._zygote = zygote
        if zygote is not None:
            zygote.watch()
        self._describe = describe
        self._interpreter = interpreter
        self._listener = listener
        self._pipes = pipes
        self._notices = notices
        self._emit = emit
        self._gone = gone
        self._groups = groups
        self._workers: dict[WorkerId, Worker] = {}
        self._launch_infos: dict[WorkerId, LaunchInfo] = {}
        self._offspring = offspring
        self._reaper = Reaper(self._workers, zygote, offspring)
        self._spawning: set[asyncio.Task[None]] = set()
        self._waiting: dict[WorkerId, asyncio.Future[Any]] = {}
        # Held open for as long as the supervisor lives; nobody ever writes to it.
        self._lifeline, self._lifeline_held = os.pipe()
        if isinstance(offspring, Keeper):
            offspring.watch(self.reap_adopted, self._keeper_replaced)

    @property
    def lifeline(self) -> int:
        """The descriptor of the pipe that every worker holds."""
        return self._lifeline

    @property
    def pids(self) -> dict[str, int]:
        """The process ID of every live worker by agent."""
        return {worker_id.name: worker.pid for worker_id, worker in self._workers.copy().items()}

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
        self._call_off(worker_id)
        self._signal(worker_id, signal.SIGTERM)

    def kill(self, worker_id: WorkerId, reason: str | None = None) -> None:
        """Kill the worker and all that it has started; `reason` goes into its exit."""
        self._call_off(worker_id)
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.reason = worker.reason or reason
            if worker.launch_info.group is not None:
                worker.launch_info.group.kill()
            send(worker.pidfd, signal.SIGKILL)  # it may not have opened its group yet
            if not worker.group_empty:  # else its number may be somebody else's
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal.SIGKILL)

    def reap(self, worker_id: WorkerId) -> None:
        """Kill what is left of the group and of strays, reap, and say `Reaped` when nothing is left."""
        self._sweep(self._workers[worker_id], 0)

    async def close(self) -> None:
        """Let go of the lifeline and end all that is left of agents and zygote, once no worker is left."""
        with contextlib.suppress(OSError):  # no descriptor is left to look with
            await self._reaper.end()
        os.close(self._lifeline_held)
        os.close(self._lifeline)

    # --- how it is done -----------------------------------------------------------------------------------

    def _signal(self, worker_id: WorkerId, number: signal.Signals) -> None:
        if (worker := self._workers.get(worker_id)) is not None:
            send(worker.pidfd, number)

    def _call_off(self, worker_id: WorkerId) -> None:
        """Let a start that has not come so far as a process come to nothing."""
        if (waiting := self._waiting.get(worker_id)) is not None:
            waiting.cancel()

    def _keeper_replaced(self) -> None:
        """Have the zygote start anew: what the present one forks would be no child of the next keeper."""
        if self._zygote is not None:
            self._zygote.kill()
        self.reap_adopted()

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._spawning.discard(task)
        self.reap_adopted()  # what ended meanwhile had to be left alone

    async def _spawn(self, worker_id: WorkerId) -> None:
        try:
            pid = await self._make(worker_id)
            pidfd, launch_info = pidfd_of(pid), self._launch_infos.pop(worker_id)
            worker = self._workers[worker_id] = Worker(worker_id, pid, pidfd, launch_info)
        except Exception as error:  # noqa: BLE001 - the engine counts on an answer
            if not isinstance(error, OSError | CalledOffError):
                _log.exception("%s: cannot be started", worker_id.name, extra={"agent": worker_id.name})
            self._close_pipes(worker_id)
            if (group := self._launch_infos.pop(worker_id, LaunchInfo()).group) is not None:
                group.kill()
                group.remove()
            self._tell_gone(worker_id)
            message = f"cannot be started: {error}"
            permanent = isinstance(error, _UNUSABLE_INTERPRETER)
            exhausted = isinstance(error, OSError) and error.errno in _EXHAUSTED
            self._emit(worker_id.name, SpawnFailed(worker_id.generation, message, permanent, exhausted))
            return
        self._loop.add_reader(worker.pidfd, self._ended, worker)
        self._emit(worker_id.name, Spawned(worker_id.generation, pid))

    async def _make(self, worker_id: WorkerId) -> int:
        spec = await self._unless_called_off(
            worker_id, self._describe(worker_id), "its files were still being read"
        )
        launch_info = self._launch_infos[worker_id] = LaunchInfo(spec.memory_limit)
        if (group := self._group_for(worker_id, spec.memory_limit)) is not None:
            launch_info.group = group
            spec = replace(spec, cgroup=str(group.path))
        interpreter = self._interpreter(worker_id.name)
        if interpreter is None and self._zygote is not None:
            for _ in range(2):
                try:
                    return await self._fork(self._zygote, worker_id, spec)
                except ZygoteError as error:
                    # It may have been forked without our having heard of it, and comes to us once its parent is dead.
                    await self._reaper.kill_unclaimed(worker_id, NASCENT)
                    if group is not None:
                        group.kill()
                    _log.warning("%s: %s", worker_id.name, error, extra={"agent": worker_id.name})
        try:
            return self._execute(interpreter or sys.executable, worker_id, spec)
        except KeeperError as error:
            await self._reaper.kill_unclaimed(worker_id)  # it may have been started
            _log.warning("%s: %s", worker_id.name, error, extra={"agent": worker_id.name})
            return self._execute(interpreter or sys.executable, worker_id, spec)

    def _group_for(self, worker_id: WorkerId, memory_limit: int | None) -> WorkerGroup | None:
        if self._groups is None:
            return None
        try:
            return self._groups.make(worker_id, memory_limit)
        except OSError as error:
            _log.warning(
                "%s: starts without a control group: %s",
                worker_id.name,
                error,
                extra={"agent": worker_id.name},
            )
            return None

    async def _fork(self, zygote: Zygote, worker_id: WorkerId, spec: WorkerSpec) -> int:
        await self._unless_called_off(
            worker_id, zygote.ready(), "the zygote, which forks it, was not ready yet"
        )
        with self._descriptors(worker_id, spec) as descriptors:
            return await zygote.spawn(descriptors)

    async def _unless_called_off[T](self, worker_id: WorkerId, step: Awaitable[T], why: str) -> T:
        """Wait for a step of a start.

        Raises:
            CalledOffError: the start is not wanted any more; `why` says how far it had come.
        """
        waiting: asyncio.Future[T] = asyncio.ensure_future(step)
        self._waiting[worker_id] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            raise CalledOffError(why) from None
        finally:
            del self._waiting[worker_id]

    def _execute(self, interpreter: str, worker_id: WorkerId, spec: WorkerSpec) -> int:
        with self._descriptors(worker_id, spec) as descriptors:
            numbers = ",".join(map(str, descriptors))
            arguments = [interpreter, "-P", "-m", "pallas_worker.process.own_interpreter", numbers]
            return self._offspring.execute(arguments, spec.environment, descriptors, descriptors.output)

    @contextlib.contextmanager
    def _descriptors(self, worker_id: WorkerId, spec: WorkerSpec) -> Iterator[Descriptors]:
        ours: list[int] = []
        try:
            memory = os.memfd_create("pallas-worker")
            ours.append(memory)
            os.write(memory, spec.to_json())
            listener = os.dup(self._listener(worker_id.name))
            ours.append(listener)
            lifeline = os.dup(self._lifeline)
            ours.append(lifeline)
            pipes = self._pipes.open(worker_id)
            ours.extend(pipes)
            links = [f"pipe:[{os.fstat(pipe).st_ino}]" for pipe in pipes]
            launch_info = self._launch_infos[worker_id]
            launch_info.pipes, launch_info.at, launch_info.ticks = frozenset(links), time.time(), procfs.now()
            notices = self._notices.open(worker_id)
            ours.append(notices)
            yield Descriptors(memory, listener, lifeline, *pipes, notices)
        finally:
            for descriptor in ours:
                os.close(descriptor)

    def _ended(self, worker: Worker) -> None:
        exit_ = self._exit_of(worker)
        if exit_ is None:
            return
        self._loop.remove_reader(worker.pidfd)
        with self._telling_anyway(worker.id):
            exit_ = replace(exit_, reason=reason_of(worker, exit_))
            self._pipes.drain(worker.id)
        self._emit(worker.id.name, Died(worker.id.generation, exit_))

    def _exit_of(self, worker: Worker) -> Exit | None:
        try:
            return self._offspring.exit_of(worker.pid, worker.pidfd)
        except ChildProcessError:  # somebody else has reaped it
            return Exit(status=EXIT_FAILURE)

    @contextlib.contextmanager
    def _telling_anyway(self, worker_id: WorkerId) -> Iterator[None]:
        """Let nothing that a dead worker has left in its pipes keep the engine from hearing of its end."""
        try:
            yield
        except Exception:  # noqa: BLE001 - whatever it is, the engine waits for the event
            _log.exception("%s: cannot be settled", worker_id.name, extra={"agent": worker_id.name})

    def _sweep(self, worker: Worker, attempt: int) -> None:
        delay = SWEEP_INTERVALS[min(attempt, len(SWEEP_INTERVALS) - 1)]
        try:
            clean = self._reaper.is_clean(worker)
            if clean and is_unreaped(worker.pidfd):  # it ended before it opened its group
                self._offspring.reap([worker.pid])
        except OSError:
            clean, delay = False, BLIND_INTERVAL
        if not clean:
            self._loop.call_later(delay, self._sweep, worker, attempt + 1)
            return
        del self._workers[worker.id]
        os.close(worker.pidfd)
        with self._telling_anyway(worker.id):
            if worker.launch_info.group is not None:
                worker.launch_info.group.remove()
            self._pipes.drain(worker.id)
        self._close_pipes(worker.id)
        self._tell_gone(worker.id)
        self._emit(worker.id.name, Reaped(worker.id.generation))

    def _close_pipes(self, worker_id: WorkerId) -> None:
        with self._telling_anyway(worker_id):
            self._pipes.close(worker_id)
        with self._telling_anyway(worker_id):
            self._notices.close(worker_id)

    def _tell_gone(self, worker_id: WorkerId) -> None:
        with self._telling_anyway(worker_id):
            self._gone(worker_id)
