"""Servers that are child processes: calls, ends, floods, and that none is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.processes.tree import MARK_VARIABLE
from pallas_gateway.relay.http.errors import LateError, LostError, NoConnectionError
from pallas_gateway.relay.messages.model import Call
from pallas_gateway.relay.stdio_link import INHERITED, StdioLink

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE = 30.0
SERVER = Path(__file__).parents[3] / "fakes" / "stdio_server.py"


def run[T](ask: Callable[[StdioLink], Awaitable[T]], *command: str) -> T:
    async def asked() -> T:
        link = StdioLink("git", command or (sys.executable, "-IS", str(SERVER)), {"MINE": "1"}, None)
        try:
            async with asyncio.timeout(PATIENCE):
                return await ask(link)
        finally:
            await link.close()

    return asyncio.run(asked())


def call(tool: str, id_: int | str = 1, timeout: float | None = PATIENCE, **arguments: str) -> Call:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
    return Call(method="tools/call", params=params, id=id_, era="sessions", timeout=timeout)


TELLS_ITS_ENVIRONMENT = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = {"protocolVersion": "2025-11-25", "instructions": json.dumps(dict(os.environ))}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def test_a_child_gets_what_is_declared_and_nothing_of_the_gateways_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PALLAS_GATEWAY_STORE", "PGPASSWORD", "OPENAI_API_KEY", "PALLAS_TOKEN", "BASH_ENV"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("TERM", "() { secret; }")
    monkeypatch.setenv("HOME", "/home/pallas")

    async def ask(link: StdioLink) -> dict[str, str]:
        found: dict[str, str] = json.loads((await link.open()).instructions or "")
        return found

    found = run(ask, sys.executable, "-IS", "-c", TELLS_ITS_ENVIRONMENT)
    found.pop("LC_CTYPE", None)  # which Python sets itself (PEP 538)
    assert (found.pop("MINE"), found["HOME"], found.get("TERM")) == ("1", "/home/pallas", None)
    assert found.pop(MARK_VARIABLE)
    assert set(found) <= set(INHERITED)
    assert "secret" not in found.values()


def test_calls_of_the_same_id_get_each_its_answer_and_the_child_ends() -> None:
    async def ask(link: StdioLink) -> int:
        await link.open()
        both = await asyncio.gather(link.relay(call("pid", "a")), link.relay(call("pid", "a")))
        messages = [json.loads(each.body) for each in both if isinstance(each.body, bytes)]
        assert [message["id"] for message in messages] == ["a", "a"]
        return int(messages[0]["result"]["content"][0]["text"].removeprefix("pid "))

    pid = run(ask)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_call_that_takes_too_long_is_given_up_and_the_end_of_the_child_ends_the_others(
    tmp_path: Path,
) -> None:
    async def ask(link: StdioLink) -> None:
        await link.open()
        with pytest.raises(LateError):
            await link.relay(call("wait", timeout=0.05, path=str(tmp_path / "a")))
        left = asyncio.ensure_future(link.relay(call("pid")))
        await asyncio.sleep(0)
        assert link._program is not None
        os.kill(link._program.pid, signal.SIGKILL)
        with pytest.raises(LostError):
            await left

    run(ask)


def program(*lines: str) -> tuple[str, ...]:
    """A server that does these lines for each call of a tool, with its `id` and `token`."""
    body = "\n".join(f"        {line}" for line in lines)
    text = (
        "import json, sys\n"
        "def say(**message): print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)\n"
        "def progress(token, **more):\n"
        "    params = {'progressToken': token, **more}\n"
        "    say(method='notifications/progress', params=params)\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    method, id, params = asked['method'], asked.get('id'), asked.get('params', {})\n"
        "    if method == 'initialize':\n"
        "        say(id=id, result={'protocolVersion': '2025-11-25', 'capabilities': {}})\n"
        "    elif method == 'notifications/cancelled':\n"
        "        say(id=params['requestId'] + 1, result={'content': [], 'cancelled': params['requestId']})\n"
        "    elif method == 'tools/call':\n"
        "        token = params['_meta']['progressToken']\n"
        f"{body}\n"
    )
    return sys.executable, "-ISc", text


def messages_of(stream: bytes) -> list[Any]:
    """The data of the events of a stream."""
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]


def test_progress_is_for_the_caller_that_asked_by_its_own_token() -> None:
    async def whole(link: StdioLink, id_: str, token: str | int) -> list[Any]:
        params = {"name": "x", "_meta": {"progressToken": token}}
        one = Call(method="tools/call", params=params, id=id_, era="sessions", timeout=PATIENCE)
        answer = await link.relay(one)
        assert answer.content_type == "text/event-stream"
        assert not isinstance(answer.body, bytes)
        return messages_of(b"".join([piece async for piece in answer.body]))

    async def ask(link: StdioLink) -> None:
        await link.open()
        one, other = await asyncio.gather(whole(link, "a", "mine"), whole(link, "b", 7))
        for messages, id_, token in ((one, "a", "mine"), (other, "b", 7)):
            *told, last = messages
            assert [each["params"]["progress"] for each in told] == [1, 2]
            assert {each["params"]["progressToken"] for each in told} == {token}
            assert last == {"jsonrpc": "2.0", "id": id_, "result": {"content": []}}

    says = program(
        "progress(999, progress=0)",
        "progress('mine', progress=0)",
        "progress(token, progress=1, message='half')",
        "progress(token, progress=1.5, message='x' * 100_000)",
        "progress(token, progress=2)",
        "say(id=id, result={'content': []})",
    )
    run(ask, *says)


def test_a_caller_that_leaves_during_progress_has_its_call_cancelled() -> None:
    async def ask(link: StdioLink) -> None:
        await link.open()
        params = {"name": "x", "_meta": {"progressToken": "mine"}}
        one = Call(method="tools/call", params=params, id="a", era="sessions", timeout=PATIENCE)
        answer = await link.relay(one)
        assert not isinstance(answer.body, bytes)
        assert messages_of(await anext(aiter(answer.body)))[0]["params"]["progress"] == 1
        waiting = asyncio.ensure_future(link.relay(call("x", "b")))
        await asyncio.sleep(0)  # it is asked before the other is cancelled
        await answer.body.aclose()  # type: ignore[attr-defined]
        # The program answers the second call when it hears that the first has been cancelled.
        second = await waiting
        assert isinstance(second.body, bytes)
        assert json.loads(second.body)["result"]["cancelled"] == params_id(second.body) - 1

    def params_id(body: bytes) -> int:
        return int(json.loads(body)["result"]["cancelled"]) + 1

    run(ask, *program("if isinstance(token, int) and id == 2: progress(token, progress=1)"))


def test_what_cannot_be_started_and_what_ends_at_once_is_said() -> None:
    with pytest.raises(NoConnectionError, match="cannot be started"):
        run(lambda link: link.open(), "/no/such/program")
    with pytest.raises(LostError):
        run(lambda link: link.open(), sys.executable, "-ISc", "")


def test_lines_that_are_no_messages_are_passed_over_and_secrets_of_ours_are_not_seen(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = (
        "import os, sys, json\n"
        "print('hello\\n' * 1000); print('{}'); print('[' * 100000)\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': 999, 'result': {}}))\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    result = {'protocolVersion': 'x', 'instructions': ' '.join(sorted(os.environ))}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': asked.get('id'), 'result': result}), flush=True)\n"
    )
    monkeypatch.setenv("PGPASSWORD", "secret")
    opened = run(lambda link: link.open(), sys.executable, "-ISc", program)
    assert opened.instructions is not None
    assert "MINE" in opened.instructions
    assert "PGPASSWORD" not in opened.instructions
    told = [record.getMessage() for record in caplog.records if "no message of MCP" in record.getMessage()]
    (only,) = told
    assert only.startswith("git: wrote what is no message of MCP, which is passed over: hello; ")
