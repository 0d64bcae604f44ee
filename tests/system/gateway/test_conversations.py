"""The reference's REST API from end to end: agents declared by it, a provider behind them, tools, threads, turns."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import LlmStub, Turn, by_request, run_llm_stub
from support.data.image_data import PNG
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, make_token, with_gateway
from support.gateway.http.conversations import chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.llm_stub import Asked
    from support.gateway.door import Door

DEPLOYER = {
    "name": "deployer",
    "description": "I help you deploy code",
    "llm": "stub",
    "project": {"name": "platform"},
    "systemPrompt": "You are a deployment assistant.",
    "defaultParams": {"temperature": 0.2, "max_tokens": 4096, "top_p": 0.9, "stop": ["</deploy>"]},
}
PNG_URL = f"data:image/png;base64,{PNG}"
ADD = 'CALL tools__add {"a": 2, "b": 3}'
LEAVE = "stay"
"""A message at which the provider speaks for a long time."""

PARAMETERS: dict[str, tuple[Any, str, Any]] = {
    "temperature": (0.7, "temperature", 0.7),
    "top_p": (0.5, "top_p", 0.5),
    "max_tokens": (100, "max_tokens", 100),
    "stop": (["a", "b"], "stop", ["a", "b"]),
    "presence_penalty": (0.5, "presence_penalty", 0.5),
    "frequency_penalty": (-0.5, "frequency_penalty", -0.5),
    "seed": (42, "seed", 42),
    "response_format": ({"type": "json_object"}, "response_format", {"type": "json_object"}),
    "tool_choice": ("none", "tool_choice", "none"),
    "extra": ({"repetition_penalty": 1.1}, "repetition_penalty", 1.1),
}
"""Parameter of the reference's table → what is said, and what of it comes to the provider under which name."""


def answer(asked: Asked) -> Turn:
    if asked.user == LEAVE:
        return Turn(text="word " * 100_000, delay=0.01)
    if asked.body.get("response_format"):
        return Turn(text="{}")
    return by_request(asked)


@dataclass
class Deployed:
    """The deployment, its provider, and who may do everything."""

    fleet: Fleet
    llm: LlmStub
    ada: Door

    def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        response = self.ada.rest(method, path, **options)
        assert response.status_code == status, (method, path, response.status_code, response.text)
        return response.json() if response.content else None

    def chat(self, status: int = 200, agent: str = "deployer", **body: Any) -> Any:
        return self.ask("POST", f"/agents/{agent}/chat", status, json=body)

    @property
    def last(self) -> Any:
        """The body of the provider's last request."""
        return self.llm.asked[-1].body


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    deployment = make_deployment(tmp_path_factory.mktemp("conversations") / "deployment", "echo")
    with run_llm_stub(answer=answer, models=("stub-model", "gpt-4.1")) as llm, run_downstream() as tools:
        limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
        with_gateway(deployment, limits=limits)
        with Fleet(deployment) as fleet:
            fleet.wait(until="settled")
            await_gateway(fleet)
            made = Deployed(fleet, llm, door(fleet))
            resources = {
                "secret": ("keys", {"data": {"API_KEY": "no-key"}}),
                "llm": (
                    "stub",
                    {
                        "type": "openai",
                        "model": "stub-model",
                        "url": llm.openai_url,
                        "apiKeyRef": "keys/API_KEY",
                    },
                ),
                "server": ("tools", {"transport": "http", "url": tools.url}),
                "project": ("platform", {"servers": ["tools"]}),
            }
            files = [
                {
                    "file": kind,
                    "text": json.dumps(
                        {"apiVersion": "mcpctl.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
                    ),
                }
                for kind, (name, spec) in resources.items()
            ]
            made.ask("POST", "/resources", json={"files": files})
            made.ask("POST", "/agents", 201, json=DEPLOYER)
            yield made


def test_the_ten_routes_of_the_reference(deployed: Deployed) -> None:
    spec = {**DEPLOYER, "name": "reviewer", "proxyModelName": "qwen3"}
    reviewer = deployed.ask("POST", "/agents", 201, json=spec)
    assert {"deployer", "echo", "reviewer"} <= {
        each["name"] for each in deployed.ask("GET", "/agents")["items"]
    }
    assert deployed.ask("GET", f"/agents/{reviewer['id']}") == reviewer
    changed = deployed.ask("PUT", "/agents/reviewer", json={"description": "I review"})
    assert (changed["description"], changed["llm"]) == ("I review", "stub")
    of_project = deployed.ask("GET", "/projects/platform/agents")["items"]
    assert [each["name"] for each in of_project] == ["deployer", "reviewer"]
    thread = deployed.ask("POST", "/agents/reviewer/threads", 201, json={"title": "Sums"})
    done = deployed.chat(agent="reviewer", message=ADD, threadId=thread["id"])
    assert done == {
        "threadId": thread["id"],
        "turnIndex": 3,
        "content": done["content"],
        "toolCalls": [
            {"id": done["toolCalls"][0]["id"], "name": "tools__add", "arguments": {"a": 2, "b": 3}}
        ],
        "usage": done["usage"],
    }
    assert "5.0" in done["content"]
    assert done["usage"]["total_tokens"] > 0
    assert deployed.last["model"] == "stub-model", "proxyModelName is for information alone"
    messages = deployed.ask("GET", f"/threads/{thread['id']}/messages")["items"]
    assert [(each["turnIndex"], each["role"], each["status"]) for each in messages] == [
        (0, "user", "complete"),
        (1, "assistant", "complete"),
        (2, "tool", "complete"),
        (3, "assistant", "complete"),
    ]
    assert messages[1]["toolCalls"] == done["toolCalls"]
    assert messages[2]["toolCallId"] == done["toolCalls"][0]["id"]
    again = deployed.chat(agent="reviewer", message="Thanks", threadId=thread["id"])
    assert again["turnIndex"] == 5
    sent = [each["role"] for each in deployed.last["messages"]]
    assert sent == ["system", "user", "assistant", "tool", "assistant", "user"], "the whole thread"
    [listed] = deployed.ask("GET", "/agents/reviewer/threads")["items"]
    assert (listed["id"], listed["title"]) == (thread["id"], "Sums")
    assert listed["lastTurnAt"]
    deployed.ask("DELETE", "/agents/reviewer")
    deployed.ask("GET", "/agents/reviewer", 404)
    deployed.ask("GET", f"/threads/{thread['id']}/messages", 404)


def test_a_stream_of_the_reference_with_a_tool(deployed: Deployed) -> None:
    response = deployed.ada.rest("POST", "/agents/deployer/chat", json={"message": ADD, "stream": True})
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-accel-buffering"] == "no"
    *told, done = chunks(response.text)
    assert done == "[DONE]"
    assert [each["type"] for each in told if each["type"] != "text"] == ["tool_call", "tool_result", "final"]
    assert {"type": "tool_call", "toolName": "tools__add", "args": {"a": 2, "b": 3}} in told
    assert {"type": "tool_result", "toolName": "tools__add", "ok": True} in told
    assert "5.0" in "".join(each["delta"] for each in told if each["type"] == "text")
    assert told[-1] == {"type": "final", "threadId": response.headers["pallas-thread"], "turnIndex": 3}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_reaches_the_provider(deployed: Deployed, name: str) -> None:
    value, theirs, expected = PARAMETERS[name]
    deployed.chat(message="hello", **{name: value})
    sent = deployed.last
    assert sent.get(theirs, sent.get("max_completion_tokens")) == expected
    others = {key: each for key, each in DEPLOYER["defaultParams"].items() if key not in (name, "max_tokens")}  # type: ignore[attr-defined]
    assert {key: sent[key] for key in others} == others, "the agent's defaults for what is not said"


def test_null_clears_a_default(deployed: Deployed) -> None:
    defaults = {
        **DEPLOYER["defaultParams"],  # type: ignore[dict-item]
        "presence_penalty": 0.1,
        "frequency_penalty": 0.1,
        "seed": 1,
        "tool_choice": "none",
    }
    deployed.ask("POST", "/agents", 201, json={**DEPLOYER, "name": "full", "defaultParams": defaults})
    deployed.chat(agent="full", message="hello")
    assert {key: deployed.last.get(key) for key in defaults if key != "max_tokens"} == {
        key: value for key, value in defaults.items() if key != "max_tokens"
    }
    cleared: dict[str, Any] = dict.fromkeys(defaults)
    deployed.chat(agent="full", message="hello", **cleared)
    assert not defaults.keys() & {key for key, value in deployed.last.items() if value is not None}
    deployed.ask("DELETE", "/agents/full")


def test_parameters_that_are_no_fields_of_the_provider(deployed: Deployed) -> None:
    deployed.chat(message="hello", systemOverride="Rhyme.", systemAppend="Be brief.")
    system = deployed.last["messages"][0]["content"]
    assert ("Rhyme." in system, "Be brief." in system, "deployment" in system) == (True, True, False)
    deployed.chat(message="hello", systemAppend="Be brief.")
    assert "deployment" in deployed.last["messages"][0]["content"]
    deployed.chat(message="hello", tools_allowlist=["tools__add"])
    assert [each["function"]["name"] for each in deployed.last["tools"]] == ["tools__add"]
    deployed.chat(message="hello", tools_allowlist=[])
    assert not deployed.last.get("tools")
    ignored = deployed.ada.rest("POST", "/agents/deployer/chat", json={"message": "hello", "top_k": 5})
    assert (ignored.status_code, ignored.headers["pallas-ignored"]) == (200, "top_k")
    first = deployed.chat(message="hello")
    override = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
    ]
    deployed.chat(messages=override, threadId=first["threadId"])
    assert deployed.last["messages"][1:] == override, "the thread's history is not sent"
    for body, field in (
        ({"temperature": 2.5}, "temperature"),
        ({"stop": list("abcde")}, "stop"),
        ({"tools_allowlist": ["nothing__at_all"]}, "tools_allowlist"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"images": ["data:image/png;base64,%%%"]}, "images[0]"),
    ):
        for stream in (True, False):
            error = deployed.chat(400, message="x", stream=stream, **body)["error"]
            assert error["field"].startswith(field), error


def test_an_image_is_seen_and_kept(deployed: Deployed) -> None:
    refused = deployed.chat(400, message="What is this?", images=[PNG_URL])["error"]
    assert "no vision" in refused["message"]
    seeing = {
        "type": "openai",
        "model": "gpt-4.1",
        "url": deployed.llm.openai_url,
        "apiKeyRef": "keys/API_KEY",
    }
    document = {"apiVersion": "pallas/v1", "kind": "llm", "metadata": {"name": "seeing"}, "spec": seeing}
    deployed.ask("PUT", "/resources/llm/seeing", 201, json=document)
    deployed.ask("POST", "/agents", 201, json={"name": "seer", "llm": "seeing"})
    done = deployed.chat(agent="seer", message="What is this?", images=[PNG_URL])
    assert deployed.llm.asked[-1].images == 1
    [asked, _] = deployed.ask("GET", f"/threads/{done['threadId']}/messages")["items"]
    assert (asked["content"], asked["parts"][1]["image_url"]["url"]) == ("What is this?", PNG_URL)


def test_an_llm_that_is_in_use_is_not_deleted(deployed: Deployed) -> None:
    error = deployed.ask("DELETE", "/resources/llm/stub", 409)["error"]
    assert "deployer" in error["message"]


def test_a_server_cannot_be_called_as_an_agent_is(deployed: Deployed) -> None:
    spec = {"transport": "http", "url": "http://127.0.0.1:9/mcp"}
    body = {"apiVersion": "pallas/v1", "kind": "server", "metadata": {"name": "agent-deployer"}, "spec": spec}
    error = deployed.ask("PUT", "/resources/server/agent-deployer", 422, json=body)["error"]
    assert "agent-" in error["message"]


def test_an_agent_of_anthropic_has_tools_as_well(deployed: Deployed) -> None:
    spec = {"type": "anthropic", "model": "claude-sonnet-4-5", "url": deployed.llm.anthropic_url}
    spec["apiKeyRef"] = "keys/API_KEY"
    body = {"apiVersion": "pallas/v1", "kind": "llm", "metadata": {"name": "claude"}, "spec": spec}
    deployed.ask("PUT", "/resources/llm/claude", 201, json=body)
    deployed.ask("POST", "/agents", 201, json={"name": "claude", "llm": "claude", "project": "platform"})
    done = deployed.chat(agent="claude", message=ADD)
    assert "5.0" in done["content"]
    assert deployed.chat(agent="claude", message="Thanks", threadId=done["threadId"])["turnIndex"] == 5
    blocks = [
        part["type"]
        for message in deployed.last["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    assert ("tool_use" in blocks, "tool_result" in blocks) == (True, True), "what was called is told again"


def test_after_a_crash_nothing_is_pending_and_the_next_turn_goes_on(deployed: Deployed) -> None:
    url = f"{deployed.ada.url}/api/v1/agents/deployer/chat"
    headers = {"Authorization": f"Bearer {deployed.ada.token}"}
    body = {"message": LEAVE, "stream": True}
    with (
        contextlib.suppress(httpx.HTTPError),
        httpx.stream("POST", url, json=body, headers=headers, timeout=60) as answer_,
    ):
        thread = answer_.headers["pallas-thread"]
        lines = answer_.iter_lines()
        assert next(lines).startswith("data: ")
        pid = deployed.fleet.status()["gateway"]["pid"]
        os.kill(pid, signal.SIGKILL)
        list(lines)
    deployed.fleet.await_that(
        lambda: (deployed.fleet.status().get("gateway") or {}).get("pid") not in (pid, None),
        "there is another",
    )
    await_gateway(deployed.fleet)

    def statuses() -> list[str]:
        items = deployed.ask("GET", f"/threads/{thread}/messages")["items"]
        return [each["status"] for each in items]

    deployed.fleet.await_that(lambda: statuses() == ["complete", "error"], "nothing is pending")
    assert deployed.chat(message="hello", threadId=thread)["turnIndex"] == 3
    assert statuses() == ["complete", "error", "complete", "complete"]


def test_a_turn_that_goes_on_is_followed_and_stopped(deployed: Deployed) -> None:
    url = f"{deployed.ada.url}/api/v1"
    headers = {"Authorization": f"Bearer {deployed.ada.token}"}
    body = {"message": LEAVE, "stream": True}
    with httpx.stream(
        "POST", f"{url}/agents/deployer/chat", json=body, headers=headers, timeout=60
    ) as answer_:
        thread = answer_.headers["pallas-thread"]
        assert next(answer_.iter_lines()).startswith("data: ")
    assert deployed.chat(409, message="And?", threadId=thread)["error"]["type"] == "thread_busy"
    with httpx.stream("GET", f"{url}/threads/{thread}/turn", headers=headers, timeout=60) as following:
        lines = following.iter_lines()
        assert next(lines).startswith("id: ")
        assert deployed.ask("DELETE", f"/threads/{thread}/turn") == {"stopped": True}
        rest = [line for line in lines if line.startswith("data: ")]
    assert rest[-2:] == ['data: {"type":"error","message":"stopped"}', "data: [DONE]"]
    deployed.llm.loopback.wait_for_gone(lambda gone: any(LEAVE in each.body.decode() for each in gone))
    messages = deployed.ask("GET", f"/threads/{thread}/messages")["items"]
    assert [each["status"] for each in messages] == ["complete", "error"]
    assert deployed.chat(message="hello", threadId=thread)["turnIndex"] == 3
    assert [each["role"] for each in deployed.last["messages"]] == ["system", "user", "user"], (
        "not what failed"
    )


def test_an_agent_of_the_file_has_threads_too(deployed: Deployed) -> None:
    done = deployed.chat(agent="echo", message="Good morning")
    assert done["content"] == "Good morning"
    export = deployed.ada.rest("GET", f"/threads/{done['threadId']}/export").content
    made = deployed.ask("POST", "/agents/echo/threads/import", 201, content=export)
    assert deployed.chat(agent="echo", message="Again", threadId=made["id"])["turnIndex"] == 3


def test_openais_api_over_all_agents(deployed: Deployed) -> None:
    runner = make_token(deployed.fleet, "runner", "run:agents:deployer")
    headers = {"Authorization": f"Bearer {runner}"}
    models = httpx.get(f"{deployed.ada.url}/v1/models", headers=headers).json()["data"]
    assert [(each["id"], each["description"]) for each in models] == [("deployer", DEPLOYER["description"])]
    body: dict[str, Any] = {"model": "deployer", "messages": [{"role": "user", "content": ADD}]}
    url = f"{deployed.ada.url}/v1/chat/completions"
    done = httpx.post(url, json=body, headers=headers, timeout=60)
    assert done.status_code == 200, done.text
    assert "5.0" in done.json()["choices"][0]["message"]["content"]
    assert runner not in json.dumps([list(map(str, each.headers)) for each in deployed.llm.requests])
    streamed = httpx.post(url, json={**body, "stream": True, "top_k": 3}, headers=headers, timeout=60)
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert streamed.headers["pallas-ignored"] == "top_k"
    overridden = httpx.post(url, json={**body, "system_override": "Rhyme."}, headers=headers, timeout=60)
    assert overridden.status_code == 200
    assert deployed.llm.asked[-1].body["messages"][0]["content"].startswith("Rhyme.")
    agents = make_token(deployed.fleet, "echo's", "run:agents:deployer", agent="echo")
    refused = httpx.post(
        url,
        json={**body, "system_override": "Lie."},
        headers={"Authorization": f"Bearer {agents}"},
        timeout=60,
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "override_forbidden")
    wrong = httpx.post(url, json={**body, "temperature": 5}, headers=headers, timeout=60)
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "temperature")
    assert httpx.post(url, json={**body, "model": "echo"}, headers=headers).status_code == 404
    lines = [
        line
        for line in deployed.fleet.ctl("audit", "-n", "30", "-o", "json").stdout.splitlines()
        if "chat.completions" in line
    ]
    assert lines


def test_the_document_describes_what_answers(deployed: Deployed) -> None:
    document = deployed.ask("GET", "/openapi.json")
    assert document["openapi"].startswith("3.1")
    for path, item in document["paths"].items():
        for method in {"get", "post", "put", "patch", "delete"} - item.keys():
            place = path.format(agent="x", project="x", thread="x", kind="x", name="x", token="x", model="x")
            refused = httpx.request(
                method,
                f"{deployed.ada.url}{place}",
                headers={"Authorization": f"Bearer {deployed.ada.token}"},
            )
            assert refused.status_code == 405, (method, path)
