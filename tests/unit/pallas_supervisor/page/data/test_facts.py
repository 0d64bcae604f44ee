"""What the page takes from the health document."""

from __future__ import annotations

from typing import Any

from pallas_supervisor.page.data.facts import looks_of


def health(*servers: dict[str, Any]) -> dict[str, Any]:
    """A health document of as many agents, each with one server."""
    return {"agents": {f"a{n}": {"downstreams": [one], "provider": None} for n, one in enumerate(servers)}}


def server(up: bool, minute: int, error: str | None = None) -> dict[str, Any]:
    moment = f"2026-03-12T12:{minute:02d}:00.000Z"
    return {"name": "files", "up": up, "since": moment, "checked": moment, "latency": 0.0142, "error": error}


def test_of_several_agents_the_server_that_is_down_is_told_of() -> None:
    look = looks_of(health(server(True, 1), server(False, 3, "HTTP 503"), server(False, 2)))[
        "server", "files"
    ]
    assert (look.up, look.since.minute, look.error) == (False, 2, "HTTP 503")
    assert looks_of(health(server(True, 1), server(True, 2)))["server", "files"].since.minute == 2
    assert looks_of(health()) == {}
    unknown = server(True, 1) | {"since": None}
    assert looks_of(health(unknown)) == {}
