"""`pallasctl get`: tables at two widths, and what can be applied again."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from os import terminal_size
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from fakes.control_server import agent
from pallas_registry.resources.model import KINDS
from pallasctl.verbs.resources.tables import resource_table

if TYPE_CHECKING:
    from fakes.control_server import FakeControl
    from pallas_registry.resources.model import Kind

GOLDEN = Path(__file__).parent / "golden"
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def resource(kind: Kind, name: str, spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "uid": "0b2f",
        "owner": "ann",
        "version": 1,
        "createdAt": "2026-01-31T08:55:00Z",
        "updatedAt": "2026-01-31T08:55:00Z",
        "resourceVersion": "0123456789abcdef",
    }
    return {"apiVersion": "pallas/v1", "kind": kind, "metadata": metadata, "spec": spec, **fields}


RESOURCES: dict[Kind, list[dict[str, Any]]] = {
    "agent": [
        resource(
            "agent",
            "reviewer",
            {
                "description": "I review what you're shipping; ask after each major change.",
                "llm": "qwen3-thinking",
                "project": "platform",
                "servers": ["search"],
                "systemPrompt": "You review.\nBe strict.\n",
            },
            status=agent("reviewer", "idle"),
        ),
        resource(
            "agent", "writer", {"model": "openai.gpt-5"}, status=agent("writer", url="http://localhost:24201")
        ),
        resource(
            "agent",
            "broken",
            {"llm": "nothing"},
            status={"problems": ["broken.yaml:3: spec.llm: there is no llm 'nothing'"]},
        ),
        {
            "apiVersion": "pallas/v1",
            "kind": "agent",
            "metadata": {"name": "jarvis", "source": {"file": "/srv/demo/agents.yaml", "line": 12}},
            "spec": {"description": "a\x1b[2Jb"},
            "status": agent("jarvis"),
        },
    ],
    "llm": [
        resource(
            "llm",
            "qwen3-thinking",
            {
                "type": "openai",
                "model": "qwen3-thinking",
                "url": "http://litellm.nvidia-nim.svc.cluster.local:4000/v1",
                "apiKeyRef": "litellm-key/API_KEY",
                "description": "behind LiteLLM",
            },
        )
    ],
    "secret": [resource("secret", "litellm-key", {"data": {"API_KEY": {"digest": "hmac-sha256:00ff"}}})],
    "server": [
        resource("server", "search", {"url": "http://localhost:9000/mcp"}),
        resource("server", "files", {"command": "npx", "args": ["-y", "files"]}),
    ],
    "project": [resource("project", "platform", {"servers": ["search"], "prompts": [{"name": "tone"}]})],
}


@pytest.fixture
def full(fake: FakeControl) -> FakeControl:
    """Some resources of each kind."""
    for kind, items in RESOURCES.items():
        fake.answer(f"/v1/resources/{kind}", {"items": items})
        for item in items:
            fake.answer(f"/v1/resources/{kind}/{item['metadata']['name']}", item)
    return fake


@pytest.mark.parametrize(("columns", "wide"), [(80, False), (140, False), (80, True)])
def test_the_tables_are_as_they_were_looked_at(
    monkeypatch: pytest.MonkeyPatch, columns: int, *, wide: bool
) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: terminal_size((columns, 24)))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    shown = "\n\n".join(resource_table(kind, RESOURCES[kind], NOW, wide=wide) for kind in KINDS) + "\n"
    assert "\x1b" not in shown
    assert wide or max(map(len, shown.splitlines())) <= columns
    assert shown == (GOLDEN / f"get-{'wide' if wide else columns}.txt").read_text()


def test_one_is_the_resource_itself(full: FakeControl) -> None:
    one = RESOURCES["agent"][0]
    assert json.loads(full.run("get", "agent", "reviewer", "-o", "json").stdout) == one
    printed = full.run("get", "agent/reviewer", "-o", "yaml").stdout
    assert yaml.safe_load(printed) == one
    assert "  systemPrompt: |\n    You review.\n    Be strict.\n" in printed


def test_several_are_items(full: FakeControl) -> None:
    said = json.loads(full.run("get", "agents", "-o", "json").stdout)
    assert said == {"items": RESOURCES["agent"]}
    two = full.run("get", "agent", "writer", "reviewer", "-o", "json").stdout
    assert [item["metadata"]["name"] for item in json.loads(two)["items"]] == ["writer", "reviewer"]
    documents = full.run("get", "all", "-o", "yaml").stdout
    declared = [item for items in RESOURCES.values() for item in items if "source" not in item["metadata"]]
    assert list(yaml.safe_load_all(documents)) == declared
    assert documents.startswith("# agent/jarvis is in agents.yaml:12\napiVersion: ")
    assert not {"\x1b"} & set(documents)


def test_names(full: FakeControl) -> None:
    assert full.run("get", "servers", "-o", "name").stdout == "server/search\nserver/files\n"


def test_all_kinds_have_tables_of_their_own(full: FakeControl) -> None:
    full.answer("/v1/resources/secret", {"items": []})
    tables = full.run("get", "all").stdout.split("\n\n")
    assert [table.splitlines()[1].split()[0] for table in tables] == [
        "agent/reviewer",
        "llm/qwen3-thinking",
        "server/search",
        "project/platform",
    ]


def test_nothing_there_is_no_failure(fake: FakeControl) -> None:
    for kind in KINDS:
        fake.answer(f"/v1/resources/{kind}", {"items": []})
    for what, said in (("llms", "there are no llms\n"), ("all", "there are no resources\n")):
        result = fake.run("get", what)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)
    assert json.loads(fake.run("get", "llm", "-o", "json").stdout) == {"items": []}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agent", "reviewr"], "there is no agent 'reviewr'; did you mean 'reviewer'?"),
        (["llm", "zzz"], "there is no llm 'zzz'; `pallasctl get llms` lists them"),
        (["agent", "jarvis", "writr"], "there is no agent 'writr'; did you mean 'writer'?"),
    ],
)
def test_what_is_not_there(full: FakeControl, words: list[str], said: str) -> None:
    result = full.run("get", *words)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"pallasctl: {said}\n")
