"""`pallasctl delete`: by name or by file in one request, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.control_server import FakeControl

FILE = """\
kind: secret
apiVersion: pallas/v1
metadata: {name: key}
spec: {data: {A: x}}
---
apiVersion: mcpctl.io/v1
kind: llm
metadata: {name: qwen3}
spec: {type: openai, model: qwen3, apiKeyRef: key/A}
---
apiVersion: pallas/v1
kind: agent
metadata: {name: deployer}
spec: {llm: qwen3}
"""


def result(resource: str, outcome: str = "deleted", *problems: str) -> dict[str, Any]:
    return {"resource": resource, "outcome": outcome, "file": "", "problems": list(problems)}


def will(fake: FakeControl, *results: dict[str, Any]) -> None:
    fake.answer("/v1/resources", {"dry_run": False, "results": list(results), "problems": []})


def test_by_name(fake: FakeControl) -> None:
    will(fake, result("agent/a"), result("agent/b"))
    done = fake.run("delete", "agents", "a", "b", "a")
    assert (done.exit_code, done.output) == (0, "agent/a deleted\nagent/b deleted\n")
    assert fake.requests == [("POST", "/v1/resources", {"delete": ["agent/a", "agent/b"]})]


def test_a_file_is_one_request(fake: FakeControl, tmp_path: Path) -> None:
    will(fake, result("secret/key"), result("llm/qwen3"), result("agent/deployer"))
    (tmp_path / "all.yaml").write_text(FILE)
    assert fake.run("delete", "-f", str(tmp_path)).exit_code == 0
    assert fake.requests == [
        ("POST", "/v1/resources", {"delete": ["secret/key", "llm/qwen3", "agent/deployer"]})
    ]


def test_what_is_in_use(fake: FakeControl) -> None:
    said = "llm/a: is used by agent/x\x1b[2J; let them use another one, or delete them first"
    will(fake, result("llm/a", "refused", said), result("llm/b"))
    done = fake.run("delete", "llm", "a", "b")
    shown = said.replace("\x1b", "\\x1b")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "llm/b deleted\n", f"pallasctl: {shown}\n")


def test_a_project_leaves_its_agents(fake: FakeControl) -> None:
    will(fake, result("project/p"), result("agent/a", "configured"))
    assert fake.run("delete", "project", "p").output == "project/p deleted\nagent/a configured\n"


def test_what_is_not_there(fake: FakeControl) -> None:
    fake.answer("GET /v1/resources/agent", {"items": [{"metadata": {"name": "jarvis"}}]})
    names = ["jarvs", "x", "y", "z"]
    will(fake, *(result(f"agent/{name}", "missing", "there is none") for name in names))
    done = fake.run("delete", "agent", *names)
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "pallasctl: there is no agent 'jarvs'; did you mean 'jarvis'?",
        "pallasctl: there is no agent 'x'; `pallasctl get agents` lists them",
        "pallasctl: there is no agent 'y'; `pallasctl get agents` lists them",
        "pallasctl: there is no agent 'z'",
    ]


def test_a_supervisor_that_cannot(fake: FakeControl) -> None:
    fake.answer("/v1/resources", {"error": "one agent runs alone here"}, 409)
    done = fake.run("delete", "agent", "a")
    assert (done.exit_code, done.stderr) == (1, "pallasctl: one agent runs alone here\n")


@pytest.mark.parametrize("words", [[], ["agent", "a", "-f", "x.yaml"]])
def test_names_or_files(fake: FakeControl, words: list[str]) -> None:
    result = fake.run("delete", *words)
    assert result.exit_code == 2
    assert "name resources, as in `delete agent jarvis`, or give files with -f" in result.stderr


def test_a_file_that_cannot_be_read_deletes_nothing(fake: FakeControl, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FILE)
    (tmp_path / "b.yaml").write_text("kind: agnet\n")
    result = fake.run("delete", "-f", str(tmp_path))
    assert result.exit_code == 2
    assert "b.yaml:1: " in result.stderr
    assert fake.requests == []
