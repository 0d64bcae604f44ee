"""`pallasctl describe`: the text at two widths, what scripts read, kinds and names."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pallasctl import text
from pallasctl.verbs.state.description import agent_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.control_server import FakeControl

GOLDEN = Path(__file__).parent / "golden"
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def setting(name: str, value: object, line: int | None = None, from_: str = "agents.yaml") -> dict[str, Any]:
    return {"name": name, "value": value, "from": from_ if line else "built in", "line": line}


def document(**changes: Any) -> dict[str, Any]:
    looked_at = {"name": "files", "up": False, "checked": "2026-01-31T11:59:50Z", "error": "cannot connect"}
    return {
        "kind": "agent",
        "name": "jarvis",
        "title": "Jarvis",
        "description": "Answers questions and hands them to the research and engineering agents of this place",
        "deployment": "demo",
        "status": {
            "name": "jarvis",
            "state": "ready",
            "desired": "up",
            "pid": 4711,
            "since": "2026-01-31T11:56:48Z",
            "health": "degraded",
            "message": "Unreachable: files",
            "restarts": 1,
            "failures": 1,
            "max_failures": 5,
            "outdated": ["agents.yaml"],
            "replacement": None,
        },
        "health": {
            "status": "degraded",
            "since": "2026-01-31T11:57:00Z",
            "message": "Unreachable: files",
            "remedy": "see that files can be reached from here; it is tried again by itself",
        },
        "definition": {"file": "/srv/demo/agents.yaml", "line": 12},
        "source": {"kind": "module", "value": "agents.jarvis", "directory": "/srv/demo", "python": None},
        "settings": [
            setting("module", "agents.jarvis", 13),
            setting("depends_on", ["research"], 17),
            setting("stop_timeout", 5.0, 4, "defaults"),
            setting("memory_limit", None),
            setting("overrides", True, 19),
            setting(
                "output_schema",
                {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40}}},
                18,
            ),
        ],
        "environment_settings": [
            {"name": "log_level", "value": "INFO", "from": "PALLAS_LOG_LEVEL (.env)", "line": None}
        ],
        "env": [
            {"name": "MODE", "value": "fast", "hidden": False, "from": "agents.yaml", "line": 20},
            {"name": "API_KEY", "value": None, "hidden": True, "from": "agents.yaml", "line": 21},
        ],
        "served": {
            "agent": "jarvis",
            "model": "openai.gpt-5",
            "capabilities": {"vision": True, "context_window": 131072, "max_output_tokens": 16384},
            "provider": {"name": "openai", "up": True, "latency": 0.012, "error": None},
            "parts": [
                {"name": "jarvis", "kind": "chain", "model": None, "agents": ["writer"], "servers": []}
                | {"tools": []},
                {"name": "writer", "kind": "agent", "model": "openai.gpt-5", "agents": []}
                | {"servers": ["files"], "tools": [f"files__tool_{number}" for number in range(7)]},
            ],
            "servers": [
                {"name": "files", "transport": "http", "target": "http://localhost:9000/mcp"}
                | {"health": looked_at},
                {"name": "clock", "transport": "stdio", "target": "uvx mcp-server-time", "health": None},
            ],
            "left_out": 0,
        },
        "depends_on": [{"name": "research", "state": "ready", "health": "ok"}],
        "dependents": [],
        "urls": {
            "mcp": "http://localhost:8203/mcp",
            "metrics": "http://localhost:8203/metrics",
            "page": "http://localhost:8200/#agent-jarvis",
        },
        "process": {"pid": 4711, "generation": 2, "started": "2026-01-31T11:56:47Z", "memory": 167772160},
        "exits": [
            {
                "time": "2026-01-31T11:56:46Z",
                "generation": 1,
                "pid": 4700,
                "exit": "exit status 70",
                "asked": False,
                "reason": "",
                "ran": 3725.5,
                "lines": [
                    {
                        "time": "2026-01-31T11:56:46Z",
                        "level": "ERROR",
                        "message": "the index is broken: KeyError: 'a name that is rather long, so that the line is "
                        "longer than most terminals are wide'",
                    }
                ],
            }
        ],
        "errors": [
            {
                "time": "2026-01-31T11:57:00Z",
                "level": "WARNING",
                "logger": "x",
                "message": "downstream server files is down: cannot connect",
            }
        ],
    } | changes


def lines(found: dict[str, Any], columns: int | None) -> list[str]:
    return list(agent_lines(found, NOW, columns))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("columns", [80, 140])
def test_the_text_is_as_it_was_looked_at(columns: int) -> None:
    shown = lines(document(), columns)
    assert max(map(len, shown)) <= columns
    assert "\n".join(shown) + "\n" == (GOLDEN / f"describe-{columns}.txt").read_text()


def test_without_a_terminal_nothing_is_broken_or_cut() -> None:
    shown = "\n".join(lines(document(), None))
    assert "research and engineering agents of this place" in shown
    assert "longer than most terminals are wide" in shown
    assert ", ".join(f"files__tool_{number}" for number in range(7)) in shown


@pytest.mark.parametrize("columns", [1, 20, 47, 80])
def test_colours_take_no_room(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    plain = lines(document(), columns)
    monkeypatch.setattr(text, "colour_wanted", lambda: True)
    coloured = lines(document(), columns)
    assert any("\x1b[33m" in line for line in coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == plain


def test_an_agent_that_never_ran() -> None:
    changes: dict[str, Any] = {"served": None, "process": None, "exits": [], "errors": [], "env": []}
    shown = "\n".join(lines(document(**changes), 80))
    assert "not known before its first start" in shown
    assert "Process       none; 1 restart" in shown
    assert "Variables" not in shown


@pytest.mark.parametrize(
    ("outdated", "said"),
    [
        ([], "agents/research.py changed since its start: `pallasctl restart research` takes it over"),
        ([".env"], ".env changed since its start: `pallasctl reload` replaces it"),
    ],
)
def test_code_that_has_changed_is_for_a_restart(outdated: list[str], said: str) -> None:
    found = document()
    found["status"] |= {
        "name": "research",
        "outdated": [*outdated, "agents/research.py"],
        "changed_code": ["agents/research.py"],
    }
    assert f"Outdated      {said}" in "\n".join(lines(found, None))


def test_a_declared_agent() -> None:
    spec = {"description": "d", "llm": "qwen3", "systemPrompt": "a\nb\x1b[2J\n"}
    changes: dict[str, Any] = {
        "resource": {"metadata": {"name": "jarvis"}, "spec": spec},
        "definition": {"file": "/srv/state/resources/agent/jarvis.yaml", "line": None},
        "source": {"kind": "resource", "value": "jarvis", "directory": "/srv/demo", "python": None},
        "settings": [setting("idle_timeout", 60.0) | {"from": "resource"}],
    }
    shown = lines(document(**changes), 80)
    at = shown.index("Says")
    assert shown[at + 1 : at + 3] == ["  llm: qwen3", '  systemPrompt: "a\\nb\\e[2J\\n"']
    assert any(line.split() == ["idle_timeout", "60", "resource"] for line in shown)
    assert "  Defined in    /srv/state/resources/agent/jarvis.yaml" in shown
    assert not [line for line in shown if line.startswith("  Source")]


def test_what_others_wrote_is_escaped() -> None:
    found = document(description="a\x1b[2Jb")
    found["status"]["message"] = "x\x1b]0;owned\x07"
    found["served"]["parts"][1]["tools"] = ["\u202etool"]
    found["errors"][0]["message"] = "line\nanother\x1b[31m"
    shown = "".join(lines(found, 80))
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_outputs(fake: FakeControl) -> None:
    found = document(description="a\x1b\u202e: [b")
    fake.answer("/v1/agents/jarvis", found)
    assert fake.run("describe", "jarvis").stdout.startswith("● jarvis  Jarvis: ")
    for format_, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        printed = fake.run("describe", "agent", "jarvis", "-o", format_).stdout
        assert read(printed) == found
        assert not {"\x1b", "\u202e"} & set(printed)


def test_the_name_cannot_lead_elsewhere(fake: FakeControl) -> None:
    fake.run("describe", "agent", "a/../../v1/status?x")
    assert fake.requests[0][1] == "/v1/agents/a%2F..%2F..%2Fv1%2Fstatus%3Fx"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agnt", "jarvis"], "there is no kind 'agnt'; did you mean 'agent'?"),
        (["thread", "x"], "there is no kind 'thread'; the kinds are: agent, llm, secret, server, project"),
        (["agent", "a", "b"], "one at a time: name one agent"),
    ],
)
def test_what_is_no_kind(fake: FakeControl, words: list[str], said: str) -> None:
    result = fake.run("describe", *words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_agent_can_be_called_like_a_kind(fake: FakeControl) -> None:
    fake.answer("/v1/agents/agent", document(name="agent"))
    assert fake.run("describe", "agent").stdout.startswith("● agent")


def test_an_unknown_agent(fake: FakeControl) -> None:
    fake.answer("/v1/agents/jarvs", {"error": "there is no agent 'jarvs'; did you mean 'jarvis'?"}, 404)
    result = fake.run("describe", "jarvs")
    assert result.exit_code == 2
    assert "did you mean 'jarvis'?" in result.stderr
