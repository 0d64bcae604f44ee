"""The worker's Prometheus series: their names, labels and buckets, and one function for each event.

Has what docs/metrics.md says of workers; must not know where the events come from.
Until `open_metrics` the recording functions do nothing, so that importing this module opens no file and a
zygote can fork it. After it they never raise: what the disk has no room for is dropped, with one warning. An agent
whose metrics cannot be written serves all the same.
`pallas_up` is the supervisor's; `pallas_agent_info` and `pallas_agent_health_status` are in no file.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from prometheus_client import Counter, Gauge, Histogram

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.exposition import choose, page
from pallas_common.metrics.writing.opening import open_files
from pallas_common.metrics.writing.slot_files import AgentFiles, ReservedFile, SlotBusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pallas_common.metrics.exposition import Family
    from pallas_worker.interface.turn import TokenKind

Outcome = Literal["ok", "error"]
ToolOutcome = Literal["ok", "error", "refused", "held"]
"""`refused`: it was not run, and the model was told why. `held`: the turn has ended before it."""

MESSAGE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
"""Upper bounds in seconds: from an agent without a model to a long loop."""
TOOL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Upper bounds in seconds: from a lookup on the same machine to another agent's whole answer."""

RETRY = 5.0
"""Seconds until it is tried again to open files that could not be made."""

_log = get_logger("pallas.worker.metrics")


@dataclass(frozen=True, slots=True)
class _Series:
    """The open series of this process, and the files of its agent."""

    files: AgentFiles | None
    messages: Counter
    message_seconds: Histogram
    turns: Counter
    tokens: Counter
    tool_calls: Counter
    tool_seconds: Histogram
    model_calls: Counter
    refused_calls: Counter
    downstream_up: Gauge
    provider_up: Gauge
    health_checked: Gauge
    calls_running: Gauge
    calls_waiting: Gauge


@dataclass(slots=True)
class _Slot:
    """Where this process is to record."""

    directory: str
    name: str
    agent: str | None
    owner: int
    """The process ID: children record beside the slot and open nothing."""
    retry_at: float = 0.0
    """When it is worth trying again to open the files, on the monotonic clock."""


_slot: _Slot | None = None
_series: _Series | None = None
_complained = False


def open_metrics(directory: str, slot: str, agent: str | None = None) -> None:
    """Begin to record into the files of `slot` in `directory`, where the slot's last writer stopped.

    The files are named by the slot and not by the process, so that counters survive a restart and the
    directory does not grow. A process that is forked from this one writes files of its own,
    `<slot>.p<pid>`. Call it once, in the worker itself; there is no way back. If the files cannot be made,
    because the disk is full for example, nothing is recorded until they can be.

    Args:
        directory: exists, is writable, and belongs to one supervisor.
        slot: letters and digits only.
        agent: whose calls are counted from 0 on, so that the first one is seen to be one more.

    Raises:
        ValueError: `slot` is not a slot's name.
        RuntimeError: this process has metrics open already.
        SlotBusyError: another living process writes this slot.
    """
    global _slot
    if not (slot.isascii() and slot.isalnum()):
        raise ValueError(f"a metrics slot is named with letters and digits only, not {slot!r}")
    if _slot is not None:
        raise RuntimeError(f"the metrics of this process are open already, in slot {_slot.name!r}")
    _slot = _Slot(directory, slot, agent, os.getpid())
    try:
        _open(_slot)
    except SlotBusyError:
        _slot = None
        raise


def _open(slot: _Slot) -> None:
    """Try to make the files."""
    global _series
    try:
        open_files(slot.directory, slot.name)
    except OSError as error:
        slot.retry_at = time.monotonic() + RETRY
        _complain(error)
        return
    _series = replace(make_series(), files=AgentFiles(slot.directory, slot.name, slot.agent))
    if (agent := slot.agent) is not None:
        _record(lambda series: series.messages.labels(agent, "ok"))
        _record(lambda series: series.messages.labels(agent, "error"))
        _record(lambda series: series.message_seconds.labels(agent))


@cache
def make_series() -> _Series:
    """The series without their files. A zygote may make them: they have no values yet, and open no file."""
    counter, histogram = partial(Counter, registry=None), partial(Histogram, registry=None)
    latest = partial(Gauge, registry=None, multiprocess_mode="livemostrecent")
    # A sum: while one worker takes over from another, the calls of both are the agent's.
    total = partial(Gauge, registry=None, multiprocess_mode="livesum")
    return _Series(
        files=None,
        messages=counter(
            "pallas_send_message_total",
            "Turns of the agent (send_message, chat completions), by outcome (ok, error); a cancelled one is an error.",
            ["agent", "outcome"],
        ),
        message_seconds=histogram(
            "pallas_send_message_duration_seconds",
            "Wall-clock duration of turns (send_message, chat completions), the whole agent loop included, in seconds.",
            ["agent"],
            buckets=MESSAGE_BUCKETS,
        ),
        turns=counter("pallas_llm_turns_total", "Round-trips to the LLM provider.", ["agent", "model"]),
        tokens=counter(
            "pallas_llm_tokens_total",
            "Tokens of LLM turns, by kind: input, output, cache_read, cache_write, cache_hit, reasoning.",
            ["agent", "model", "kind"],
        ),
        tool_calls=counter(
            "pallas_tool_calls_total",
            "Operations on downstream MCP servers, by kind of operation and outcome (ok, error).",
            ["agent", "server", "operation", "outcome"],
        ),
        tool_seconds=histogram(
            "pallas_tool_call_duration_seconds",
            "Duration of operations on downstream MCP servers in seconds.",
            ["agent", "server", "operation"],
            buckets=TOOL_BUCKETS,
        ),
        model_calls=counter(
            "pallas_model_tool_calls_total",
            'Tool calls that the agent\'s models asked for, by server ("own" for tools that no server has) '
            "and outcome (ok, error, refused, held).",
            ["agent", "server", "outcome"],
        ),
        refused_calls=counter(
            "pallas_refused_tool_calls_total",
            "Tool calls of the agent's models that were not run: it has no such tool, or a filter hides it.",
            ["agent"],
        ),
        downstream_up=latest(
            "pallas_downstream_up",
            "1 when the downstream MCP server passed its newest background probe, else 0.",
            ["agent", "server"],
        ),
        provider_up=latest(
            "pallas_llm_provider_up",
            "1 when the active LLM provider passed its newest check, else 0.",
            ["provider"],
        ),
        health_checked=latest(
            "pallas_health_checked_timestamp_seconds",
            "When the agent's newest round of background probes ended, in seconds since the epoch.",
            ["agent"],
        ),
        calls_running=total(
            "pallas_calls_running", "Turns that run now; max_concurrency bounds them.", ["agent"]
        ),
        calls_waiting=total(
            "pallas_calls_waiting",
            "Turns that wait for a place now; max_queue bounds them.",
            ["agent"],
        ),
    )


def observe_send_message(agent: str, outcome: Outcome, seconds: float) -> None:
    """One `send_message` call has ended after `seconds`."""
    _record(lambda series: series.messages.labels(agent, outcome).inc())
    _record(lambda series: series.message_seconds.labels(agent).observe(seconds))


def count_llm_turn(agent: str, model: str) -> None:
    """The LLM provider has answered once; `model` is the model's own name, without its provider."""
    _record(lambda series: series.turns.labels(agent, model).inc())


def count_llm_tokens(agent: str, model: str, kind: TokenKind, n: int) -> None:
    """LLM turns have used `n` tokens of one kind; nothing is recorded for a number below 1."""
    if n > 0:
        _record(lambda series: series.tokens.labels(agent, model, kind).inc(n))


def observe_tool_call(agent: str, server: str, operation: str, outcome: Outcome, seconds: float) -> None:
    """One operation on a downstream server has ended after `seconds`."""
    _record(lambda series: series.tool_calls.labels(agent, server, operation, outcome).inc())
    _record(lambda series: series.tool_seconds.labels(agent, server, operation).observe(seconds))


def count_model_tool_calls(agent: str, server: str, outcome: ToolOutcome, n: int) -> None:
    """So many tool calls that the agent's models asked for had this outcome."""
    _record(lambda series: series.model_calls.labels(agent, server, outcome).inc(n))
    if outcome == "refused":
        _record(lambda series: series.refused_calls.labels(agent).inc(n))


def set_downstream_up(agent: str, server: str, up: bool) -> None:
    """The newest probe of the downstream server has passed or failed."""
    _record(lambda series: series.downstream_up.labels(agent, server).set(up))


def set_llm_provider_up(provider: str, up: bool) -> None:
    """The newest check of the active LLM provider has passed or failed."""
    _record(lambda series: series.provider_up.labels(provider).set(up))


def set_health_checked(agent: str) -> None:
    """A round of background probes has ended."""
    _record(lambda series: series.health_checked.labels(agent).set_to_current_time())


def set_calls(agent: str, running: int, waiting: int) -> None:
    """So many `send_message` calls run now, and so many wait for their turn."""
    _record(lambda series: series.calls_running.labels(agent).set(running))
    _record(lambda series: series.calls_waiting.labels(agent).set(waiting))


def look_after_files() -> None:
    """Make removed files again; to be called now and then."""
    if _slot is None or (agent := _slot.agent) is None or ReservedFile.upkeep is None:
        return
    ReservedFile.upkeep.is_due = True
    _record(
        lambda series: series.messages.labels(agent, "ok").inc(0)
    )  # a write looks, with nobody else writing


def render(accept: str | None, facts: Iterable[Family] = ()) -> tuple[bytes, str]:
    """The agent's own series, those of processes forked from its workers included: body and content type.

    Args:
        accept: the request's `Accept` header; it may ask for OpenMetrics.
        facts: what else is known of the agent.

    Raises:
        RuntimeError: `open_metrics` has not been called, or the files cannot be made.
        OSError: the directory cannot be read.
    """
    if _series is None or _series.files is None:
        raise RuntimeError("the metrics of this process are not open: see open_metrics")
    look_after_files()
    _series.files.read()
    content_type = choose(accept or "")
    return page([*facts, *_series.files.merged.families()], content_type), content_type


def _record(write: Callable[[_Series], object]) -> None:
    """Write into the open series; before `open_metrics`, and where the disk has no room, nothing is recorded."""
    if (
        _series is None
        and _slot is not None
        and time.monotonic() >= _slot.retry_at
        and os.getpid() == _slot.owner
    ):
        with suppress(SlotBusyError):
            _open(_slot)
    if _series is not None:
        try:
            write(_series)
        except OSError as error:
            _complain(error)


def _complain(error: OSError) -> None:
    global _complained
    if not _complained:
        _complained = True
        _log.warning(f"metrics are being dropped: {error}")
