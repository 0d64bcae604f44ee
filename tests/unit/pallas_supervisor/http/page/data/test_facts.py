"""What the page takes from the agents' health reports."""

from __future__ import annotations

from pallas_common.protocol.reports import DownstreamHealth, HealthReport
from pallas_supervisor.health.history import HealthHistory
from pallas_supervisor.http.page.data.facts import Look, looks_of


def looks(*servers: DownstreamHealth) -> dict[tuple[str, str], Look]:
    """What is shown of the servers of as many agents, each with one."""
    history = HealthHistory()
    reports = {
        f"a{n}": HealthReport(status="ok", timestamp="2026-03-12T12:00:00Z", downstreams=(one,))
        for n, one in enumerate(servers)
    }
    for name, report in reports.items():
        history.take(name, report)
    return looks_of(reports, history)


def server(up: bool, minute: int, error: str | None = None) -> DownstreamHealth:
    moment = f"2026-03-12T12:{minute:02d}:00.000Z"
    return DownstreamHealth(name="files", up=up, checked=moment, latency=0.0142, error=error)


def test_of_several_agents_the_server_that_is_down_is_told_of() -> None:
    look = looks(server(True, 1), server(False, 3, "HTTP 503"), server(False, 2))["server", "files"]
    assert (look.up, look.since.minute, look.error) == (False, 2, "HTTP 503")
    assert looks(server(True, 1), server(True, 2))["server", "files"].since.minute == 2
    assert looks() == {}
    unknown = HealthReport(status="ok", timestamp="", downstreams=(server(True, 1),))
    assert looks_of({"a": unknown}, HealthHistory()) == {}
