"""The tool `chat` with a thread: begins one, goes on with it, tells the text as it comes, ends with its call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pallas_gateway.identity.principal import Principal
from pallas_gateway.mcp.surface import ClientRequest, McpError
from pallas_gateway.servers.chat import turns as chat_turns
from pallas_gateway.servers.chat.tool import THREAD_META, chat_in_thread
from pallas_gateway.servers.chat.turns import ThreadTurns
from support.gateway.turns.bench import ADA, JARVIS, TurnBench, turn_bench
from support.gateway.turns.worker import call, result, text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

BOB = Principal(id="bob", name="Bob", role="human")
IMAGE = {"data": "AAAA", "mime_type": "image/png"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Caller:
    """One who calls the tool."""

    def __init__(self, on: TurnBench, principal: Principal = ADA) -> None:
        self.told: list[dict[str, Any]] = []
        self._on = on
        self._principal = principal

    def chat(self, message: str, thread: Any, **arguments: Any) -> asyncio.Task[dict[str, Any]]:
        async def notify(message: dict[str, Any]) -> None:
            self.told.append(message)

        request = ClientRequest(
            principal=self._principal,
            era="sessions",
            version="2025-11-25",
            id=1,
            method="tools/call",
            params={"_meta": {"progressToken": "p"}},
            body=b"",
            headers={},
            session=None,
            request_id="request-1",
            notify=notify,
        )
        said = {"message": message, "thread": thread, **arguments}
        turns = ThreadTurns(self._on.store, self._on.turns)
        return asyncio.ensure_future(chat_in_thread(turns, JARVIS, said, request))


async def test_a_thread_is_begun_and_gone_on_with(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        caller = Caller(on)
        calling = caller.chat("My name is Ada.", "new", images=[IMAGE])
        exchange = await on.worker.next()
        (asked,) = exchange.body["messages"]
        assert asked["content"][1]["image_url"]["url"] == "data:image/png;base64,AAAA"
        await exchange.say(text("Hello, Ada."))
        await exchange.finish("Hello, Ada.")
        answer = await calling
        thread = answer["_meta"][THREAD_META]
        assert [each["text"] for each in answer["content"]] == [
            "Hello, Ada.",
            f"(thread {thread}: name it as `thread` to go on)",
        ]
        assert answer["isError"] is False
        calling = caller.chat("What is my name?", thread)
        exchange = await on.worker.next()
        assert [each["role"] for each in exchange.body["messages"]] == ["user", "assistant", "user"]
        await exchange.say(text("Ada."))
        await exchange.finish("Ada.")
        answer = await calling
        assert [each["text"] for each in answer["content"]] == ["Ada."]
        assert answer["_meta"] == {THREAD_META: thread}


async def test_progress_tells_the_text_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_turns, "PROGRESS_INTERVAL", 0.001)
    async with turn_bench(tmp_path) as on:
        caller = Caller(on)
        calling = caller.chat("2 + 3?", "new")
        exchange = await on.worker.next()

        async def until_told(said: str) -> None:
            async with asyncio.timeout(10):
                while said not in "".join(each["params"]["message"] for each in caller.told):  # noqa: ASYNC110 - a list
                    await asyncio.sleep(0.001)

        await exchange.say(text("Let me see."))
        await until_told("Let me see.")
        await exchange.say(call("c1"), result("c1", "5"))
        await until_told("[sums__add: started]")
        await until_told("[sums__add: completed]")
        await exchange.finish("5")
        await calling
        assert [each["params"]["progress"] for each in caller.told] == list(range(1, len(caller.told) + 1))
        assert {each["params"]["progressToken"] for each in caller.told} == {"p"}


async def test_a_call_that_is_taken_back_ends_its_turn(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        calling = Caller(on).chat("tell me", "new")
        exchange = await on.worker.next()
        calling.cancel()
        await exchange.gone()


async def test_threads_of_others_are_not_there(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        await (await on.worker.next()).finish("1")
        await running.result()
        for thread in (running.thread.id, "no", "../x", "", 7, "x" * 5000):
            with pytest.raises(McpError, match="there is no thread") as raised:
                await Caller(on, BOB).chat("mine", thread)
            assert raised.value.data == {"type": "invalid", "field": "thread"}


@pytest.mark.parametrize("images", ["x", [7], [{"data": 7, "mime_type": "image/png"}], [{"data": "AAAA"}]])
async def test_what_is_no_image_is_refused(tmp_path: Path, images: Any) -> None:
    async with turn_bench(tmp_path) as on:
        with pytest.raises(McpError, match="image"):
            await Caller(on).chat("look", "new", images=images)


async def test_a_failure_is_told_as_the_tools_own(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        answer = await Caller(on).chat("two", running.thread.id)
        assert answer["isError"] is True
        assert "another turn" in answer["content"][0]["text"]
        await exchange.finish("1")
        await running.result()
        calling = Caller(on).chat("three", running.thread.id)
        (await on.worker.next()).break_off()
        answer = await calling
        assert answer["isError"] is True
        assert "broke off" in answer["content"][0]["text"]
        assert answer["_meta"] == {THREAD_META: running.thread.id}
