"""`pallasctl health`: what people read, what scripts read, and the exit status."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from fakes.control_server import FakeControl, run

if TYPE_CHECKING:
    from pathlib import Path


def health(status_: str, **agents: str) -> dict[str, Any]:
    states = {
        name: {"status": each, "state": "ready", "message": f"{each}!"} for name, each in agents.items()
    }
    return {"status": status_, "timestamp": "2026-01-31T12:00:00Z", "agents": states}


@pytest.mark.parametrize(("state", "http", "code"), [("ok", 200, 0), ("degraded", 200, 0), ("error", 503, 1)])
def test_health(fake: FakeControl, state: str, http: int, code: int) -> None:
    fake.answer("/v1/health", health(state, research=state), http)
    result = fake.run("health")
    assert result.exit_code == code
    summary, header, row = result.stdout.splitlines()
    assert summary == f"{state} at 2026-01-31T12:00:00Z"
    assert header.split() == ["NAME", "HEALTH", "STATE", "SINCE", "MESSAGE"]
    assert row.split() == ["research", state, "ready", "-", f"{state}!"]


def test_wide_health_has_a_line_for_each_server_and_provider(fake: FakeControl) -> None:
    moment = (datetime.now(UTC) - timedelta(hours=5, seconds=5)).isoformat()
    up = {"up": True, "since": moment, "checked": moment, "latency": 0.25, "error": None}
    down = {**up, "up": False, "latency": None, "error": "HTTP 503"}
    document = health("degraded", research="degraded")
    document["agents"]["research"] |= {
        "since": moment,
        "downstreams": [
            {**up, "name": "library", "last_error": "cannot connect", "last_error_at": moment},
            {**down, "name": "archive", "last_error": "HTTP 503", "last_error_at": moment},
        ],
        "provider": {**up, "name": "openai", "last_error": None, "last_error_at": None},
    }
    fake.answer("/v1/health", document)
    short, wide = fake.run("health").stdout, fake.run("health", "-o", "wide").stdout
    assert "SINCE" in short
    assert "library" not in short
    lines = [" ".join(line.split()) for line in wide.splitlines()]
    assert lines[-4:] == [
        "AGENT KIND NAME UP SINCE CHECKED LATENCY LAST ERROR",
        "research server library up 5h00m 5h00m 0.250s cannot connect (5h00m ago)",
        "research server archive down 5h00m 5h00m - HTTP 503",
        "research provider openai up 5h00m 5h00m 0.250s -",
    ]


def test_the_gateway_has_a_row(fake: FakeControl) -> None:
    document = health("degraded", research="ok")
    message = "the gateway waits to be started again"
    document["gateway"] = {"status": "error", "state": "backoff", "since": None, "message": message}
    fake.answer("/v1/health", document)
    result = fake.run("health")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].split(maxsplit=4) == ["gateway", "error", "backoff", "-", message]


def test_health_as_json_is_the_document(fake: FakeControl) -> None:
    document = health("error", research="error")
    fake.answer("/v1/health", document, 503)
    result = fake.run("health", "-o", "json")
    assert json.loads(result.stdout) == document
    assert result.exit_code == 1


def test_health_without_a_supervisor(tmp_path: Path) -> None:
    assert run("health", "--socket", str(tmp_path / "none.sock")).exit_code == 1
