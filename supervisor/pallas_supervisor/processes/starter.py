"""How a worker's process is made: its specification, its control group, its descriptors, and a fork or an exec.

Knows the zygote, interpreters and descriptors; nothing of what becomes of a worker once there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.spec import Descriptors
from pallas_supervisor.lifecycle.states import label
from pallas_supervisor.processes.keeper.client import KeeperError
from pallas_supervisor.processes.linux import procfs
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS, UNASSIGNED, ProcessParent, pidfd_of
from pallas_supervisor.processes.worker import LaunchInfo, Worker
from pallas_supervisor.processes.zygote_client import Zygote, ZygoteError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pallas_common.protocol.gateway import GatewaySpec
    from pallas_common.protocol.spec import WorkerSpec
    from pallas_supervisor.lifecycle.states import WorkerId
    from pallas_supervisor.processes.linux.cgroups import Groups, WorkerGroup
    from pallas_supervisor.processes.pipes.intake import Intake
    from pallas_supervisor.processes.reaper import Reaper

WORKER_MODULE = "pallas_worker.process.own_interpreter"
"""Executed for an agent that names its own interpreter."""

_log = get_logger("pallas.supervisor.launch")


class CalledOffError(Exception):
    """A start was not wanted any more while it waited for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """What workers are started with."""

    prepare: Callable[[WorkerId], Awaitable[WorkerSpec | GatewaySpec]]
    """Makes a worker's specification; a start begins with it, so it notes what the worker is started with."""
    interpreter: Callable[[str], str | None]
    """The agent's own interpreter, or None for ours."""
    module: Callable[[str], str] = lambda _name: WORKER_MODULE
    """What a process that is not forked executes."""
    listener: Callable[[str], int]
    """The descriptor of the agent's listening socket."""
    pipes: Intake
    """Where the pipes end on which workers report."""
    zygote: Zygote | None = None
    """None to start every worker by exec."""
    groups: Groups | None = None
    """Where workers get control groups of their own; None where that cannot be had."""
    parent: ProcessParent = THIS_PROCESS
    """Below which workers are started, and the zygote was."""


class _Start(NamedTuple):
    id: WorkerId
    spec: WorkerSpec | GatewaySpec
    info: LaunchInfo


class Starter:
    """Starts workers through the zygote, or by exec where an agent names its own interpreter.

    Args:
        reaper: ends processes that may have been made without our hearing of them.
    """

    def __init__(self, context: LaunchContext, reaper: Reaper) -> None:
        self._context = context
        self._reaper = reaper
        self._waiting: dict[WorkerId, asyncio.Future[Any]] = {}
        # Held open for as long as the supervisor lives; nothing is ever written to it.
        self.lifeline, self._lifeline_held = os.pipe()
        """The descriptor of the pipe that every worker holds: it ends when the supervisor does, however it does."""

    def close(self) -> None:
        """Let go of the lifeline."""
        os.close(self._lifeline_held)
        os.close(self.lifeline)

    def call_off(self, worker_id: WorkerId) -> None:
        """Let a start that has not come so far as a process come to nothing."""
        if (waiting := self._waiting.get(worker_id)) is not None:
            waiting.cancel()

    async def start(self, worker_id: WorkerId) -> Worker:
        """Make the process. If it cannot be made, nothing of it is left but its pipes.

        Raises:
            CalledOffError: the start is not wanted any more.
            OSError: it cannot be executed, or something has run out.
        """
        preparing = self._context.prepare(worker_id)
        spec = await self._unless_called_off(worker_id, preparing, "its files were still being read")
        group = self._group_for(worker_id, spec.memory_limit)
        info = LaunchInfo(spec.memory_limit, group)
        if group is not None:
            spec = replace(spec, cgroup=str(group.path))
        self._reaper.starting.add(worker_id)
        try:
            pid = await self._make(_Start(worker_id, spec, info))
            return Worker(worker_id, pid, pidfd_of(pid), info)
        except Exception:
            self._reaper.starting.discard(worker_id)
            if group is not None:
                group.kill()
                group.remove()
            raise

    def _group_for(self, worker_id: WorkerId, memory_limit: int | None) -> WorkerGroup | None:
        if self._context.groups is None:
            return None
        name = worker_id.name
        try:
            return self._context.groups.make(worker_id, memory_limit)
        except OSError as error:
            _log.warning(f"{label(name)}: starts without a control group: {error}", agent=label(name))
            return None

    async def _make(self, start: _Start) -> int:
        name, zygote = start.id.name, self._context.zygote
        interpreter = self._context.interpreter(name)
        if interpreter is None and zygote is not None:
            for _ in range(2):
                try:
                    return await self._fork(zygote, start)
                except ZygoteError as error:
                    # It may have been forked without our having heard of it, and comes to us once its parent is dead.
                    await self._reaper.kill_unclaimed(start.id, UNASSIGNED)
                    if start.info.group is not None:
                        start.info.group.kill()
                    _log.warning(f"{label(name)}: {error}", agent=label(name))
        try:
            return self._execute(interpreter or sys.executable, start)
        except KeeperError as error:
            await self._reaper.kill_unclaimed(start.id)  # it may have been started
            _log.warning(f"{label(name)}: {error}", agent=label(name))
            return self._execute(interpreter or sys.executable, start)

    async def _fork(self, zygote: Zygote, start: _Start) -> int:
        why = "the zygote, which forks it, was not ready yet"
        await self._unless_called_off(start.id, zygote.ready(), why)
        with self._descriptors(start) as descriptors:
            return await zygote.spawn(descriptors)

    def _execute(self, interpreter: str, start: _Start) -> int:
        with self._descriptors(start) as descriptors:
            numbers = ",".join(map(str, descriptors))
            arguments = [interpreter, "-P", "-m", self._context.module(start.id.name), numbers]
            environment, output = start.spec.environment, descriptors.output
            return self._context.parent.execute(arguments, environment, descriptors, output)

    @contextlib.contextmanager
    def _descriptors(self, start: _Start) -> Iterator[Descriptors]:
        ours: list[int] = []
        try:
            memory = os.memfd_create("pallas-spec")
            ours.append(memory)
            os.write(memory, start.spec.to_json())
            listener = os.dup(self._context.listener(start.id.name))
            ours.append(listener)
            lifeline = os.dup(self.lifeline)
            ours.append(lifeline)
            pipes = self._context.pipes.open(start.id)
            ours.extend(pipes)
            start.info.pipes = frozenset(f"pipe:[{os.fstat(pipe).st_ino}]" for pipe in pipes)
            start.info.at, start.info.ticks = time.time(), procfs.now()
            yield Descriptors(memory, listener, lifeline, *pipes)
        finally:
            for descriptor in ours:
                os.close(descriptor)

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
