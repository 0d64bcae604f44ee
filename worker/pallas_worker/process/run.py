"""The life of one worker process, from inherited descriptors to exit status.

Knows the process: environment, signals, log pipe, lifeline, exit. What is served is in `serve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import io
import logging
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import setproctitle

from pallas_common.logs.levels import Levels
from pallas_common.logs.setup import configure_logging, get_logger
from pallas_common.protocol.reports import FailedReport, ReadyReport, Report, encode_report
from pallas_common.protocol.spec import EXIT_FAILURE, EXIT_PERMANENT, Descriptors, WorkerSpec
from pallas_common.secrets.values import secrets_in
from pallas_worker.interface.errors import AgentError
from pallas_worker.link.lifeline import wake_on_parent_death, watch_lifeline
from pallas_worker.link.line_writer import LineWriter
from pallas_worker.link.log_handler import RecordHandler
from pallas_worker.link.redacted_stdio import redact_stdio
from pallas_worker.process.memory_limit import MemoryLimit
from pallas_worker.process.user_module.errors import said
from pallas_worker.redact import known, redact
from pallas_worker.telemetry.correlation import CorrelationFilter

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_log = get_logger("pallas.worker")


def run_worker(descriptors: Descriptors) -> NoReturn:
    """Serve one agent until a signal asks to stop, then end the process; never returns.

    Exit status: 0 after a drain, `EXIT_PERMANENT` where a restart cannot help, `EXIT_FAILURE` otherwise. The
    process ends by `os._exit`, because threads that an agent's libraries left behind must not hold it.
    """
    status = EXIT_FAILURE
    orphaned = threading.Event()
    try:
        status = _run(descriptors, orphaned)
    except BaseException:  # noqa: BLE001 - nothing above this reports it
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        if orphaned.is_set():  # no supervisor is left to end what the agent has left in the group
            os.killpg(0, signal.SIGKILL)
        os._exit(status)


def _run(descriptors: Descriptors, orphaned: threading.Event) -> int:
    spec = WorkerSpec.from_json(_read_all(descriptors.spec))
    os.close(descriptors.spec)
    outside = _join(spec.cgroup)
    wake_on_parent_death()
    become(spec, worker_title(spec))
    listener = socket.socket(fileno=descriptors.listen)
    reports = LineWriter(descriptors.report)
    memory = memory_limit(spec, descriptors.report)

    def report(message: Report) -> None:
        if isinstance(message, ReadyReport):
            gc.collect()
            gc.freeze()  # what is there now is there to stay: no collection need look at it
            if memory is not None:
                memory.count_from_here()  # what it takes to be there is not the agent's to save
        reports.write(encode_report(message))

    known.add(secrets_in(os.environ))
    known.add(filter(None, (spec.key, spec.token)))
    redact_stdio(known)
    handler = RecordHandler(LineWriter(descriptors.records))
    handler.addFilter(CorrelationFilter())
    configure_logging(
        handler,
        Levels(pallas=spec.log_level, root=spec.root_log_level),
        {"agent": spec.agent, "pid": os.getpid(), "generation": spec.generation},
        known,
    )
    if outside is not None:  # what it leaves behind could not be found
        report(FailedReport(message=f"cannot enter its control group: {outside}", permanent=False))
        return EXIT_FAILURE
    if memory is not None:
        memory.end_at_memory_errors()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(spec, listener, report, descriptors, orphaned))
    except AgentError as error:
        # The traceback belongs into the log; the report carries one line.
        _log.error(f"cannot serve the agent: {error}", exc_info=error.__cause__ or error)
        report(FailedReport(message=redact(str(error)), permanent=error.permanent))
        return EXIT_PERMANENT if error.permanent else EXIT_FAILURE
    except BaseException as error:  # noqa: BLE001 - whatever it is, the supervisor needs a report
        _log.exception("the worker failed")
        report(FailedReport(message=redact(said(error)), permanent=False))
        return EXIT_FAILURE
    return 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, which fast-agent brings along on most systems; or else None, for the library's own."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


async def _serve(
    spec: WorkerSpec,
    listener: socket.socket,
    report: Callable[[Report], None],
    descriptors: Descriptors,
    orphaned: threading.Event,
) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    def stop() -> None:
        orphaned.set()
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(stopping.set)

    watch_lifeline(descriptors.lifeline, None if spec.listener_outlives else listener, stop)
    # Imported only now: in a process that was not forked it takes seconds, and the lifeline is watched meanwhile.
    metrics = importlib.import_module("pallas_worker.telemetry.metrics")
    metrics.open_metrics(spec.metrics_directory, spec.metrics_slot, spec.agent)
    serving = importlib.import_module("pallas_worker.process.serve")
    await serving.serve(spec, listener, report, stopping)


def _join(cgroup: str | None) -> OSError | None:
    """Enter the control group before anything of the agent runs; what kept the process from it, if anything."""
    try:
        if cgroup is not None:
            Path(cgroup, "cgroup.procs").write_text("0")
    except OSError as error:
        return error
    return None


def memory_limit(spec: WorkerSpec, report: int) -> MemoryLimit | None:
    """The limit of the agent's entry, in force for the start; `report` is the descriptor that it reports on."""
    if spec.memory_limit is None:
        return None
    by_group = spec.cgroup is not None and Path(spec.cgroup, "memory.max").exists()
    limit = MemoryLimit(spec.memory_limit, report, by_group=by_group)
    limit.count_from_here()
    return limit


def become(spec: WorkerSpec, title: str) -> None:
    """Take on the process's identity: environment, directory, module path, title, randomness, signals."""
    # Before the environment moves: the title is written over where the kernel put arguments and environment.
    setproctitle.setproctitle(title)
    setproctitle.setthreadtitle(f"pallas:{spec.agent}"[:15])
    os.environ.clear()
    os.environ.update(spec.environment)
    time.tzset()  # this and the directory for temporary files are remembered from the zygote's environment
    tempfile.tempdir = None
    os.chdir(spec.directory)
    sys.path.insert(0, spec.directory)
    sys.argv = [f"pallas-worker-{spec.agent}"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # what is printed shall be in the log at once
    random.seed()
    gc.enable()
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    threading.current_thread().name = "main"
    os.register_at_fork(after_in_child=_mind_own_signals)


def _mind_own_signals() -> None:
    """In a process that the agent forks: signals are its own, and must not reach the worker's loop too."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def worker_title(spec: WorkerSpec) -> str:
    """The process title; `owners` of the supervisor reads agent and generation back from it."""
    return f"pallas-worker {spec.agent} {spec.generation} [{spec.deployment}]"


def _read_all(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
