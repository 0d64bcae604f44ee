"""The life of one worker process, from inherited descriptors to exit status.

Knows the process: environment, signals, log pipe, lifeline, exit. What is served is in `serve`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from pallas_common.logs.levels import Levels
from pallas_common.logs.setup import configure_logging, get_logger
from pallas_common.processes.descriptors import withhold_all, withhold_from_forks
from pallas_common.protocol.link.lifeline import StopRequest, wake_on_parent_death
from pallas_common.protocol.link.line_writer import LineWriter
from pallas_common.protocol.link.log_handler import RecordHandler
from pallas_common.protocol.link.process import (
    become,
    join_group,
    loop_factory,
    memory_limit,
    run_to_the_end,
    taken_spec,
)
from pallas_common.protocol.link.redacted_stdio import redact_stdio
from pallas_common.protocol.reports import FailedReport, Heartbeat, ReadyReport, Report, encode_report
from pallas_common.protocol.spec import EXIT_FAILURE, EXIT_PERMANENT, Descriptors, WorkerSpec
from pallas_common.secrets.values import secrets_in
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.looping import run_in_loop
from pallas_worker.raised import said
from pallas_worker.redact import known, redact
from pallas_worker.telemetry.correlation import CorrelationFilter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import NoReturn

_log = get_logger("pallas.worker")


def run_worker(descriptors: Descriptors) -> NoReturn:
    """Serve one agent until a signal asks to stop, then end the process; never returns.

    Exit status: 0 after a drain, `EXIT_PERMANENT` where a restart cannot help, `EXIT_FAILURE` otherwise.
    """
    run_to_the_end(functools.partial(_run, descriptors))


def _run(descriptors: Descriptors, orphaned: threading.Event) -> int:
    withhold_all()
    spec = WorkerSpec.from_json(taken_spec(descriptors.spec))
    outside = join_group(spec.cgroup)
    wake_on_parent_death()
    become_worker(spec, worker_title(spec))
    withhold_from_forks((descriptors.listen, descriptors.lifeline, descriptors.report, descriptors.records))
    listener = socket.socket(fileno=descriptors.listen)
    reports = LineWriter(descriptors.report)
    memory = memory_limit(spec.memory_limit, spec.cgroup, descriptors.report)
    stop: StopRequest | None = None

    def report(message: Report) -> None:
        if isinstance(message, ReadyReport | Heartbeat) and stop is not None:
            _keep_signals(stop)
        if isinstance(message, ReadyReport):
            gc.collect()
            gc.freeze()  # what is there now is there to stay: no collection need look at it
            if memory is not None:
                memory.count_from_here()  # what it takes to be there is not the agent's to save
        reports.write(encode_report(message))

    known.add(secrets_in(os.environ))
    known.add(filter(None, (spec.key, spec.siblings_key, spec.token)))
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
        stop = StopRequest(descriptors.lifeline, None if spec.listener_outlives else listener, orphaned)
        _load_and_serve(spec, listener, report, stop)
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


def _load_and_serve(
    spec: WorkerSpec, listener: socket.socket, report: Callable[[Report], None], stop: StopRequest
) -> None:
    # Imported only now: in a process that was not forked it takes seconds, and the lifeline is watched meanwhile.
    metrics = importlib.import_module("pallas_worker.telemetry.metrics")
    metrics.open_metrics(spec.metrics_directory, spec.metrics_slot, spec.agent)
    preparation = importlib.import_module("pallas_worker.process.preparation")
    serving = importlib.import_module("pallas_worker.process.serve")
    if stop.is_made():
        return
    # Before a loop runs, as under `python agent.py`: a module may run loops of its own.
    imported = preparation.import_code(spec, report)
    _keep_signals(stop)
    if stop.is_made():
        return

    async def serve() -> None:
        await serving.serve(spec, imported, listener, report, stop.in_loop())

    run_in_loop(serve(), loop_factory(spec.loop))


def _keep_signals(stop: StopRequest) -> None:
    """Take signals back from handlers that the agent's code has set: its calls have to be drained."""
    for number in stop.take_back():
        _log.warning(
            f"code of the agent has set a handler for {number.name}, which is not called: at that signal the worker "
            "lets its calls end; clean up where the agent's work ends instead, with `finally` or `async with`"
        )


def become_worker(spec: WorkerSpec, title: str) -> None:
    """Take on the process's identity, with the agent's directory first on the module path."""
    become(
        title=title,
        thread_title=f"pallas:{spec.agent}",
        environment=spec.environment,
        directory=spec.directory,
    )
    sys.path.insert(0, spec.directory)
    sys.argv = [f"pallas-worker-{spec.agent}"]
    if sys.version_info < (3, 14):
        asyncio.set_event_loop_policy(None)  # loops have run here: `asyncio.get_event_loop()` would find none
    os.register_at_fork(after_in_child=_mind_own_signals)


def _mind_own_signals() -> None:
    """In a process that the agent forks: signals are its own, and must not reach the worker's loop too."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def worker_title(spec: WorkerSpec) -> str:
    """The process title; `owners` of the supervisor reads agent and generation back from it."""
    return f"pallas-worker {spec.agent} {spec.generation} [{spec.deployment}]"
