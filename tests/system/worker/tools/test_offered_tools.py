"""Tools that MCP allows and strict providers do not: models are told of them under other names, and call those."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from fakes.llm_stub import Call, LlmStub, Turn
from fakes.tool_lists import run_tool_lists, tool
from support.worker.conversation.chat import post
from support.worker.process import run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-stub-0123456789"
ASK = {"type": "object", "properties": {"message": {"type": "string"}}}


def offered(stub: LlmStub) -> list[tuple[str, dict[str, Any]]]:
    """Name and schema of each tool of the newest request, of either API."""
    return [
        (one["function"]["name"], one["function"]["parameters"])
        if "function" in one
        else (one["name"], one["input_schema"])
        for one in stub.asked[-1].body["tools"]
    ]


@pytest.mark.parametrize("model", ["openai.gpt-4.1", "sonnet"])
def test_they_are_offered_called_and_kept(model: str, stub: LlmStub, tmp_path: Path) -> None:
    config = (
        f"default_model: {model}\n"
        f"openai: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        f"anthropic: {{api_key: {KEY}, base_url: '{stub.anthropic_url}'}}\n"
    )
    odd = [tool("größe/a.b", {"$schema": "x", "type": "object"}), tool("x" * 100), tool("l__c")]
    far = {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}
    with (
        run_tool_lists([*odd, tool("far", far)]) as first,
        run_tool_lists([tool("c"), tool("d")]) as second,
        run_tool_lists([tool("send_message", ASK), tool("dates", ASK), tool("get_health")]) as agent,
    ):
        servers = {
            "k": {"transport": "http", "url": first.url},
            "k__l": {"transport": "http", "url": second.url},
            "dates": {"transport": "http", "url": agent.url},
        }
        directory = project(tmp_path, servers=servers, config=config)
        with run_worker(directory, default_model=model) as worker:
            stub.script(Turn(text="hello"))
            assert post(worker, "hello").status_code == 200
            told = dict(offered(stub))
            assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in told)
            (name,) = [name for name in told if name.startswith("k__gr_")]
            assert told[name] == {"type": "object", "properties": {}}
            assert {"k__l__c", "k__l__d", "dates__dates"} < told.keys()
            assert len(told) == 5, "not `far`, nor a second k__l__c, nor further names of the agent"

            calls = (Call(name), Call("k__l__c"), Call("dates__send_message", {"message": "now"}))
            stub.script(Turn(calls=calls), Turn(text="done"))
            answered = post(worker, "go")
            assert answered.status_code == 200, answered.text
            assert first.called == ["größe/a.b", "l__c"]
            assert (second.called, agent.called) == ([], ["send_message"])
            rows = answered.json()["pallas"]["messages"]
            kept = [call["function"]["name"] for row in rows for call in row.get("tool_calls", ())]
            assert kept == ["k__größe/a.b", "k__l__c", "dates__send_message"]

            stub.script(Turn(text="again"))
            assert post(worker, "go", *rows, "once more").status_code == 200
            body = str(stub.asked[-1].body)
            assert name in body
            assert "k__größe" not in body
            worker.stop()
    said = [record["message"] for record in worker.records if "is left out" in record["message"]]
    assert [message.partition(";")[0] for message in sorted(said)] == [
        "the tool 'k__far' is left out: its schema refers to another document",
        "two tools are called k__l__c: that of the server k__l is left out, that of k is used",
    ]
