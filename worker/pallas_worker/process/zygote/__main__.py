"""The zygote: imports fast-agent once, then forks a worker for every command on its socket.

Knows libraries, and those modules of the user's that he names (`imports`), never an agent's; one thread, no event loop,
no socket but the command channel and one to the worker that is forked ahead (see `prefork`).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import setproctitle

from pallas_common.processes.descriptors import receive, withhold_all
from pallas_common.processes.directories import entered_directory
from pallas_common.processes.signals import outlive_ordinary_signals
from pallas_common.protocol.link.lifeline import wake_on_parent_death
from pallas_common.protocol.spec import EXIT_FAILURE, Descriptors
from pallas_worker.process.zygote.double_fork import fork_adopted
from pallas_worker.process.zygote.imports import (
    OwnFiles,
    Told,
    import_modules,
    import_providers,
    preload,
    settled,
    threads,
)

if TYPE_CHECKING:
    from typing import NoReturn

    from pallas_worker.process.zygote.prefork import PreforkedWorker

QUIET = 250
"""Milliseconds without a command after which something is done ahead; while many workers are started, nothing is."""

LONGEST_COMMAND = 65536
"""Bytes."""


def main() -> None:
    """Serve commands on the SEQPACKET socket whose descriptor is the only argument, until it closes.

    A command is one packet. One that carries the descriptors of `Descriptors` asks for a worker, and is answered by
    `{"pid": int}`, `{"error": str}`, or `{"stale": path}` where a file that was imported has changed since.
    One without is JSON, `{"modules": [name, …], "models": [name, …]}`, and asks to import them; after packets of
    `Told`, it is answered by `{"ready": true}`. The first command is of this kind, and its answer says as well that
    what all workers need is there.
    """
    withhold_all()
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    outlive_ordinary_signals()
    setproctitle.setproctitle("pallas-zygote")
    wake_on_parent_death()  # stopped, it could not see its channel's end
    with contextlib.suppress(OSError):  # where it is started may be another folder by now, or none
        os.chdir(os.environ.get("PWD") or ".")
    gc.disable()  # for good: what is imported stays, and to look through it again and again takes a fifth of the time
    preload()
    _warm_up()
    _Zygote(channel).run()


def _warm_up() -> None:
    from pallas_worker.process.zygote.warm_up import warm_up

    warm_up()  # with asyncio's own loop: libuv keeps a pipe for all of a process's loops


class _Zygote:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._directory = str(entered_directory())
        self._own_files = OwnFiles(self._directory)
        self._spare: PreforkedWorker | None = None
        self._to_rehearse: list[tuple[str, str]] = []
        """Models and their providers that have been imported, and not rehearsed yet."""
        self._rehearsed: set[str] = set()

    def run(self) -> None:
        """Answer commands until the channel closes."""
        # Of any number: the supervisor may have more descriptors than select(2) can look at.
        commands = select.poll()
        commands.register(self._channel, select.POLLIN)
        while True:
            command, descriptors, _ = receive(self._channel, LONGEST_COMMAND, len(Descriptors._fields))
            if not command:
                return
            answer = self._answer(command, descriptors)
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self._send(answer)
            while self._has_something_to_do_ahead() and not commands.poll(QUIET):
                if not self._do_ahead():
                    break

    def _send(self, answer: dict[str, object]) -> None:
        self._channel.send(json.dumps(answer).encode())

    def _answer(self, command: bytes, descriptors: list[int]) -> dict[str, object]:
        if not descriptors:
            self._import(**json.loads(command))
            return {"ready": True}
        if changed := self._own_files.changed():
            return {"stale": changed}
        try:
            return {"pid": self._spawn(Descriptors(*descriptors))}
        except (OSError, RuntimeError, TypeError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _import(self, *, modules: list[str], models: list[str]) -> None:
        def tell(told: Told) -> None:
            self._send({key: value for key, value in asdict(told).items() if value is not None})

        from pallas_worker.downstreams.tls import prepare_context

        before = len(sys.modules)
        import_providers(models, tell)
        self._plan_rehearsals(models)
        if len(sys.modules) != before:  # it will be asked over TLS, in all likelihood
            prepare_context()
        self._pass_over_libraries()
        import_modules(modules, self._directory, tell)
        if len(sys.modules) == before and gc.get_freeze_count():
            return
        self._own_files.look()
        self._pass_over_libraries()
        gc.freeze()
        self._dismiss_spare()

    def _plan_rehearsals(self, models: list[str]) -> None:
        from pallas_worker.process.zygote.rehearsal import provider_to_rehearse

        for model in models:
            provider = provider_to_rehearse(model)
            if provider is not None and provider not in self._rehearsed:
                self._rehearsed.add(provider)
                self._to_rehearse.append((model, provider))

    def _has_something_to_do_ahead(self) -> bool:
        return bool(self._to_rehearse) or self._spare is None

    def _do_ahead(self) -> bool:
        """The next thing, what workers share before the next worker; False where it cannot be done now."""
        if self._to_rehearse:
            self._rehearse(*self._to_rehearse.pop(0))
            return True
        self._spare = self._fork_ahead()
        return self._spare is not None

    def _rehearse(self, model: str, provider: str) -> None:
        from pallas_worker.process.zygote.rehearsal import rehearse

        self._dismiss_spare()
        gc.freeze()  # so that only what the rehearsal leaves is looked through
        rehearse(provider)
        if not settled():  # no worker could be forked: the next zygote does without this model's library
            self._send({"importing": model})
            self._send({"unsafe": f"leaves {threads()} running when it is rehearsed"})
            os._exit(EXIT_FAILURE)
        gc.collect()
        gc.freeze()

    def _dismiss_spare(self) -> None:
        """Let the worker that is forked ahead end: it lacks what has come since."""
        if self._spare is not None:
            self._spare.dismiss()
            self._spare = None

    def _pass_over_libraries(self) -> None:
        """Spare workers the look at what is imported, as long as there is nothing of the user's among it."""
        from pallas_worker.process.user_module.loaded_code import pass_over_libraries

        if not self._own_files:
            pass_over_libraries()

    def _fork_ahead(self) -> PreforkedWorker | None:
        from pallas_worker.process.zygote.prefork import PreforkedWorker

        try:
            return PreforkedWorker(self._channel.close)
        except (OSError, RuntimeError, MemoryError):  # the next spawn command reports it
            return None

    def _spawn(self, descriptors: Descriptors) -> int:
        """The process ID of a worker that is the supervisor's child, forked now or ahead."""
        from pallas_worker.process.zygote.prefork import become_worker

        spare, self._spare = self._spare, None
        if spare is not None and spare.become(descriptors):
            return spare.pid

        def work() -> NoReturn:
            self._channel.close()
            become_worker(descriptors)

        return fork_adopted(work)


if __name__ == "__main__":
    main()
