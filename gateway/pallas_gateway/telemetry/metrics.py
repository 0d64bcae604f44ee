"""The gateway's Prometheus series: names, labels, buckets, and one function for each event.

Has what docs/metrics.md says of the gateway; must not know where the events come from. Until `open_metrics` nothing is
recorded. After it nothing raises: what the disk has no room for is dropped, with one warning. What a client makes up
never becomes a label.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.writing.opening import open_files
from pallas_common.metrics.writing.slot_files import ReservedFile, SlotBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Upper bounds in seconds: from a relayed look-up to an agent's whole answer."""

MOST_NAMES = 200
"""Different tools, or servers, that are told apart; the others are `other`."""
OTHER = "other"

RETRY = 5.0
"""Seconds until it is tried again to open files that could not be made."""

_log = get_logger("pallas.gateway.metrics")


@dataclass(frozen=True, slots=True)
class _Series:
    requests: Counter
    denied: Counter
    in_flight: Gauge
    tool_seconds: Histogram
    relay_seconds: Histogram
    reads: Counter
    subscribers: Gauge
    streams: Gauge
    connections: Gauge
    turns: Gauge
    turn_seconds: Histogram
    deleted_threads: Counter
    store_errors: Counter
    audit_lines: Counter


def _make_series() -> _Series:
    counter, histogram = partial(Counter, registry=None), partial(Histogram, registry=None, buckets=BUCKETS)
    # There from the start on: of a counter that comes with its first event, a rate does not see that event.
    audit_lines = counter(
        "pallas_gateway_audit_lines_total",
        "Lines of the audit, by outcome: written, or failed.",
        ["outcome"],
    )
    for outcome in ("written", "failed"):
        audit_lines.labels(outcome)
    deleted_threads = counter(
        "pallas_gateway_threads_deleted_total",
        "Threads that the gateway has deleted by itself, by reason: their agent was deleted; their age.",
        ["reason"],
    )
    for reason in ("agent", "age"):
        deleted_threads.labels(reason)
    # A sum: while one process takes over from another, both are the gateway.
    total = partial(Gauge, registry=None, multiprocess_mode="livesum")
    return _Series(
        requests=counter(
            "pallas_gateway_requests_total",
            "Requests of those who are known, by what was asked (management, compositor, agent, project, api,"
            " completions, pages), role and outcome (ok, failed, error, denied, limited, cancelled).",
            ["surface", "role", "outcome"],
        ),
        denied=counter(
            "pallas_gateway_access_denied_total",
            "Requests that were not let in, by reason: no, a wrong or a damaged token; too little scope; a limit.",
            ["reason"],
        ),
        in_flight=total(
            "pallas_gateway_requests_in_flight", "Requests that are worked on now, without streams."
        ),
        tool_seconds=histogram(
            "pallas_gateway_tool_duration_seconds",
            "Duration of calls of tools in seconds, by what was asked and by tool; of a relayed one, its server.",
            ["surface", "tool"],
        ),
        relay_seconds=histogram(
            "pallas_gateway_relay_duration_seconds",
            "Duration of what other servers of MCP were asked in seconds, by server and outcome (ok, error).",
            ["server", "outcome"],
        ),
        reads=counter(
            "pallas_gateway_resource_reads_total",
            "Resources that were read, by what was asked and outcome.",
            ["surface", "outcome"],
        ),
        subscribers=total("pallas_gateway_subscribers", "Sessions and streams that follow something now."),
        streams=total("pallas_gateway_streams", "Streams to clients that are open now."),
        connections=total(
            "pallas_gateway_upstream_connections", "Connections to other servers of MCP and to workers now."
        ),
        turns=total("pallas_gateway_turns", "Turns of conversations that are under way now."),
        turn_seconds=histogram(
            "pallas_gateway_turn_duration_seconds",
            "Duration of turns of conversations in seconds, by outcome (ok, error, cancelled).",
            ["outcome"],
        ),
        deleted_threads=deleted_threads,
        store_errors=counter(
            "pallas_gateway_store_errors_total", "Questions to the store that it did not answer."
        ),
        audit_lines=audit_lines,
    )


class _Recorder:
    """The slot of this process, as far as it is open."""

    def __init__(self) -> None:
        self.slot: tuple[str, str] | None = None
        self.series: _Series | None = None
        self._retry_at = 0.0
        self._complained = False
        self._names: dict[str, set[str]] = {}

    def open(self) -> None:
        """Try to make the files."""
        assert self.slot is not None
        try:
            open_files(*self.slot)
        except OSError as error:
            self._retry_at = time.monotonic() + RETRY
            self._complain(error)
        else:
            self.series = _make_series()

    def record(self, write: Callable[[_Series], object]) -> None:
        """Write into the open series."""
        if self.series is None:
            if self.slot is None or time.monotonic() < self._retry_at:
                return
            with suppress(SlotBusyError):
                self.open()
        if self.series is not None:
            try:
                write(self.series)
            except OSError as error:
                self._complain(error)

    def bounded(self, label: str, name: str) -> str:
        """The name, or `OTHER` if there are many."""
        known = self._names.setdefault(label, set())
        if name not in known:
            if len(known) >= MOST_NAMES or len(name) > 100:
                return OTHER
            known.add(name)
        return name

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            _log.warning(f"metrics are being dropped: {error}")


_recorder = _Recorder()


def open_metrics(directory: str, slot: str) -> None:
    """Begin to record into the files of `slot`, where its last writer stopped; once, and there is no way back.

    If the files cannot be made, because the disk is full for example, nothing is recorded until they can be.

    Raises:
        RuntimeError: they are open already.
        SlotBusyError: another living process writes this slot.
    """
    if _recorder.slot is not None:
        raise RuntimeError("the metrics of this process are open already")
    _recorder.slot = directory, slot
    try:
        _recorder.open()
    except SlotBusyError:
        _recorder.slot = None
        raise


def count_request(surface: str, role: str, outcome: str) -> None:
    """A request of somebody who is known has ended."""
    _recorder.record(lambda series: series.requests.labels(surface, role, outcome).inc())


def count_denied(reason: str) -> None:
    """Somebody was not let in, or may not do what was asked; `reason` is of a fixed set."""
    _recorder.record(lambda series: series.denied.labels(reason).inc())


def add_in_flight(change: int) -> None:
    """So many requests more, or fewer, are worked on."""
    _recorder.record(lambda series: series.in_flight.inc(change))


def observe_tool(surface: str, tool: str, seconds: float) -> None:
    """A call of a tool has ended; `tool` is one of our own, or the server of a relayed one."""
    tool = _recorder.bounded("tool", tool)
    _recorder.record(lambda series: series.tool_seconds.labels(surface, tool).observe(seconds))


def observe_relay(server: str, ok: bool, seconds: float) -> None:
    """Another server has answered, or has not; `server` is its name in the settings."""
    server, outcome = _recorder.bounded("server", server), "ok" if ok else "error"
    _recorder.record(lambda series: series.relay_seconds.labels(server, outcome).observe(seconds))


def count_read(surface: str, outcome: str) -> None:
    """A resource was read, or not."""
    _recorder.record(lambda series: series.reads.labels(surface, outcome).inc())


def set_subscribers(number: int) -> None:
    """So many sessions and streams follow something."""
    _recorder.record(lambda series: series.subscribers.set(number))


def add_stream(change: int) -> None:
    """So many streams to clients more, or fewer, are open."""
    _recorder.record(lambda series: series.streams.inc(change))


def set_upstream_connections(number: int) -> None:
    """So many connections to other servers and to workers are open."""
    _recorder.record(lambda series: series.connections.set(number))


def set_turns(number: int) -> None:
    """So many turns of conversations are under way."""
    _recorder.record(lambda series: series.turns.set(number))


def observe_turn(seconds: float, outcome: str) -> None:
    """A turn of a conversation has ended."""
    _recorder.record(lambda series: series.turn_seconds.labels(outcome).observe(seconds))


def count_deleted_threads(reason: str, number: int) -> None:
    """So many threads were deleted; `reason` is `agent` or `age`."""
    _recorder.record(lambda series: series.deleted_threads.labels(reason).inc(number))


def count_store_error() -> None:
    """The store has not answered a question."""
    _recorder.record(lambda series: series.store_errors.inc())


def count_audit_line(written: bool) -> None:
    """A line of the audit was written, or could not be."""
    _recorder.record(lambda series: series.audit_lines.labels("written" if written else "failed").inc())


def look_after_files() -> None:
    """Make removed files again; to be called now and then."""
    if ReservedFile.upkeep is not None:
        ReservedFile.upkeep.is_due = True
        _recorder.record(lambda series: series.in_flight.inc(0))
