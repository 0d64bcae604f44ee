"""The supervisor's end of the zygote: starts it, asks it to fork workers, makes it again when it dies.

Knows the command channel (`pallas_worker.process.zygote` is the other end, and never imported here).

A worker is forked rather than executed because importing fast-agent takes seconds and most of a worker's memory. The
zygote has one thread and no event loop, without which a fork would not be safe. The worker is no child of its own but
one of the keeper's: its exit status is the supervisor's to read, and the zygote may die without the workers.
It imports what all workers need, and what those of this deployment are known to need besides: the libraries of the LLM
providers whose models are named or were reported, and the modules of `preload:` in agents.yaml. One of these that the
zygote dies of, or that leaves a thread running, is left out by the next zygote.
Once no command has come for a moment, the zygote forks the next worker ahead, for a fork is what a restart waits for
longest. To the supervisor this makes no difference but two: the process may be older than the start of its worker,
which is why `LaunchInfo` has a time of its own, and there is one process more to end in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.spec import EXIT_FAILURE
from pallas_common.terminal_text import terminal_line
from pallas_registry.environment.dotenv import worker_environment
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import Exit
from pallas_supervisor.processes.keeper.client import KeeperError
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS, ProcessParent
from pallas_supervisor.processes.zygote_process import ZygoteProcess

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence
    from pathlib import Path

    from pallas_common.protocol.spec import Descriptors
    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.processes.zygote_process import Packet

START_TIMEOUT = 60.0
"""Seconds that a zygote may take to import fast-agent."""

ANSWER_TIMEOUT = 8.0
"""Seconds that a fork may take; it takes milliseconds."""

IMPORT_TIMEOUT = 30.0
"""Seconds that each further import may take; one that takes longer is left out."""

MOST_MODELS = 100
LONGEST_NAME = 200
"""Limits of what is kept for the next zygote: models, and characters of one's name."""

KILL_TIMEOUT = 5.0
"""Seconds that a killed zygote may take to disappear."""

TRIES = 3
"""Zygotes in a row that may die before they can fork; after that, another one is left to the next start."""

_WITHOUT = "the zygote starts anew without it, and agents that use it import it themselves"

_log = get_logger("pallas.supervisor.zygote")


class ZygoteError(Exception):
    """The zygote could not fork a worker; the message says why."""


class Zygote:
    """One zygote process at a time; one that dies is made again.

    Args:
        environment: the process's whole environment.
        parent: below which the process is started.
        modules: what it imports besides what workers need: name → where the user has named it.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        parent: ProcessParent = THIS_PROCESS,
        modules: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment
        self._parent = parent
        self._modules = dict(modules or {})
        self._models: dict[str, None] = {}
        self._left_out: set[str] = set()
        self._process: ZygoteProcess | None = None
        self._closed = False
        self._failures = 0
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """The process ID, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process; returns at once, long before it is ready to fork. Needs no event loop."""
        try:
            self._process = ZygoteProcess(self._environment, self._parent, self._tell)
        except KeeperError:
            # With a new keeper; a zygote that was started under the old one ends at its channel's end.
            self._process = ZygoteProcess(self._environment, self._parent, self._tell)

    def bring_in(self, models: Iterable[str]) -> None:
        """Have it import what workers with these models need: before the next fork, or between two.

        It takes long once; a model whose provider is there already costs nothing.
        """
        room = MOST_MODELS - len(self._models)
        fresh = [model for model in models if model not in self._models and len(model) <= LONGEST_NAME][:room]
        self._models.update(dict.fromkeys(fresh))
        if self._process is None:
            return  # the next one is given all
        if not self._process.asked:
            self._give_all(self._process)
        elif fresh:
            self._beside(self._bring_in(fresh))

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="zygote imports")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring_in(self, models: Sequence[str]) -> None:
        with contextlib.suppress(ZygoteError, OSError):  # which the next start meets as well, and tells
            async with self._turn:
                process = await self._ready_process()
                if not self._closed:
                    process.ask_for((), [model for model in models if model not in self._left_out])
                    await self._ready_process()

    def take_modules(self, modules: Mapping[str, str]) -> None:
        """Have these modules imported instead of those before: by a new zygote, for which the next start waits."""
        changed = modules.keys() != self._modules.keys()
        self._modules = dict(modules)
        if changed:
            self._left_out.clear()
            _log.info("preload: has changed; the zygote starts anew, running workers keep what they have")
            self._beside(self._replace())

    def _start_next(self) -> ZygoteProcess:
        self.start()
        self.watch()
        process = self._process
        assert process is not None
        self._give_all(process)
        return process

    async def _replace(self) -> None:
        async with self._turn:  # after the forks that have been asked for
            if self._process is not None and not self._closed:
                self._process.is_dismissed = True
                await self._give_up(self._process, ConnectionResetError())

    def _give_all(self, process: ZygoteProcess) -> None:
        modules, models = (
            [name for name in names if name not in self._left_out] for names in (self._modules, self._models)
        )
        process.ask_for(modules, models)

    def _tell(self, name: str, what: str) -> None:
        """Log what there is to say of something that was imported."""
        said = terminal_line(what)
        if (place := self._modules.get(name)) is not None:
            _log.warning(f"{place}: preload: {name} {said}")
        else:
            _log.debug(f"the library for the model {name} {said}")

    def watch(self) -> None:
        """Notice its death; for the running loop."""
        if self._process is not None:
            asyncio.get_running_loop().add_reader(self._process.pidfd, self._died, self._process)

    async def ready(self) -> None:
        """Return once it can fork, which takes seconds after its own start. May be cancelled at any time.

        Raises:
            ZygoteError: it does not come up.
        """
        async with self._turn:
            await self._ready_process()

    async def spawn(self, descriptors: Descriptors) -> int:
        """Fork a worker that inherits `descriptors`; its process ID. Must not be cancelled.

        Raises:
            ZygoteError: it could not be done, and no such worker will come.
            OSError: there is no zygote, and none can be started now.
        """
        async with self._turn:
            answer = await self._asked_to_fork(descriptors)
            if "stale" in answer:
                _log.info(
                    f"{terminal_line(str(answer['stale']))}, which the zygote has imported, has changed: "
                    "the zygote starts anew"
                )
                answer = await self._asked_to_fork(descriptors)
        if "pid" not in answer:
            raise ZygoteError(str(answer.get("error")))
        return int(str(answer["pid"]))

    async def _asked_to_fork(self, descriptors: Descriptors) -> Packet:
        process = await self._ready_process()
        try:
            socket.send_fds(process.channel, [b"spawn"], list(descriptors))
            while "pid" not in (answer := await process.receive(ANSWER_TIMEOUT)):
                if "importing" not in answer and "unsafe" not in answer:
                    break
                process.take(answer)  # why it ends now
        except (OSError, ValueError) as error:
            raise await self._give_up(process, error) from error
        if "stale" in answer:
            process.is_dismissed = True
            await self._give_up(process, ConnectionResetError())
        return answer

    async def _ready_process(self) -> ZygoteProcess:
        while True:
            process = self._process or self._start_next()
            if process.is_dismissed:
                await self._give_up(process, ConnectionResetError())
                continue
            if not process.asked:
                self._give_all(process)
            left_out = len(self._left_out)
            try:
                while not process.ready:
                    timeout = START_TIMEOUT if process.importing is None else IMPORT_TIMEOUT
                    process.take(await process.receive(timeout))
            except (OSError, ValueError) as error:
                if isinstance(error, TimeoutError) and process.importing is not None:
                    process.trouble = f"takes longer than {IMPORT_TIMEOUT:g} s to be imported"
                failed = await self._give_up(process, error)
                if self._closed or (len(self._left_out) == left_out and not process.is_dismissed):
                    raise failed from error
            else:
                return process

    @staticmethod
    async def _give_up(process: ZygoteProcess, error: Exception) -> ZygoteError:
        """End a process that has failed: the next try must not meet the same one."""
        process.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.gone.wait(), KILL_TIMEOUT)
        process.channel.close()
        return ZygoteError(f"the zygote does not answer ({type(error).__name__})")

    def kill(self) -> None:
        """End the process, if there is one; the next one is started at once."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Close the channel, at which the zygote exits by itself."""
        self._closed = True
        if self._process is not None:
            self._process.channel.close()

    async def end(self) -> None:
        """Close, and return once the process is gone; it holds nothing that it would have to bring in order."""
        process = self._process
        self.close()
        if process is not None:
            process.kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.gone.wait(), KILL_TIMEOUT)

    def _died(self, process: ZygoteProcess) -> None:
        try:
            exit_ = self._parent.exit_of(process.pid, process.pidfd)
        except ChildProcessError:  # it has been reaped elsewhere
            exit_ = Exit(status=EXIT_FAILURE)
        if exit_ is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(process.pidfd)
        # Who waits for a packet may have been given one that it has not taken yet: it may say what is at fault.
        loop.call_soon(self._settle, process, exit_)

    def _settle(self, process: ZygoteProcess, exit_: Exit) -> None:
        """Forget a process that has ended, and make another one."""
        with contextlib.suppress(OSError):  # no descriptor is left to look with: it is reaped later
            self._parent.reap([process.pid])
        os.close(process.pidfd)
        if not (process.ready and self._turn.locked()):  # else the answer is another's to read
            process.take_unread()
        process.gone.set()
        self._process = None
        if not self._turn.locked():  # else a spawn is reading, and closes it once it has read the end
            process.channel.close()
        if self._closed:
            return
        if self._is_import_at_fault(process, exit_):
            self._failures = 0
        elif not process.is_dismissed:
            _log.warning(f"the zygote died ({describe_exit(exit_)}); running workers are not concerned")
            self._failures = 0 if process.ready else self._failures + 1
        if self._failures < TRIES:  # the next start should not have to wait
            try:
                self._start_next()
            except OSError as error:
                _log.warning(f"the zygote cannot be started now: {error}")

    def _is_import_at_fault(self, process: ZygoteProcess, exit_: Exit) -> bool:
        """Whether it ended because of what it imported, which is left out from now on."""
        name, why = process.importing, process.trouble
        if name is None or process.is_dismissed:
            return False
        if why is None and exit_.signal == signal.SIGKILL:  # from outside
            return False
        self._left_out.add(name)
        self._tell(name, f"{why or f'ends the process that imports it ({describe_exit(exit_)})'}: {_WITHOUT}")
        return True


def zygote_for(
    deployment: Deployment, environ: Mapping[str, str], directory: Path, parent: ProcessParent = THIS_PROCESS
) -> Zygote | None:
    """A zygote, started already, or None where no agent would come from it.

    It works in `directory`, to wherever a link in that leads when it is started, or started again.

    Where there is no agent yet, those to come will.
    """
    if deployment.agents and all(agent.python is not None for agent in deployment.agents.values()):
        return None
    environment = {**worker_environment(environ, {}), "PWD": str(directory)}
    zygote = Zygote(environment, parent, preloaded(deployment))
    zygote.start()
    return zygote


def preloaded(deployment: Deployment) -> dict[str, str]:
    """The modules of `preload:`, each with its file and line."""
    places = (deployment.places[f"preload[{index}]"] for index in range(len(deployment.preload)))
    return {
        name: f"{deployment.path.name}:{place.line}"
        for name, place in zip(deployment.preload, places, strict=True)
    }
