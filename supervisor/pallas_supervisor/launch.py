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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pallas_registry.logs import get_logger
from pallas_registry.protocol import EXIT_OUT_OF_MEMORY, Descriptors
from pallas_supervisor import procfs
from pallas_supervisor.children import (
    NASCENT,
    Owner,
    children,
    exit_of,
    kill_group,
    kill_strays,
    owner_of,
    pidfd_of,
    reap_zombies,
    send,
    session_of,
)
from pallas_supervisor.events import Died, Event, Spawned, SpawnFailed, Swept
from pallas_supervisor.executing import execute
from pallas_supervisor.states import OUT_OF_MEMORY
from pallas_supervisor.zygote import Zygote, ZygoteError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pallas_registry.protocol import WorkerSpec
    from pallas_supervisor.cgroups import Groups, WorkerGroup
    from pallas_supervisor.notices import NoticePipes
    from pallas_supervisor.states import Exit

SWEEP_INTERVALS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Seconds between looks whether a group is empty; the last one repeats."""

BLIND_INTERVAL = 0.5
"""Seconds between tries while this process has no descriptor left to look at others with."""

LEFTOVERS_GRACE = 5.0
"""Seconds after which what an earlier supervisor left behind, and has not ended by itself, is killed."""

_UNUSABLE_INTERPRETER = (FileNotFoundError, NotADirectoryError, PermissionError)
"""What trying again does not mend."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What says that the machine, or this process, has run out of something."""

_log = get_logger("pallas.supervisor.launch")


class CalledOffError(Exception):
    """A start was not wanted any more while it waited for its turn."""


class WorkerPipes(Protocol):
    """Where a worker's pipes end; see `intake`."""

    def open(self, name: str, generation: int) -> tuple[int, int, int]:
        """Write ends for report, records and output; the caller closes them after the spawn."""

    def drain(self, name: str, generation: int) -> None:
        """Take in what the worker wrote before it died."""

    def close(self, name: str, generation: int) -> None:
        """Stop reading; nothing more can come."""


@dataclass(slots=True)
class Beginning:
    """What is known of a worker before there is a process."""

    memory_limit: int | None = None
    """Bytes."""
    group: WorkerGroup | None = None
    pipes: frozenset[str] = frozenset()
    """What it may hand down to its children, as `procfs.pipes` names it."""
    at: float = 0.0
    """When the process was asked for, in seconds since the epoch; it may have been forked ahead."""
    ticks: int = 0
    """The same as `procfs.now` tells: what was forked before is nothing that the worker has started."""


@dataclass(slots=True)
class Worker:
    """One live process. `pidfd` stays open until the sweep is done."""

    owner: Owner
    pid: int
    pidfd: int
    beginning: Beginning
    reason: str | None = None
    """Why it was killed."""
    group_empty: bool = False
    """Seen empty once; its number may belong to somebody else since."""


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
        gone: is told that nothing of a worker is left: before `Swept`, and where a start came to nothing.
        groups: where workers get control groups of their own; None where that cannot be had.
    """

    def __init__(
        self,
        *,
        zygote: Zygote | None,
        describe: Callable[[str, int], Awaitable[WorkerSpec]],
        interpreter: Callable[[str], str | None],
        listener: Callable[[str], int],
        pipes: WorkerPipes,
        notices: NoticePipes,
        emit: Callable[[str, Event], None],
        gone: Callable[[str, int], None],
        groups: Groups | None = None,
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
        self._workers: dict[Owner, Worker] = {}
        self._beginnings: dict[Owner, Beginning] = {}
        # Children that this process had before it became the supervisor, say of a shell's `exec pallas`.
        self._foreign = frozenset(children())
        self._spawning: set[asyncio.Task[None]] = set()
        self._waiting: dict[Owner, asyncio.Task[None]] = {}
        # Held open for as long as the supervisor lives; nobody ever writes to it.
        self._lifeline, self._lifeline_held = os.pipe()
        if groups is not None and (leftovers := groups.leftovers()):
            self._loop.call_later(LEFTOVERS_GRACE, _clear, leftovers)

    @property
    def pids(self) -> dict[str, int]:
        """The process ID of every live worker by agent."""
        return {owner.name: worker.pid for owner, worker in self._workers.copy().items()}

    def worker(self, owner: Owner) -> Worker | None:
        """The live worker of this start of an agent."""
        return self._workers.get(owner)

    @property
    def workers(self) -> dict[Owner, Worker]:
        """All live workers."""
        return self._workers.copy()

    def _known(self) -> set[int]:
        known = {worker.pid for worker in self._workers.values()} | self._foreign
        if self._zygote is not None and self._zygote.pid is not None:
            known.add(self._zygote.pid)
        return known

    def reap(self) -> None:
        """Reap adopted processes that have ended; for SIGCHLD. A pending spawn may be among the children."""
        if self._spawning:
            return
        try:
            reap_zombies(self._known())
        except OSError:  # no descriptor is left to look with
            self._loop.call_later(BLIND_INTERVAL, self.reap)

    # --- the engine's calls -------------------------------------------------------------------------------

    def spawn(self, name: str, generation: int) -> None:
        """Start a worker; answers with `Spawned` or `SpawnFailed`."""
        task = self._loop.create_task(self._spawn(Owner(name, generation)), name=f"spawn {name}")
        self._spawning.add(task)
        task.add_done_callback(self._spawned)

    def terminate(self, name: str, generation: int) -> None:
        """Ask the worker to drain and exit."""
        self._call_off(Owner(name, generation))
        self._signal(Owner(name, generation), signal.SIGTERM)

    def kill(self, name: str, generation: int, reason: str | None = None) -> None:
        """Kill the worker and all that it has started; `reason` goes into its exit."""
        self._call_off(Owner(name, generation))
        worker = self._workers.get(Owner(name, generation))
        if worker is not None:
            worker.reason = worker.reason or reason
            if worker.beginning.group is not None:
                worker.beginning.group.kill()
            send(worker.pidfd, signal.SIGKILL)  # it may not have opened its group yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)

    def sweep(self, name: str, generation: int) -> None:
        """Kill what is left of the group and of strays, reap, and say `Swept` when nothing is left."""
        self._sweep(self._workers[Owner(name, generation)], 0)

    async def close(self) -> None:
        """Let go of the lifeline and end the zygote, and what it has forked ahead, once no worker is left."""
        if self._zygote is not None:
            with contextlib.suppress(OSError):  # no descriptor is left to look with
                await self._end(self._zygote)
        os.close(self._lifeline_held)
        os.close(self._lifeline)

    # --- how it is done -----------------------------------------------------------------------------------

    def _signal(self, owner: Owner, number: signal.Signals) -> None:
        if (worker := self._workers.get(owner)) is not None:
            send(worker.pidfd, number)

    def _call_off(self, owner: Owner) -> None:
        """Let a start that has not come so far as a process come to nothing."""
        if (waiting := self._waiting.get(owner)) is not None:
            waiting.cancel()

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._spawning.discard(task)
        self.reap()  # what ended meanwhile had to be left alone

    async def _spawn(self, owner: Owner) -> None:
        try:
            pid = await self._make(owner)
            pidfd, beginning = pidfd_of(pid), self._beginnings.pop(owner)
            worker = self._workers[owner] = Worker(owner, pid, pidfd, beginning)
        except Exception as error:  # noqa: BLE001 - the engine counts on an answer
            if not isinstance(error, OSError | CalledOffError):
                _log.exception("%s: cannot be started", owner.name, extra={"agent": owner.name})
            self._close_pipes(owner)
            if (group := self._beginnings.pop(owner, Beginning()).group) is not None:
                group.kill()
                group.remove()
            self._tell_gone(owner)
            message = f"cannot be started: {error}"
            permanent = isinstance(error, _UNUSABLE_INTERPRETER)
            exhausted = isinstance(error, OSError) and error.errno in _EXHAUSTED
            self._emit(owner.name, SpawnFailed(owner.generation, message, permanent, exhausted))
            return
        self._loop.add_reader(worker.pidfd, self._ended, worker)
        self._emit(owner.name, Spawned(owner.generation, pid))

    async def _make(self, owner: Owner) -> int:
        spec = await self._describe(*owner)
        beginning = self._beginnings[owner] = Beginning(spec.memory_limit)
        if (group := self._group_for(owner, spec.memory_limit)) is not None:
            beginning.group = group
            spec = replace(spec, cgroup=str(group.path))
        interpreter = self._interpreter(owner.name)
        if interpreter is None and self._zygote is not None:
            for _ in range(2):
                try:
                    return await self._fork(self._zygote, owner, spec)
                except ZygoteError as error:
                    # It may have been forked without our having heard of it, and comes to us once its parent is dead.
                    await self._kill_unclaimed(owner, NASCENT)
                    if group is not None:
                        group.kill()
                    _log.warning("%s: %s", owner.name, error, extra={"agent": owner.name})
        return self._execute(interpreter or sys.executable, owner, spec)

    async def _kill_unclaimed(self, *owners: Owner) -> None:
        """Kill what bears the sign of these and is no worker that we know."""
        for interval in SWEEP_INTERVALS:
            if kill_strays(self._known(), lambda _pid, whose: whose in owners):
                return
            await asyncio.sleep(interval)

    async def _end(self, zygote: Zygote) -> None:
        ahead = self._ahead()
        await zygote.end()
        ahead |= self._ahead()
        for interval in SWEEP_INTERVALS * 10:
            kill_strays(self._known(), lambda _pid, whose: whose == NASCENT)
            reap_zombies(self._known())
            if ahead.isdisjoint(children()):
                return
            await asyncio.sleep(interval)

    def _ahead(self) -> set[int]:
        """What the zygote has forked and is nobody's worker yet."""
        return {pid for pid in set(children()) - self._known() if owner_of(pid) == NASCENT}

    def _group_for(self, owner: Owner, memory_limit: int | None) -> WorkerGroup | None:
        if self._groups is None:
            return None
        try:
            return self._groups.make(owner, memory_limit)
        except OSError as error:
            _log.warning(
                "%s: starts without a control group: %s", owner.name, error, extra={"agent": owner.name}
            )
            return None

    async def _fork(self, zygote: Zygote, owner: Owner, spec: WorkerSpec) -> int:
        self._waiting[owner] = asyncio.create_task(zygote.ready(), name=f"wait to fork {owner.name}")
        try:
            await self._waiting[owner]
        except asyncio.CancelledError:
            raise CalledOffError("the zygote, which forks it, was not ready yet") from None
        finally:
            del self._waiting[owner]
        with self._descriptors(owner, spec) as descriptors:
            return await zygote.spawn(descriptors)

    def _execute(self, interpreter: str, owner: Owner, spec: WorkerSpec) -> int:
        with self._descriptors(owner, spec) as descriptors:
            numbers = ",".join(map(str, descriptors))
            arguments = [interpreter, "-P", "-m", "pallas_worker", numbers]
            return execute(arguments, spec.environment, descriptors, descriptors.output)

    @contextlib.contextmanager
    def _descriptors(self, owner: Owner, spec: WorkerSpec) -> Iterator[Descriptors]:
        ours: list[int] = []
        try:
            memory = os.memfd_create("pallas-worker")
            ours.append(memory)
            os.write(memory, spec.to_json())
            listener = os.dup(self._listener(owner.name))
            ours.append(listener)
            lifeline = os.dup(self._lifeline)
            ours.append(lifeline)
            pipes = self._pipes.open(*owner)
            ours.extend(pipes)
            links = [f"pipe:[{os.fstat(pipe).st_ino}]" for pipe in pipes]
            beginning = self._beginnings[owner]
            beginning.pipes, beginning.at, beginning.ticks = frozenset(links), time.time(), procfs.now()
            notices = self._notices.open(*owner)
            ours.append(notices)
            yield Descriptors(memory, listener, lifeline, *pipes, notices)
        finally:
            for descriptor in ours:
                os.close(descriptor)

    def _ended(self, worker: Worker) -> None:
        exit_ = exit_of(worker.pidfd)
        if exit_ is None:
            return
        self._loop.remove_reader(worker.pidfd)
        try:
            self._pipes.drain(*worker.owner)
            exit_ = replace(exit_, reason=_reason(worker, exit_))
        finally:  # nobody else tells of it
            self._emit(worker.owner.name, Died(worker.owner.generation, exit_))

    def _belongs(self, worker: Worker, pid: int, whose: Owner | None) -> bool:
        """Whether an adopted process is what `worker` has left behind.

        A control group tells exactly. Without one, a process that bears nobody's sign belongs to the worker whose pipes
        it has inherited, or else may belong to any that was there before it.
        """
        if whose == worker.owner or session_of(pid) == worker.pid:
            return True
        if worker.beginning.group is not None:
            return worker.beginning.group.holds(pid)
        if whose is not None:
            return False
        inherited = procfs.pipes(pid)
        if any(inherited & other.beginning.pipes for other in self._workers.values() if other is not worker):
            return False
        begun = procfs.started(pid)
        return begun is None or begun >= worker.beginning.ticks

    def _sweep(self, worker: Worker, attempt: int) -> None:
        delay = SWEEP_INTERVALS[min(attempt, len(SWEEP_INTERVALS) - 1)]
        try:
            clean = self._is_clean(worker)
        except OSError:
            clean, delay = False, BLIND_INTERVAL
        if not clean:
            self._loop.call_later(delay, self._sweep, worker, attempt + 1)
            return
        group = worker.beginning.group
        del self._workers[worker.owner]
        if group is not None:
            group.remove()
        with contextlib.suppress(ChildProcessError):  # one that ended before it opened its group is left
            os.waitid(os.P_PIDFD, worker.pidfd, os.WEXITED | os.WNOHANG)
        os.close(worker.pidfd)
        self._pipes.drain(*worker.owner)
        self._close_pipes(worker.owner)
        self._tell_gone(worker.owner)
        self._emit(worker.owner.name, Swept(worker.owner.generation))

    def _is_clean(self, worker: Worker) -> bool:
        """Kill what is left of the worker's group and strays, and say whether nothing was.

        Raises:
            OSError: no descriptor is left to look with.
        """
        group = worker.beginning.group
        if group is not None:
            group.kill()
        worker.group_empty = worker.group_empty or kill_group(worker.pid)
        strays_gone = kill_strays(self._known(), lambda pid, whose: self._belongs(worker, pid, whose))
        return worker.group_empty and strays_gone and (group is None or group.is_empty())

    def _close_pipes(self, owner: Owner) -> None:
        self._pipes.close(*owner)
        self._notices.close(*owner)

    def _tell_gone(self, owner: Owner) -> None:
        try:
            self._gone(*owner)
        except Exception as error:  # noqa: BLE001 - the engine counts on hearing that it is gone
            _log.warning("%s: %s", owner.name, error, extra={"agent": owner.name})


def _reason(worker: Worker, exit_: Exit) -> str | None:
    """Why the worker ended, where its exit does not say it."""
    group, limited = worker.beginning.group, worker.beginning.memory_limit is not None
    ended_itself = limited and exit_.status == EXIT_OUT_OF_MEMORY
    if ended_itself or (group is not None and group.ran_out_of_memory()):
        return OUT_OF_MEMORY
    return worker.reason


def _clear(leftovers: list[WorkerGroup]) -> None:
    for group in leftovers:
        group.kill()
        group.remove()
