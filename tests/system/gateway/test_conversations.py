"""The reference's REST API from end to end: agents declared by it, a provider behind them, tools, threads, turns."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.llm_stub import Turn, by_request
from support.data.image_data import PNG
from support.gateway.door import ERAS, await_gateway, door, make_token
from support.gateway.http.conversations import chunks
from support.gateway.http.deployed import ADD, DEPLOYER, resource, run_deployed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.llm_stub import Asked
    from support.gateway.door import Era
    from support.gateway.http.deployed import Deployed

PNG_URL = f"data:image/png;base64,{PNG}"
LEAVE = "stay"
"""A message at which the provider speaks for a long time."""


def answer(asked: Asked) -> Turn:
    if asked.user == LEAVE:
        return Turn(text="word " * 100_000, delay=0.01)
    return by_request(asked)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with run_deployed(
        tmp_path_factory.mktemp("conversations"),
        answer=answer,
        agents={"echo": (), "caller": ("agent-echo", "tools")},
    ) as made:
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
    assert told[-1] == {
        "type": "final",
        "threadId": response.headers["pallas-thread"],
        "turnIndex": 3,
    }


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
    spec = {
        "type": "openai",
        "model": "stub-model",
        "url": deployed.llm.openai_url,
        "apiKeyRef": "keys/API_KEY",
    }
    deployed.ask("PUT", "/resources/llm/used", 201, json=resource("llm", "used", spec))
    users = ("one-user", "other-user")
    for name in users:
        deployed.ask("POST", "/agents", 201, json={"name": name, "llm": "used"})
    error = deployed.ask("DELETE", "/resources/llm/used", 409)["error"]
    assert all(name in error["message"] for name in users), "it says who uses it"
    assert deployed.chat(agent="one-user", message="hello")["content"] == "echo: hello", "nothing has changed"
    deployed.ask("PUT", "/agents/one-user", json={"llm": "stub"})
    error = deployed.ask("DELETE", "/resources/llm/used", 409)["error"]
    assert ("one-user" in error["message"], "other-user" in error["message"]) == (False, True)
    deployed.ask("DELETE", "/agents/other-user")
    deployed.ask("DELETE", "/resources/llm/used")
    deployed.ask("DELETE", "/agents/one-user")


def test_a_server_cannot_be_called_as_an_agent_is(deployed: Deployed) -> None:
    spec = {"transport": "http", "url": "http://127.0.0.1:9/mcp"}
    body = resource("server", "agent-deployer", spec)
    error = deployed.ask("PUT", "/resources/server/agent-deployer", 422, json=body)["error"]
    assert "agent-" in error["message"]


@pytest.mark.parametrize("era", ERAS)
def test_a_server_of_the_file_that_is_called_as_an_agent_is_hides_that_agent(
    deployed: Deployed, era: Era
) -> None:
    grants = ("run:agents:echo", "run:agents:deployer")
    caller = door(deployed.fleet, make_token(deployed.fleet, f"caller-{era}", *grants, agent="caller"), era)
    names = caller.names("tools")
    assert {"agent-echo__add", "tools__add", "agent-deployer__chat"} <= set(names)
    assert "agent-echo__chat" not in names, "the server wins, and that agent alone is skipped"
    assert caller.tool("agent-echo__chat", message="hello").code == -32602
    assert caller.tool("agent-echo__add", a=2, b=3).text
    assert caller.tool("agent-deployer__chat", message="hello").text == "echo: hello"
    direct = door(deployed.fleet, era=era, path="/mcp/agents/echo")
    assert direct.tool("chat", message="Good morning").text == "Good morning", "by its own URL it is there"
    warned = [
        (each["level"], each["message"])
        for each in deployed.fleet.records()
        if "hides the agent echo" in each["message"]
    ]
    assert [level for level, _ in warned] == ["WARNING"], "once, whoever asks"
    assert "in agent/caller the server agent-echo hides" in warned[0][1]


def test_the_name_of_a_proxys_model_is_kept_and_does_nothing(deployed: Deployed) -> None:
    spec = {**DEPLOYER, "name": "proxied", "proxyModelName": "qwen3"}
    assert deployed.ask("POST", "/agents", 201, json=spec)["proxyModelName"] == "qwen3"
    assert deployed.ask("GET", "/agents/proxied")["proxyModelName"] == "qwen3"
    for name, text in (("proxied", ADD), ("deployer", ADD)):
        deployed.chat(agent=name, message=text)
        assert deployed.last["model"] == "stub-model"
    with_it, without = (each.body for each in (deployed.llm.asked[-3], deployed.llm.asked[-1]))
    assert "qwen3" not in json.dumps(with_it)
    assert with_it.keys() == without.keys()
    deployed.ask("DELETE", "/agents/proxied")


def test_an_agent_of_anthropic_has_tools_as_well(deployed: Deployed) -> None:
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
