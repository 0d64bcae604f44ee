"""One agent inspected, in the process that it has for that: all that a start does, up to one instance on trial.

The result goes to the guard, as lines. A local inspection asks no server and no LLM provider; one that is `online`
attaches the servers as a start does, and makes the probes of health once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.logs.own_loggers import give_handler
from pallas_common.protocol.inspection import (
    MOST_ITEMS,
    InspectedProvider,
    InspectedServer,
    Inspection,
    encode,
)
from pallas_common.protocol.link.process import loop_factory, memory_limit
from pallas_common.protocol.reports import DownstreamHealth, FailedReport, encode_report
from pallas_common.protocol.spec import EXIT_FAILURE, WorkerSpec
from pallas_common.secrets.values import secrets_in
from pallas_worker.agent.runtime import open_runtime
from pallas_worker.health.changes import trouble_of
from pallas_worker.health.mcp_probe import Prober
from pallas_worker.health.needs import subjects_for
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.turns import permitted_tools
from pallas_worker.process.preparation import (
    ImportedCode,
    complete_code,
    definition_errors,
    import_code,
    providers_to_probe,
    qualified,
    try_instance,
)
from pallas_worker.process.run import become_worker
from pallas_worker.raised import said
from pallas_worker.redact import known, one_line, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pallas_common.protocol.inspection import Depth
    from pallas_common.protocol.reports import Report
    from pallas_worker.agent.runtime import AgentRuntime
    from pallas_worker.downstreams.facts import Downstream
    from pallas_worker.health.needs import Provider
    from pallas_worker.health.subjects import Subject

LONGEST_WARNING = 1_000
"""Characters of a warning."""


class Warnings(logging.Handler):
    """Keeps what the worker's own loggers warn of, each text once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        if len(self._texts) < MOST_ITEMS:
            self._texts[one_line(record.getMessage(), LONGEST_WARNING)] = None

    def texts(self, failure: str | None) -> tuple[str, ...]:
        """All of them, but for those that only say `failure` again."""
        return tuple(text for text in self._texts if failure is None or failure not in text)


def inspect_agent(data: bytes, lines: int, depth: Depth) -> None:
    """Inspect the agent of a specification.

    Args:
        data: the JSON of a `WorkerSpec`.
        lines: descriptor for the lines: the stages, then a `FailedReport` or the `Inspection`.
    """

    def write(line: bytes) -> None:
        try:
            while line:
                line = line[os.write(lines, line) :]
        except OSError:  # the agent's code has closed it, or the guard is gone: there is nobody to tell
            os._exit(EXIT_FAILURE)

    def report(message: Report) -> None:
        write(encode_report(message))

    spec = WorkerSpec.from_json(data)
    become_worker(spec, f"pallas-inspection {spec.agent} [{spec.deployment}]")
    known.add(secrets_in(os.environ))
    warnings = Warnings()
    give_handler(warnings, logging.WARNING)
    gc.freeze()
    if (memory := memory_limit(spec.memory_limit, spec.cgroup, lines)) is not None:
        memory.end_at_memory_errors()
    try:
        # Only a signal with a handler of Python's is noticed by what reports where the import is.
        signal.signal(signal.SIGTERM, lambda *_: None)
        imported = import_code(spec, report)
        with asyncio.Runner(loop_factory=loop_factory(spec.loop)) as runner:
            inspection = runner.run(_inspect(spec, imported, report, warnings, depth))
    except AgentError as error:
        write(encode_report(FailedReport(message=redact(str(error)), permanent=error.permanent)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is wrong with the agent
        write(encode_report(FailedReport(message=redact(said(error)), permanent=False)))
    else:
        write(encode(inspection))


async def _inspect(
    spec: WorkerSpec,
    imported: ImportedCode,
    report: Callable[[Report], None],
    warnings: Warnings,
    depth: Depth,
) -> Inspection:
    fast, settings, code = await complete_code(spec, imported, report)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if settings.otel is not None:
        settings.otel.enabled = False  # fast-agent would export what happens here
    with definition_errors(spec):
        async with open_runtime(fast, spec.agent, permitted_tools(spec)) as runtime:
            known.add(runtime.secret_keys)
            making = (
                runtime.instance(None, lambda *_: None)
                if depth == "online"
                else runtime.unattached_instance()
            )
            failure = (await try_instance(spec, runtime, code, making)).failure
            downstreams = runtime.downstreams
            if depth == "online":
                providers = providers_to_probe(runtime, settings, failure)
                asked = await _asked(spec, runtime, downstreams, providers)
            else:  # to look for a command is to ask nobody
                commands = [server for server in downstreams if server.transport == "stdio"]
                asked = await _asked(spec, runtime, commands, ())
            return _inspection(runtime, failure, warnings, asked)


async def _asked(
    spec: WorkerSpec, runtime: AgentRuntime, downstreams: Iterable[Downstream], providers: Iterable[Provider]
) -> list[Subject]:
    """Servers and providers, each probed, and again where it was slow."""
    async with Prober() as prober:
        subjects = subjects_for(
            downstreams,
            providers,
            prober.probe,
            interval=spec.probe_interval,
            slow_after=spec.slow_after,
        )
        await asyncio.gather(*map(_ask, subjects))
    for subject in subjects:
        if subject.kind is DownstreamHealth and (why := runtime.reachability.watched_down.get(subject.name)):
            subject.called(why)
    return subjects


async def _ask(subject: Subject) -> None:
    for _ in range(2):
        if subject.look is not None:
            subject.found(await subject.look(), time.monotonic())
        if not subject.slow_in_a_row:
            return


def _inspection(
    runtime: AgentRuntime, failure: str | None, warnings: Warnings, asked: Iterable[Subject]
) -> Inspection:
    servers: dict[str, Subject] = {}
    providers: list[InspectedProvider] = []
    for subject in asked:
        state = subject.state
        if subject.kind is DownstreamHealth:
            servers[subject.name] = subject
        elif state is not None:
            provider = InspectedProvider(
                name=state.name,
                up=state.up,
                latency=state.latency,
                trouble=_short(trouble_of(subject)),
                counts=subject.counts,
            )
            providers.append(provider)
    return Inspection(
        served=one_line(runtime.agent, 200),
        agents=tuple(one_line(name, 200) for name in runtime.agents[:MOST_ITEMS]),
        model=_short(qualified(runtime.model)),
        models=tuple(one_line(qualified(model.spec) or "", 200) for model in runtime.asked_models),
        servers=tuple(_server(server, servers.get(server.name)) for server in runtime.downstreams),
        providers=tuple(providers),
        failure=_short(failure),
        warnings=warnings.texts(failure),
    )


def _server(server: Downstream, asked: Subject | None) -> InspectedServer:
    state = asked.state if asked is not None else None
    return InspectedServer(
        name=one_line(server.name, 200),
        transport=server.transport,
        address=one_line(_address(server), 300),
        up=state.up if state is not None else None,
        latency=state.latency if state is not None else None,
        trouble=_short(trouble_of(asked)) if asked is not None else None,
    )


def _address(server: Downstream) -> str:
    if server.transport == "stdio":
        return server.command or ""
    try:
        url = urlsplit(server.url or "")
    except ValueError:
        return ""
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"


def _short(text: str | None) -> str | None:
    return None if text is None else one_line(text, LONGEST_WARNING)
