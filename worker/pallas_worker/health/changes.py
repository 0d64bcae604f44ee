"""What gauges and the log say of a server or a provider: its newest state, and one line for each change of it.

Knows nothing of probes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.reports import DownstreamHealth
from pallas_worker.telemetry import metrics

if TYPE_CHECKING:
    from pallas_worker.health.subjects import Subject

_log = get_logger("pallas.worker.health")


def report_change(agent: str, subject: Subject) -> None:
    """Let the agent's gauges follow; one record when it has gone down or slow, or is well again. All begin as well."""
    condition, state = subject.condition, subject.state
    if state is None:
        return
    if isinstance(state, DownstreamHealth):
        metrics.set_downstream_up(agent, state.name, state.up)
    elif subject.counts:
        metrics.set_llm_provider_up(state.name, state.up)
    if condition == subject.logged:
        return
    if (trouble := trouble_of(subject)) is not None:
        _log.warning(trouble)
    elif subject.logged == "slow":
        _log.info(f"{_kind(subject)} {state.name} is not slow any more")
    else:
        _log.info(f"{_kind(subject)} {state.name} is up again; attempts that failed: {subject.failed}")
    subject.logged = condition


def trouble_of(subject: Subject) -> str | None:
    """What is wrong with it, in one line; None if nothing is, as far as is known."""
    state = subject.state
    if state is None or subject.condition == "up":
        return None
    if subject.condition == "down":
        return f"{_kind(subject)} {state.name} is down: {state.error}"
    return f"{_kind(subject)} {state.name} is slow: it answers after {state.latency or 0.0:.1f} s"


def _kind(subject: Subject) -> str:
    return "downstream server" if subject.kind is DownstreamHealth else "LLM provider"
