"""What a turn has told is in rows however it ends: broken off, without a store, with a gateway that died."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_gateway.conversations.errors import TurnFailedError
from pallas_gateway.conversations.keeping.turn_rows import Said
from pallas_gateway.store.errors import StoreUnavailableError
from support.gateway.turns.bench import turn_bench
from support.gateway.turns.worker import call, result, text

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_gateway.conversations.turn import RunningTurn
    from support.gateway.turns.bench import TurnBench
    from support.gateway.turns.worker import Exchange

pytestmark = pytest.mark.anyio

FOLDER = "gateway-turns"
TOLD = (text("Let me"), text(" see."), call("c1", a=2), result("c1", "5"), text("\n\nIt is"), text(" 5"))
CALL = ("sums__add", "c1", '{"a": 2}')
KEPT = [
    ("user", "2 + 3?", (), None, "complete"),
    ("assistant", "Let me see.", (CALL,), None, "complete"),
    ("tool", "5", (), "c1", "complete"),
    ("assistant", "It is 5", (), None, "error"),
]
"""The rows of a turn that has told that."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def told(on: TurnBench) -> tuple[RunningTurn, Exchange]:
    """A turn that has told all of `TOLD`, and is under way."""
    running = await on.ask("2 + 3?")
    exchange = await on.worker.next()
    await exchange.say(*TOLD)
    characters = 0
    async for _, event in running.events():
        characters += len(getattr(event, "delta", ""))
        if characters == len("Let me see.\n\nIt is 5"):
            break
    return running, exchange


async def kept(on: TurnBench, running: RunningTurn) -> list[object]:
    rows = await on.rows(running.thread)
    assert [each.turn_index for each in rows] == list(range(len(rows)))
    return [
        (
            each.row.role,
            each.row.content,
            tuple((of.name, of.id, of.arguments) for of in each.row.tool_calls),
            each.row.tool_call_id,
            each.status,
        )
        for each in rows
    ]


async def test_of_a_turn_that_breaks_off_all_is_kept(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running, exchange = await told(on)
        exchange.break_off()
        with pytest.raises(TurnFailedError, match="broke off"):
            await running.result()
        assert await kept(on, running) == KEPT
        assert not list((tmp_path / FOLDER).iterdir())


async def test_the_rows_of_many_calls_at_once_are_made_once(tmp_path: Path) -> None:
    made = 0

    def said() -> Said:
        nonlocal made
        made += 1
        return Said()

    async with turn_bench(tmp_path) as on:
        running, exchange = await told(on)
        for _ in range(100):
            running.rows.keep(said)
        await exchange.finish("5")
        await running.result()
    assert made == 1


async def test_what_a_dead_process_has_told_is_kept(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running, _ = await told(on)
        on.turns._left.active.clear()  # as of another life
        await on.turns._left.put_in_order()
        assert await kept(on, running) == KEPT
        assert not list((tmp_path / FOLDER).iterdir())


async def test_who_goes_on_first_keeps_it_as_well(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running, _ = await told(on)
        on.turns._left.active.clear()
        again = await on.ask("And?", running.thread)
        asked = (await on.worker.next()).body["messages"]
        assert [each["role"] for each in asked] == ["user", "assistant", "tool", "user"]
        assert (await kept(on, again))[: len(KEPT)] == KEPT


async def test_a_failure_that_cannot_be_kept_is_kept_later_with_what_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with turn_bench(tmp_path) as on:
        running, exchange = await told(on)
        with monkeypatch.context() as away:

            async def write(*_: object, **__: object) -> None:
                raise StoreUnavailableError("gone")

            away.setattr(on.store, "write", write)
            exchange.break_off()
            with pytest.raises(TurnFailedError, match="broke off"):
                await running.result()
        await on.turns._left.put_in_order()
        assert await kept(on, running) == KEPT
        assert not list((tmp_path / FOLDER).iterdir())


async def test_what_is_taken_again_keeps_the_old_answer_when_it_dies(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        first = await on.ask("2 + 3?")
        await (await on.worker.next()).finish("5")
        await first.result()
        again = await on.ask(thread=first.thread, retry=True)
        exchange = await on.worker.next()
        await exchange.say(*TOLD)
        await on.until_changed(lambda rows: len(rows) >= 5, first.thread)
        exchange.break_off()
        with pytest.raises(TurnFailedError):
            await again.result()
        rows = await kept(on, first)
        assert [row[4] for row in rows] == ["complete"] * 2 + ["error"] * 4  # type: ignore[index]
        assert [row[:4] for row in rows[2:]] == [row[:4] for row in KEPT]  # type: ignore[index]


async def test_of_a_journal_that_nobody_needs_nothing_is_left(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running, exchange = await told(on)
        (tmp_path / FOLDER / "of-a-turn-that-is-over").write_text("[]\n")
        await on.turns._left.put_in_order()
        assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [running.id]
        await exchange.finish("It is 5.")
        await running.result()
        assert not list((tmp_path / FOLDER).iterdir())


async def test_without_a_journal_the_turn_goes_on(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        (tmp_path / FOLDER).rmdir()
        running, exchange = await told(on)
        await exchange.finish("It is 5.")
        assert (await running.result()).turn_index == 1
