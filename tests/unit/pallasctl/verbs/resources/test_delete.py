"""`pallasctl delete`: by name or by file, what uses others first, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def deleted(fake: FakeControl) -> list[str]:
    return [path.removeprefix("/v1/resources/") for method, path, _ in fake.requests if method == "DELETE"]


def there(fake: FakeControl, *resources: str) -> None:
    for resource in resources:
        fake.answer(
            f"DELETE /v1/resources/{resource}", {"results": [{"resource": resource, "outcome": "deleted"}]}
        )


def test_by_name(fake: FakeControl) -> None:
    there(fake, "agent/a", "agent/b")
    result = fake.run("delete", "agents", "a", "b")
    assert (result.exit_code, result.output) == (0, "agent/a deleted\nagent/b deleted\n")


def test_what_uses_others_goes_first(fake: FakeControl, tmp_path: Path) -> None:
    there(fake, "agent/deployer", "llm/qwen3", "secret/key")
    (tmp_path / "all.yaml").write_text(FILE)
    assert fake.run("delete", "-f", str(tmp_path)).exit_code == 0
    assert deleted(fake) == ["agent/deployer", "llm/qwen3", "secret/key"]
    fake.requests.clear()
    fake.run("delete", "secret/key", "llm/qwen3", "agent/deployer")
    assert deleted(fake) == ["agent/deployer", "llm/qwen3", "secret/key"]


def test_what_is_in_use(fake: FakeControl) -> None:
    there(fake, "llm/b")
    said = "llm/a is used by agent/x and agent/y; delete them first, or let them use another"
    fake.answer("DELETE /v1/resources/llm/a", {"error": said, "problems": [said]}, 409)
    result = fake.run("delete", "llm", "a", "b")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "llm/b deleted\n", f"pallasctl: {said}\n")


def test_a_project_leaves_its_agents(fake: FakeControl) -> None:
    results = [
        {"resource": "project/p", "outcome": "deleted"},
        {"resource": "agent/a", "outcome": "configured"},
    ]
    fake.answer("DELETE /v1/resources/project/p", {"results": results})
    assert fake.run("delete", "project", "p").output == "project/p deleted\nagent/a configured\n"


def test_what_is_not_there(fake: FakeControl) -> None:
    fake.answer("/v1/resources/agent", {"items": [{"metadata": {"name": "jarvis"}}]})
    result = fake.run("delete", "agent", "jarvs")
    assert result.exit_code == 2
    assert result.stderr == "pallasctl: there is no agent 'jarvs'; did you mean 'jarvis'?\n"


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
    assert deleted(fake) == []
