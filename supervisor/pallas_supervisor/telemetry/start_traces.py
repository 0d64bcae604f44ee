"""Spans of starts: the supervisor's own, and every agent's with its stages. Does nothing where tracing is off.

Knows what is reported of a start and when; OpenTelemetry is imported only where the environment asks for traces. The
moments are those at which the supervisor heard of them.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_common import __version__
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.reports import FailedReport, ReadyReport, StageReport
from pallas_common.tracing.settings import tracing_settings
from pallas_supervisor.lifecycle.states import State, label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.reports import Report
    from pallas_common.secrets.values import KnownSecrets
    from pallas_common.tracing.provider import Tracing
    from pallas_supervisor.lifecycle.states import Agent

_STAGES = {"importing": "import", "creating": "create", "serving": "serve"}
_UNDER_WAY = frozenset(State) - {State.READY, State.IDLE, State.FAILED, State.STOPPED}

_log = get_logger("pallas.supervisor.tracing")


def open_tracing(environ: Mapping[str, str], deployment: str, secrets: KnownSecrets) -> Tracing | None:
    """Tracing of the supervisor, or None where it is off; where it was asked for in vain, a warning says why."""
    wanted = tracing_settings(environ)
    if wanted.problem:
        _log.warning(f"tracing is off: {wanted.problem}")
    if not wanted.on:
        return None
    resource = {"service.name": "pallas", "service.namespace": deployment, "service.version": __version__}
    tracing: Tracing | None = importlib.import_module("pallas_common.tracing.provider").open_tracing(
        wanted, resource, secrets
    )
    return tracing


@dataclass(slots=True)
class _Start:
    """One start of an agent: its span and that of the stage it is in."""

    span: Any
    stage: Any


class StartTraces:
    """Follows starts: the supervisor's, from now until every agent has settled, and each agent's.

    Args:
        tracing: None where tracing is off; then nothing is kept and nothing done.
    """

    def __init__(self, tracing: Tracing | None = None) -> None:
        self._tracer: Any = None if tracing is None else tracing.tracer
        self._context: Any = None if tracing is None else importlib.import_module("opentelemetry.trace")
        self._starts: dict[tuple[str, int], _Start] = {}
        self._whole = self._span("supervisor.start", None)

    def begin(self, name: str, generation: int) -> None:
        """A worker of the agent is about to be forked."""
        if self._tracer is None:
            return
        self._end(name, generation, "started again")
        attributes: dict[str, str | int] = {"pallas.agent": label(name), "pallas.generation": generation}
        span = self._span("agent.start", self._whole, attributes)
        self._starts[name, generation] = _Start(span, self._span("fork", span))

    def report(self, name: str, generation: int, report: Report) -> None:
        """The worker says how far it is."""
        start = self._starts.get((name, generation))
        match report:
            case StageReport(stage=stage) if start is not None:
                self._next(start, _STAGES[stage])
            case ReadyReport() if start is not None:
                self._next(start, "ready")
            case FailedReport(message=message):
                self._end(name, generation, message)

    def follow(self, agent: Agent) -> None:
        """The agent's state has changed."""
        if self._tracer is None:
            return
        present = agent.generations
        for name, generation in [key for key in self._starts if key[0] == agent.name]:
            if generation not in present:
                self._end(name, generation, "the worker ended")
            elif generation == agent.generation and agent.state is State.READY:
                self._end(name, generation, None)
            elif generation == agent.generation and agent.state is not State.STARTING:
                self._end(name, generation, str(agent.state))

    def settle(self, agents: Mapping[str, Agent]) -> None:
        """Agents have changed: perhaps the supervisor has started."""
        if self._whole is not None and not any(one.state in _UNDER_WAY for one in agents.values()):
            self.close(agents)

    def close(self, agents: Mapping[str, Agent]) -> None:
        """The supervisor has started, or is stopping."""
        if self._whole is None:
            return
        ready = sum(agent.state is State.READY for agent in agents.values())
        self._whole.set_attributes({"pallas.agents": len(agents), "pallas.agents.ready": ready})
        self._whole.end()
        self._whole = None

    def _span(self, name: str, parent: Any, attributes: Mapping[str, str | int] | None = None) -> Any:
        if self._tracer is None:
            return None
        context = self._context.set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context=context, attributes=attributes)

    def _next(self, start: _Start, stage: str) -> None:
        start.stage.end()
        start.stage = self._span(stage, start.span)

    def _end(self, name: str, generation: int, why: str | None) -> None:
        start = self._starts.pop((name, generation), None)
        if start is None:
            return
        if why is not None:
            start.span.set_attribute("pallas.failure", why)
            start.span.set_status(self._context.StatusCode.ERROR)
        start.stage.end()
        start.span.end()
