"""The servers of fast-agent's settings: read as fast-agent reads them, left out where others could not connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from fast_agent.config import MCPSettings

from pallas_registry.fastagent_files.servers import ConfiguredServers, configured_servers

if TYPE_CHECKING:
    from pathlib import Path


def read(
    directory: Path, servers: object, secrets: object = None, environ: dict[str, str] | None = None
) -> ConfiguredServers:
    (directory / "fastagent.config.yaml").write_text(yaml.safe_dump({"mcp": {"servers": servers}}))
    if secrets is not None:
        (directory / "fastagent.secrets.yaml").write_text(yaml.safe_dump({"mcp": {"servers": secrets}}))
    return configured_servers(directory, environ or {})


@pytest.mark.parametrize(
    "said",
    [
        {"url": "http://x.example/mcp"},
        {"url": "http://x.example"},
        {"url": "http://x.example/a/"},
        {"url": "http://x.example/a?b=c"},
        {"url": "http://x.example/sse"},
        {"transport": "sse", "url": "http://x.example/events"},
        {"url": "https://x.example/mcp", "headers": {"X": "y"}, "read_timeout_seconds": 7},
        {"url": "https://x.example/mcp", "access_token": "t"},
        {"target": "http://x.example/a"},
        {"target": "http://x.example/a/sse"},
        {"target": "uvx tool --flag 'two words'"},
        {"target": "@scope/tool one"},
        {"command": "tool", "args": ["a", "b"], "env": {"A": "b"}},
    ],
)
def test_a_server_is_what_fastagent_makes_of_it(said: dict[str, Any], tmp_path: Path) -> None:
    theirs = MCPSettings.model_validate({"servers": {"one": said}}).servers["one"]
    found = read(tmp_path, {"one": said})
    ours = found.servers["one"]
    assert not found.unread
    for field in ("transport", "url", "command", "read_timeout_seconds"):
        assert ours.get(field) == getattr(theirs, field), field
    for field in ("headers", "args", "env"):
        assert (ours.get(field) or None) == (getattr(theirs, field) or None), field
    assert ours.get("cwd") == (str(tmp_path) if theirs.transport == "stdio" else None)


def test_secrets_lie_over_settings_and_variables_are_put_in(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "one": {"url": "http://${HOST:localhost}:${PORT}/mcp", "headers": {"A": "b"}},
            "two": {"command": "x", "cwd": "sub", "env": {"HOME": "/own"}},
        },
        {"one": {"headers": {"Authorization": "Bearer ${KEY}"}}},
        {"PORT": "81", "KEY": "k", "HOME": "/home/x", "PATH": "/bin", "OTHER": "y"},
    ).servers
    assert found["one"] == {
        "transport": "http",
        "url": "http://localhost:81/mcp",
        "headers": {"A": "b", "Authorization": "Bearer k"},
    }
    assert found["two"]["env"] == {"HOME": "/own", "PATH": "/bin"}
    assert found["two"]["cwd"] == str(tmp_path / "sub")


@pytest.mark.parametrize(
    "said",
    [
        7,
        {},
        {"url": "ftp://secret.example"},
        {"url": "http://[secret"},
        {"url": 7},
        {"transport": "magic", "url": "http://x"},
        {"management": "provider", "url": "http://x"},
        {"url": "http://x", "headers": ["secret"]},
        {"url": "http://x", "headers": {"a": ["secret"]}},
        {"target": "'secret"},
        {"target": ""},
    ],
)
def test_one_that_cannot_be_used_costs_no_other(said: object, tmp_path: Path) -> None:
    found = read(tmp_path, {"bad": said, "good": {"url": "http://x/mcp"}})
    assert list(found.servers) == ["good"]
    assert list(found.unread) == ["bad"]
    assert "secret" not in found.unread["bad"]


@pytest.mark.parametrize("text", ["", "[", "mcp: 3", "mcp: {servers: []}", "- a"])
def test_files_that_say_nothing_of_servers(text: str, tmp_path: Path) -> None:
    (tmp_path / "fastagent.config.yaml").write_text(text)
    assert configured_servers(tmp_path, {}) == ConfiguredServers({}, {})


def test_without_files_there_are_none(tmp_path: Path) -> None:
    assert configured_servers(tmp_path, {}) == ConfiguredServers({}, {})
    (tmp_path / "fastagent.config.yaml").write_text("")
    (tmp_path / "fast-agent.yaml").write_text("")
    assert configured_servers(tmp_path, {}) == ConfiguredServers({}, {})
