"""`pallasctl connect`: what goes to which stream, for which agents, and what is wrong usage."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from fakes.control_server import FakeControl, agent, run, status
from pallas_registry.catalogue.connections import CLIENTS

if TYPE_CHECKING:
    from pathlib import Path


def url(name: str) -> str:
    return f"http://localhost:242{len(name):02d}/mcp"


@pytest.fixture
def deployed(fake: FakeControl) -> FakeControl:
    names = ("research", "jarvis")
    fake.answer("/v1/status", status(*(agent(name, url=url(name)) for name in names)))
    return fake


def test_without_a_client_they_are_listed_and_nobody_is_asked(tmp_path: Path) -> None:
    result = run("--socket", str(tmp_path / "nothing.sock"), "connect")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["CLIENT", *CLIENTS]
    assert "pallasctl connect CLIENT AGENT" in result.stderr


def test_the_help_names_every_client() -> None:
    said = "".join(run("connect", "--help").stdout.split())
    assert [client for client in CLIENTS if client not in said] == []


def test_stdout_has_the_snippet_alone(deployed: FakeControl) -> None:
    result = deployed.run("connect", "cursor")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "mcpServers": {"research": {"url": url("research")}, "jarvis": {"url": url("jarvis")}}
    }
    assert result.stderr.startswith("Cursor. Put into .cursor/mcp.json ")
    assert "These URLs work on this machine only" in result.stderr


def test_one_agent(deployed: FakeControl) -> None:
    result = deployed.run("connect", "claude-code", "jarvis")
    assert result.stdout == f"claude mcp add --transport http jarvis {url('jarvis')}\n"
    assert ".mcp.json" not in result.stderr, "another way is for those who look at a terminal"


def test_agents_without_a_port_are_left_out_and_said_to_be(fake: FakeControl) -> None:
    without = [agent(name, url=None, port=None, socket=f"/run/{name} 1.sock") for name in ("one", "two")]
    fake.answer("/v1/status", status(agent("jarvis", url=url("jarvis")), *without))
    every = fake.run("connect", "claude-code")
    assert every.stdout == f"claude mcp add --transport http jarvis {url('jarvis')}\n"
    assert every.stderr.endswith(
        "2 agents without a port left out: MCP clients have no address for them. "
        "`run: {port: N}` gives an agent a port.\n"
    )
    one = fake.run("connect", "claude-code", "one")
    assert (one.exit_code, one.stdout) == (1, "")
    first, second, third = one.stderr.splitlines()
    assert first.endswith(
        "one has no port, so that MCP clients have no address for it; give it one: `run: {port: N}` in its spec"
    )
    assert "`pallasctl ask one`" in second
    assert shlex.split(third)[:4] == [
        "curl",
        "--unix-socket",
        "/run/one 1.sock",
        "http://localhost/v1/chat/completions",
    ]
    fake.answer("/v1/status", status(*without))
    assert "none of the 2 agents has a port, so that" in fake.run("connect", "cursor").stderr


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client(deployed: FakeControl, client: str) -> None:
    result = deployed.run("connect", client)
    assert result.exit_code == 0
    assert url("research") in result.stdout
    assert url("jarvis") in result.stdout
    assert "\x1b" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["curser"], "there is no client 'curser'; did you mean 'cursor'?"),
        (["qqq"], "there is no client 'qqq'; the clients are: claude-code, "),
        (["cursor", "reserch"], "there is no agent 'reserch'; did you mean 'research'?"),
    ],
)
def test_a_slip_is_wrong_usage(deployed: FakeControl, arguments: list[str], said: str) -> None:
    result = deployed.run("connect", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_one_that_does_not_answer_now_is_printed_and_said_to_be_so(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("research", "failed", url=url("research"))))
    result = fake.run("connect", "claude-code")
    assert url("research") in result.stdout
    assert "research is failed and does not answer now: `pallasctl status research`" in result.stderr


def test_a_supervisor_that_does_not_tell_urls_and_a_deployment_without_agents(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("research")))
    older = fake.run("connect", "cursor")
    assert (older.exit_code, older.stdout) == (1, "")
    assert "older version" in older.stderr
    fake.answer("/v1/status", status())
    empty = fake.run("connect", "cursor")
    assert (empty.exit_code, empty.stdout) == (1, "")
    assert "no agents" in empty.stderr


def test_a_supervisor_that_is_not_ours_cannot_repaint_the_terminal(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("a\x1b[2J", "failed", url="http://x/\x1b[2J")))
    for client in CLIENTS:
        result = fake.run("connect", client)
        assert "\x1b" not in result.stdout + result.stderr
