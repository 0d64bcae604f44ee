"""`pallasctl describe` of what is no agent that runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pallasctl.verbs.resources.description import resource_lines

if TYPE_CHECKING:
    from fakes.control_server import FakeControl

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
LLM: dict[str, Any] = {
    "apiVersion": "pallas/v1",
    "kind": "llm",
    "metadata": {
        "name": "qwen3",
        "uid": "0b2f",
        "owner": "ann",
        "version": 2,
        "createdAt": "2026-01-31T08:55:00Z",
        "updatedAt": "2026-01-31T11:59:00Z",
    },
    "spec": {"description": "behind LiteLLM", "type": "openai", "model": "qwen3", "apiKeyRef": "key/A"},
    "status": {"usedBy": ["agent/reviewer", "agent/writer"]},
}


def lines(document: dict[str, Any]) -> list[str]:
    return list(resource_lines(document, NOW))


def test_what_it_says_and_who_uses_it() -> None:
    shown = lines(LLM)
    assert shown[:4] == [
        "● llm/qwen3  behind LiteLLM",
        "  Used by       agent/reviewer, agent/writer",
        "  Owner         ann",
        "  UID           0b2f",
    ]
    assert shown[4].startswith("  Created       3h05m ago (2026-01-31 ")
    assert shown[5].startswith("  Changed       1m00s ago (2026-01-31 ")
    assert shown[5].endswith(", version 2")
    assert shown[6:] == [
        "",
        "Says",
        "  description: behind LiteLLM",
        "  type: openai",
        "  model: qwen3",
        "  apiKeyRef: key/A",
    ]


def test_what_is_wrong_with_it() -> None:
    document = LLM | {"status": {"usedBy": [], "problems": ["there is no secret 'key'"]}}
    assert lines(document)[1:3] == ["  Problem       there is no secret 'key'", "  Used by       nothing"]


def test_what_others_wrote_is_escaped() -> None:
    shown = "".join(lines(LLM | {"spec": {"description": "a\x1b[2J", "systemPrompt": "x\n\u202ey\n"}}))
    assert not {"\x1b", "\u202e"} & set(shown)


def test_by_kind_and_name(fake: FakeControl) -> None:
    fake.answer("/v1/resources/llm/qwen3", LLM)
    assert fake.run("describe", "llm", "qwen3").stdout.startswith("● llm/qwen3  behind LiteLLM\n")
    assert json.loads(fake.run("describe", "llm/qwen3", "-o", "json").stdout) == LLM


def test_an_agent_that_cannot_be_deployed(fake: FakeControl) -> None:
    broken = LLM | {"kind": "agent", "status": {"problems": ["there is no llm 'x'"]}}
    fake.answer("/v1/resources/agent/qwen3", broken)
    assert "Problem       there is no llm 'x'" in fake.run("describe", "qwen3").stdout
    result = fake.run("describe", "qwen")
    assert result.exit_code == 2
