"""The life of one process of the gateway, from inherited descriptors to exit status.

Knows the process: environment, signals, log pipe, lifeline, exit. What is served is in `serve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import os
import resource
import socket
from typing import TYPE_CHECKING

from pallas_common.logs.levels import Levels
from pallas_common.logs.setup import configure_logging, get_logger
from pallas_common.processes.descriptors import withhold_all
from pallas_common.protocol.gateway import GATEWAY, GatewaySpec
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
from pallas_common.protocol.reports import FailedReport, ReadyReport, Report, encode_report
from pallas_common.protocol.spec import EXIT_FAILURE, EXIT_PERMANENT, Descriptors
from pallas_common.secrets.shortening import without_secrets
from pallas_common.secrets.values import KnownSecrets, secrets_in
from pallas_gateway.process.errors import GatewayError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import NoReturn

TITLE = "pallas-gateway"

LONGEST = 2000
"""Characters of why it gives up."""

_log = get_logger("pallas.gateway")


def run_gateway(descriptors: Descriptors) -> NoReturn:
    """Serve until a signal asks to stop, then end the process; never returns.

    Exit status: 0 after a drain, `EXIT_PERMANENT` where a restart cannot help, `EXIT_FAILURE` otherwise.
    """
    gc.disable()  # until it is ready: what is imported stays, and to look through it again takes a tenth of the time
    run_to_the_end(functools.partial(_run, descriptors))


def _run(descriptors: Descriptors, orphaned: threading.Event) -> int:
    withhold_all()
    reports = LineWriter(descriptors.report)
    try:
        spec = GatewaySpec.from_json(taken_spec(descriptors.spec))
        return _run_as(spec, descriptors, reports, orphaned)
    except BaseException as error:  # before there is a log
        said = without_secrets(f"{type(error).__name__}: {error}", LONGEST, KnownSecrets())
        reports.write(encode_report(FailedReport(message=said, permanent=False)))
        raise


def _run_as(
    spec: GatewaySpec, descriptors: Descriptors, reports: LineWriter, orphaned: threading.Event
) -> int:
    outside = join_group(spec.cgroup)
    wake_on_parent_death()
    become(
        title=f"{TITLE} {spec.generation} [{spec.deployment}]",
        thread_title=TITLE,
        environment=spec.environment,
        directory=spec.state_directory,
    )
    listener = socket.socket(fileno=descriptors.listen)
    memory = memory_limit(spec.memory_limit, spec.cgroup, descriptors.report)
    known = KnownSecrets((*secrets_in(os.environ), *secrets_in(spec.secrets)))

    def report(message: Report) -> None:
        if isinstance(message, ReadyReport):
            gc.collect()
            gc.freeze()  # what is there now is there to stay: no collection need look at it
            gc.enable()
            if memory is not None:
                memory.count_from_here()
        reports.write(encode_report(message))

    redact_stdio(known)
    configure_logging(
        RecordHandler(LineWriter(descriptors.records)),
        Levels(pallas=spec.log_level, root=spec.root_log_level),
        {"agent": GATEWAY, "pid": os.getpid(), "generation": spec.generation},
        known,
    )
    if outside is not None:  # what it leaves behind could not be found
        report(FailedReport(message=f"cannot enter its control group: {outside}", permanent=False))
        return EXIT_FAILURE
    if memory is not None:
        memory.end_at_memory_errors()
    _take_all_descriptors()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(spec, listener, report, known, descriptors, orphaned))
    except GatewayError as error:
        _log.error(f"the gateway cannot serve: {error}")
        _log.debug("where that was found", exc_info=error.__cause__)
        report(FailedReport(message=without_secrets(str(error), LONGEST, known), permanent=error.permanent))
        return EXIT_PERMANENT if error.permanent else EXIT_FAILURE
    except BaseException as error:  # noqa: BLE001 - whatever it is, the supervisor needs a report
        _log.exception("the gateway failed")
        said = without_secrets(f"{type(error).__name__}: {error}", LONGEST, known)
        report(FailedReport(message=said, permanent=False))
        return EXIT_FAILURE
    return 0


async def _serve(
    spec: GatewaySpec,
    listener: socket.socket,
    report: Callable[[Report], None],
    known: KnownSecrets,
    descriptors: Descriptors,
    orphaned: threading.Event,
) -> None:
    kept = None if spec.listener_outlives else listener
    stopping = StopRequest(descriptors.lifeline, kept, orphaned).in_loop()
    # Imported only now: that takes most of a second, and the lifeline is watched meanwhile.
    serving = importlib.import_module("pallas_gateway.process.serve")
    await serving.serve(spec, listener, report, known, stopping)


def _take_all_descriptors() -> None:
    """Let as many be open as the system allows: each subscriber has one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
