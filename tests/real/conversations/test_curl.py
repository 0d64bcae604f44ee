"""The reference's REST API by curl, letter by letter: routes, statuses, headers, and the bytes of streams."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fakes.llm_stub import Call, Turn, by_request
from real.clients.programs import Programs
from support.gateway.door import make_token
from support.gateway.http.deployed import ADD, DEPLOYER, run_deployed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.llm_stub import Asked
    from support.gateway.http.deployed import Deployed

FAIL = "CALL tools__fail {}"
BREAK = "break"
"""A message at which the provider calls a tool, and fails then."""


def answer(asked: Asked) -> Turn:
    """Texts of one word, which come in one piece."""
    if asked.user == BREAK:
        return (
            Turn(status=400, text="no luck")
            if asked.tool_results
            else Turn(calls=(Call("tools__echo", {"text": "x"}),))
        )
    if asked.tool_results:
        return Turn(text="Done.")
    return by_request(asked) if asked.user.startswith("CALL") else Turn(text="Grüß-Gott🙂\u2028")


class Answer(NamedTuple):
    """What curl has written."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


@dataclass
class Curl:
    """curl, as somebody with this token uses it."""

    deployed: Deployed
    home: Path
    token: str | None

    def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        """One request below `/api/v1`."""
        command = ["curl", "--silent", "--show-error", "--no-buffer", "--request", method]
        command += ["--dump-header", "head", "--output", "body"]
        command += [f"{self.deployed.ada.url}/api/v1{path}"]
        command += [] if self.token is None else ["--oauth2-bearer", self.token]
        command += [] if body is None else ["--json", json.dumps(body)]
        (self.home / "body").write_bytes(b"")  # curl makes no file for an empty one
        Programs(self.home).run(command, self.home, more={"PATH": os.environ["PATH"]})
        head = (self.home / "head").read_bytes().decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = dict(re.split(": *", line, maxsplit=1) for line in lines)
        return Answer(
            int(first.split()[1]),
            {name.lower(): value for name, value in headers.items()},
            (self.home / "body").read_bytes(),
        )

    def stream(self, message: str, agent: str = "deployer") -> tuple[Answer, str]:
        """A streamed turn, with all headers of the reference; and its thread."""
        told = self("POST", f"/agents/{agent}/chat", {"message": message, "stream": True})
        assert told.status == 200, told
        assert told.headers["content-type"] == "text/event-stream"
        assert told.headers["x-accel-buffering"] == "no"
        assert told.headers["cache-control"] == "no-cache"
        assert "content-length" not in told.headers
        return told, told.headers["pallas-thread"]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with run_deployed(tmp_path_factory.mktemp("curl"), answer=answer) as made:
        yield made


@pytest.fixture
def curl(deployed: Deployed, tmp_path: Path) -> Curl:
    return Curl(deployed, tmp_path, deployed.ada.token)


def test_the_ten_routes(curl: Curl) -> None:
    made = curl("POST", "/agents", {**DEPLOYER, "name": "reviewer"})
    assert (made.status, made.json["name"]) == (201, "reviewer")
    listed = curl("GET", "/agents")
    assert (listed.status, listed.json["nextCursor"]) == (200, None)
    assert {"reviewer", "deployer"} <= {each["name"] for each in listed.json["items"]}
    for said in ("reviewer", made.json["id"]):
        assert curl("GET", f"/agents/{said}").json == made.json, "by its name or its uid"
    changed = curl("PUT", f"/agents/{made.json['id']}", {"description": "I review"})
    assert (changed.status, changed.json["description"]) == (200, "I review")
    thread = curl("POST", "/agents/reviewer/threads", {"title": "Sums"})
    assert (thread.status, thread.json.keys()) == (
        201,
        {"id", "agent", "title", "createdAt", "lastTurnAt"},
    )
    done = curl("POST", "/agents/reviewer/chat", {"message": ADD, "threadId": thread.json["id"]})
    assert (done.status, done.json.keys()) == (
        200,
        {"threadId", "turnIndex", "content", "toolCalls", "usage"},
    )
    assert (done.json["threadId"], done.json["turnIndex"]) == (thread.json["id"], 3)
    [kept] = curl("GET", "/agents/reviewer/threads").json["items"]
    assert kept == {**thread.json, "lastTurnAt": kept["lastTurnAt"]}
    messages = curl("GET", f"/threads/{thread.json['id']}/messages").json["items"]
    fields = {"threadId", "turnIndex", "role", "content", "toolCalls", "toolCallId", "status", "createdAt"}
    assert all(each.keys() == fields for each in messages)
    assert [(each["turnIndex"], each["role"]) for each in messages] == [
        *((0, "user"), (1, "assistant"), (2, "tool"), (3, "assistant"))
    ]
    of_project = curl("GET", "/projects/platform/agents")
    assert [each["name"] for each in of_project.json["items"]] == ["deployer", "reviewer"]
    assert curl("DELETE", "/agents/reviewer").status == 200
    assert curl("GET", "/agents/reviewer").status == 404
    assert curl("GET", f"/threads/{thread.json['id']}/messages").status == 404


def test_the_bytes_of_a_stream(curl: Curl) -> None:
    told, thread = curl.stream("hello")
    assert told.body.decode() == (
        'data: {"type":"text","delta":"Grüß-Gott🙂\\u2028"}\n\n'
        f'data: {{"type":"final","threadId":"{thread}","turnIndex":1}}\n\n'
        "data: [DONE]\n\n"
    )


@pytest.mark.parametrize(
    ("message", "args", "ok"), [(ADD, '{"a":2,"b":3}', "true"), (FAIL, "{}", "false")], ids=["add", "fail"]
)
def test_the_bytes_of_a_stream_with_a_tool(curl: Curl, message: str, args: str, ok: str) -> None:
    told, thread = curl.stream(message)
    tool = message.split()[1]
    assert told.body.decode() == (
        f'data: {{"type":"tool_call","toolName":"{tool}","args":{args}}}\n\n'
        f'data: {{"type":"tool_result","toolName":"{tool}","ok":{ok}}}\n\n'
        'data: {"type":"text","delta":"Done."}\n\n'
        f'data: {{"type":"final","threadId":"{thread}","turnIndex":3}}\n\n'
        "data: [DONE]\n\n"
    )


def test_the_bytes_of_a_stream_that_fails(curl: Curl) -> None:
    told, _ = curl.stream(BREAK)
    *before, error, done, rest = told.body.decode().split("\n\n")
    assert [json.loads(each.removeprefix("data: "))["type"] for each in before] == [
        "tool_call",
        "tool_result",
    ]
    assert re.fullmatch(
        r'data: \{"type":"error","message":"[^\n]*refused the request as invalid[^\n]*"\}', error
    )
    assert (done, rest) == ("data: [DONE]", "")


def test_a_turn_that_is_over_is_followed_with_ids(curl: Curl) -> None:
    told, thread = curl.stream("hello")
    followed = curl("GET", f"/threads/{thread}/turn")
    assert followed.headers["content-type"] == "text/event-stream"
    assert followed.headers["x-accel-buffering"] == "no"
    lines = followed.body.decode().splitlines(keepends=True)
    assert all(line.startswith(("id: ", "data: ")) or line == "\n" for line in lines)
    assert sum(line.startswith("id: ") for line in lines) == 2, "each event but the end"
    assert "".join(line for line in lines if not line.startswith("id: ")).encode() == told.body


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_value_out_of_its_range(curl: Curl, stream: bool) -> None:
    refused = curl("POST", "/agents/deployer/chat", {"message": "x", "temperature": 2.5, "stream": stream})
    assert refused.status == 400
    assert refused.json == {
        "error": {
            "type": "invalid",
            "message": "temperature: must be from 0 to 2, not 2.5",
            "field": "temperature",
        }
    }


def test_a_list_without_a_grant_to_view(curl: Curl) -> None:
    runs = Curl(curl.deployed, curl.home, make_token(curl.deployed.fleet, "runs", "run:agents:deployer"))
    for path, scope in (
        ("/agents", "view:agents"),
        ("/projects/platform/agents", "view:projects:platform"),
    ):
        refused = runs("GET", path)
        assert refused.status == 403, (path, refused)
        assert refused.json["error"]["type"] == "insufficient_scope"
        assert scope in refused.json["error"]["message"], refused.json
    assert runs("GET", "/agents/deployer").status == 404, "what one may not view is not there"
    assert runs("POST", "/agents/deployer/chat", {"message": "x"}).status == 200
    nobody = Curl(curl.deployed, curl.home, None)("GET", "/agents")
    assert (nobody.status, "www-authenticate" in nobody.headers) == (401, True)
