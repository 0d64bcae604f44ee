"""Turns on a real store and a worker over HTTP: what is kept at each moment, what is told, how they end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pallas_gateway.access.audit import FILE
from pallas_gateway.conversations import turn as one_turn
from pallas_gateway.conversations import turns as all_turns
from pallas_gateway.conversations.errors import BusyError, NoSuchThreadError, TurnFailedError
from pallas_gateway.conversations.events import Failed, Final, Reset, Text, ToolCall, ToolResult
from pallas_gateway.conversations.keeping import turn_rows
from pallas_gateway.identity.principal import Principal
from pallas_gateway.store.conversations import threads
from pallas_gateway.store.errors import StoreUnavailableError
from support.gateway.turns.bench import ADA, turn_bench
from support.gateway.turns.worker import call, result, text

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_gateway.conversations.turn import RunningTurn

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def all_events(running: RunningTurn) -> list[object]:
    return [event async for _, event in running.events()]


async def test_a_turn_is_kept_as_it_goes_on(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("2 + 3?")
        assert await on.told(running.thread) == [
            (0, "user", "2 + 3?", "complete"),
            (1, "assistant", None, "pending"),
        ]
        assert on.held == ["ada"]
        assert on.changed == [running.thread.id], "it has begun"
        exchange = await on.worker.next()
        assert exchange.body["messages"] == [{"role": "user", "content": "2 + 3?"}]
        assert exchange.body["metadata"] == {"conversation_id": running.thread.id}
        await exchange.say(text("Let me see."), call("c1", a=2, b=3))
        rows = await on.until_changed(lambda rows: len(rows) == 3, running.thread)
        assert [each.status for each in rows] == ["complete", "pending", "pending"]
        assert rows[1].row.content == "Let me see."
        assert [(each.name, each.id) for each in rows[1].row.tool_calls] == [("sums__add", "c1")]
        assert rows[2].row.tool_call_id == "c1"
        await exchange.say(result("c1", "5"), text("\n\nIt is"), text(" 5."))
        calls: list[dict[str, Any]] = [
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "sums__add", "arguments": '{"a": 2, "b": 3}'},
                    }
                ],
                "pallas": {"channels": {"x": ["y"]}},
            },
            {"role": "tool", "tool_call_id": "c1", "content": "5"},
        ]
        await exchange.finish("It is 5.", *calls)
        done = await running.result()
        assert (done.content, done.turn_index, done.usage["total_tokens"]) == (
            "Let me see.\n\nIt is 5.",
            3,
            5,
        )
        assert await on.told(running.thread) == [
            (0, "user", "2 + 3?", "complete"),
            (1, "assistant", "Let me see.", "complete"),
            (2, "tool", "5", "complete"),
            (3, "assistant", "It is 5.", "complete"),
        ]
        events = await all_events(running)
        assert events == [
            Text("Let me see."),
            ToolCall("sums__add", {"a": 2, "b": 3}, "c1", "jarvis"),
            ToolResult("sums__add", True, "c1", "jarvis", "5"),
            Text("\n\nIt is 5."),
            Final(3),
        ]
        assert running.ignored == "seed"
        assert (found := await on.thread(running)) is not None
        assert (found.title, found.turn, found.length) == ("2 + 3?", None, 4)
        assert found.last_turn is not None
        assert on.held == []
        # The next turn has all of it, and what the provider wants back.
        again = await on.ask("And 3 + 4?", running.thread)
        exchange = await on.worker.next()
        assert exchange.body["messages"] == [
            {"role": "user", "content": "2 + 3?"},
            *calls,
            {"role": "assistant", "content": "It is 5."},
            {"role": "user", "content": "And 3 + 4?"},
        ]
        await exchange.finish("7")
        assert (await again.result()).turn_index == 5
        lines = [line for line in (tmp_path / FILE).read_text().splitlines() if '"begun"' not in line]
        assert len(lines) == 2
        assert (
            f'"action":"chat","target":"agent/jarvis thread/{running.thread.id}","outcome":"ok"' in lines[0]
        )


async def test_what_failed_is_kept_as_failed_and_is_no_part_of_what_follows(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        await exchange.say(text("half an ans"))
        exchange.break_off()
        with pytest.raises(TurnFailedError, match="broke off") as raised:
            await running.result()
        assert raised.value.status == 503
        assert await on.told(running.thread) == [
            (0, "user", "one", "complete"),
            (1, "assistant", "half an ans", "error"),
        ]
        assert (await on.rows(running.thread))[1].error is not None
        again = await on.ask("two", running.thread)
        exchange = await on.worker.next()
        assert exchange.body["messages"] == [
            {"role": "user", "content": "one"},
            {"role": "user", "content": "two"},
        ]
        await exchange.finish("fine")
        assert (await again.result()).turn_index == 3


async def test_a_request_that_the_worker_refuses_never_was(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        first = await on.ask("one")
        await (await on.worker.next()).finish("1")
        await first.result()
        wrong = await on.ask("two", first.thread, tools_allowlist=["nothing"])
        error = {
            "message": "messages[2].content: bad",
            "code": "invalid_value",
            "param": "messages[2].content",
        }
        await (await on.worker.next()).refuse(400, {"error": error})
        with pytest.raises(TurnFailedError, match=r"^message: bad") as raised:
            await wrong.result()
        assert (raised.value.status, raised.value.field) == (400, "message")
        assert [each[0] for each in await on.told(first.thread)] == [0, 1]
        busy = await on.ask("two")
        limit = {"message": "busy", "code": "agent_busy"}
        await (await on.worker.next()).refuse(429, {"error": limit}, retry_after="7")
        with pytest.raises(TurnFailedError) as raised:
            await busy.result()
        assert (raised.value.status, raised.value.retry_after) == (429, "7")
        assert await on.thread(busy) is None, "nor was the thread that it would have begun"


async def test_what_is_stopped_says_so_and_the_worker_hears_it(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("tell me")
        exchange = await on.worker.next()
        await exchange.say(text("Once upon"), call("c1"))
        await on.until_changed(lambda rows: len(rows) == 3, running.thread)
        assert await on.turns.stop("default", running.thread.id)
        await exchange.gone()
        assert (await all_events(running))[-1] == Failed("stopped", "stopped", 499)
        assert [each[2:] for each in await on.told(running.thread)] == [
            ("tell me", "complete"),
            ("Once upon", "error"),
            ("", "error"),
        ]
        assert not await on.turns.stop("default", running.thread.id)
        assert '"outcome":"cancelled"' in (tmp_path / FILE).read_text()


async def test_a_token_that_counts_no_more_ends_its_turns(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("tell me")
        await on.worker.next()
        assert on.in_flight.end(ADA) == 1
        with pytest.raises(TurnFailedError, match="counts no more"):
            await running.result()


async def test_of_two_at_a_time_the_second_is_refused_or_waits(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        first = await on.ask("one")
        exchange = await on.worker.next()
        with pytest.raises(BusyError, match="onBusy"):
            await on.ask("two", first.thread)
        waiting = asyncio.create_task(on.ask("two", first.thread, onBusy="wait"))
        await asyncio.sleep(0)
        await exchange.finish("1")
        second = await waiting
        assert first.is_over
        exchange = await on.worker.next()
        assert [each["content"] for each in exchange.body["messages"]] == ["one", "1", "two"]
        await exchange.finish("2")
        assert (await second.result()).turn_index == 3


async def test_so_many_wait_for_a_thread_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_turns, "MOST_WAITING", 1)
    async with turn_bench(tmp_path) as on:
        first = await on.ask("one")
        exchange = await on.worker.next()
        waiting = asyncio.create_task(on.ask("two", first.thread, onBusy="wait"))
        async with asyncio.timeout(10):
            while not on.turns._waiting:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.001)
        with pytest.raises(BusyError, match="1 requests wait"):
            await on.ask("three", first.thread, onBusy="wait")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not on.turns._waiting
        await exchange.finish("1")
        await first.result()


async def test_taking_the_last_turn_again_replaces_it_when_it_is_over(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        first = await on.ask("one")
        await (await on.worker.next()).finish("bad")
        await first.result()
        failing = await on.ask(thread=first.thread, retry=True)
        exchange = await on.worker.next()
        assert exchange.body["messages"] == [{"role": "user", "content": "one"}]
        await exchange.say(text("ba"))
        exchange.break_off()
        with pytest.raises(TurnFailedError):
            await failing.result()
        assert [each[2:] for each in await on.told(first.thread)] == [
            ("one", "complete"),
            ("bad", "complete"),
            ("one", "error"),
            ("ba", "error"),
        ]
        again = await on.ask(thread=first.thread, retry=True, temperature=1)
        exchange = await on.worker.next()
        assert exchange.body["messages"] == [{"role": "user", "content": "one"}]
        assert exchange.body["temperature"] == 1
        await exchange.finish("good")
        assert (await again.result()).turn_index == 5
        assert [each[1:] for each in await on.told(first.thread) if each[3] == "complete"] == [
            ("user", "one", "complete"),
            ("assistant", "good", "complete"),
        ]


async def test_text_that_is_taken_back_is_in_no_answer(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        await exchange.say(
            text("wrong"),
            {"choices": [], "pallas": {"type": "retry", "agent": "jarvis", "characters": 3, "of": "answer"}},
            text("ite"),
        )
        await exchange.finish("write")
        assert (await running.result()).content == "write"[:2] + "ite"
        assert await all_events(running) == [Text("wrong"), Reset(3), Text("ite"), Final(1)]


async def test_a_whole_conversation_takes_the_place_of_the_threads(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        first = await on.ask("one")
        await (await on.worker.next()).finish("1")
        await first.result()
        said = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
        second = await on.ask(thread=first.thread, messages=said)
        exchange = await on.worker.next()
        assert exchange.body["messages"] == said
        await exchange.finish("d")
        assert (await second.result()).turn_index == 3
        assert [each[2] for each in await on.told(first.thread)] == ["one", "1", "c", "d"]


async def test_the_key_goes_with_what_needs_it_and_for_people_alone(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        await on.ask("one", systemOverride="You are another")
        exchange = await on.worker.next()
        assert exchange.headers["pallas-key"] == "key"
        assert exchange.body["system_override"] == "You are another"
        on.worker.key = "new"
        await exchange.refuse(403, {"error": {"message": "wrong key", "code": "wrong_key"}})
        exchange = await on.worker.next()
        assert exchange.headers["pallas-key"] == "new"
        assert on.worker.refreshed == 1
        await exchange.finish("fine")
        await on.ask("one")
        assert "pallas-key" not in (await on.worker.next()).headers
        agent = Principal(id="worker:r/1", name="r", role="agent", agent="r")
        await on.ask("one", principal=agent, systemOverride="You are another")
        assert "pallas-key" not in (await on.worker.next()).headers


async def test_what_a_dead_process_left_has_failed_and_blocks_nobody(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        first = await on.ask("one")
        await on.worker.next()
        on.turns._left.active.clear()  # as of another life
        second = await on.ask("two", first.thread)
        await (await on.worker.next()).finish("2")
        assert (await second.result()).turn_index == 3
        assert [each[3] for each in await on.told(first.thread)] == [
            "complete",
            "error",
            "complete",
            "complete",
        ]
        third = await on.ask("three", first.thread)
        await on.worker.next()
        on.turns._left.active.clear()
        on.changed.clear()
        await on.turns._left.put_in_order()
        assert on.changed == [third.thread.id]
        assert [each[3] for each in await on.told(third.thread)][4:] == ["complete", "error"]


async def test_a_living_process_keeps_what_it_works_on_and_others_hear_of_its_end(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on, turn_bench(tmp_path, on.store) as other:
        first = await on.ask("one")
        exchange = await on.worker.next()
        await other.turns._left.put_in_order()
        assert other.changed == []
        with pytest.raises(BusyError):
            await other.ask("two", first.thread)
        await exchange.finish("1")
        assert (await first.result()).turn_index == 1
        await other.turns._left.put_in_order()
        assert other.changed == [first.thread.id]


async def test_an_answer_that_cannot_be_kept_is_told_as_failed_and_settled_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_rows, "KEEP_FOR", 0.05)
    monkeypatch.setattr(turn_rows, "KEEP_AGAIN", 0.01)
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        with monkeypatch.context() as away:

            async def write(*_: object, **__: object) -> None:
                raise StoreUnavailableError("gone")

            away.setattr(on.store, "write", write)
            await exchange.finish("1")
            with pytest.raises(TurnFailedError, match="cannot be kept: gone") as raised:
                await running.result()
            assert raised.value.status == 503
        await on.turns._left.put_in_order()
        assert [each[3] for each in await on.told(running.thread)] == ["complete", "error"]


async def test_a_store_that_comes_back_in_time_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_rows, "KEEP_AGAIN", 0.01)
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        tries = 0
        real = on.store.write

        async def write(*arguments: Any, **more: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries < 4:
                raise StoreUnavailableError("gone")
            return await real(*arguments, **more)

        monkeypatch.setattr(on.store, "write", write)
        await exchange.finish("1")
        assert (await running.result()).turn_index == 1


async def test_a_deleted_thread_ends_its_turn_without_a_trace(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        await on.store.write(partial(threads.delete_thread, tenant="default", id=running.thread.id))
        await exchange.finish("1")
        with pytest.raises(TurnFailedError, match="deleted"):
            await running.result()
        with pytest.raises(NoSuchThreadError):
            await on.ask("two", running.thread)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "wizard", "content": "x"},
        {"role": "assistant", "content": 7},
        {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]},
        {"role": "tool", "tool_call_id": "x", "content": ["text"]},
    ],
)
async def test_rows_that_nobody_could_read_again_are_not_kept(
    tmp_path: Path, message: dict[str, Any]
) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        await (await on.worker.next()).finish("fine", message)
        with pytest.raises(TurnFailedError, match="cannot be kept"):
            await running.result()
        assert [each[3] for each in await on.told(running.thread)] == ["complete", "error"]


async def test_a_model_that_calls_without_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_turn, "MOST_EVENTS", 5)
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        for number in range(6):
            await exchange.say(call(f"c{number}"))
        with pytest.raises(TurnFailedError, match="no end"):
            await running.result()
        await exchange.gone()
