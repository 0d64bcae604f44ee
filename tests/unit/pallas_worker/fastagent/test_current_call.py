"""What tasks see of their call while it runs, and what is left of it for those that outlive it."""

from __future__ import annotations

import asyncio
import gc
import weakref

from pallas_worker.fastagent.current_call import CurrentCall, as_current, current_call
from pallas_worker.interface.history import History, Row
from pallas_worker.interface.turn import Text, TurnEvent, TurnRequest


class Heard:
    """Takes all that is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def tell(self, event: TurnEvent) -> None:
        self.told.append(event)

    def piece(self, model: object, agent: str, text: str, *, reasoning: bool) -> None:
        self.told.append((model, agent, text, reasoning))

    def end(self, model: object) -> None:
        self.told.append(model)

    def begin_again(self, model: object, agent: str) -> None:
        self.told.append((model, agent))

    def may_begin_again(self, _: object) -> bool:
        return True


def test_a_task_of_a_call_sees_it_and_nobody_else_does() -> None:
    async def run() -> None:
        heard = Heard()
        call = CurrentCall(TurnRequest(message="hello"), heard.tell, heard)

        async def seen() -> CurrentCall | None:
            return current_call()

        with as_current(call):
            assert await asyncio.create_task(seen()) is call
        assert current_call() is None

    asyncio.run(run())


def test_a_task_that_outlives_its_call_keeps_the_rules_and_nothing_that_was_said() -> None:
    async def run() -> None:
        heard = Heard()
        rows = (Row("user", "before"),)
        request = TurnRequest(
            message="hello",
            history=History(rows),
            tools_allowlist=frozenset({"a"}),
            hold=("b*",),
            system_append="x",
        )
        ended = asyncio.Event()

        async def outlive() -> CurrentCall | None:
            await ended.wait()
            return current_call()

        with as_current(CurrentCall(request, heard.tell, heard)):
            late = asyncio.create_task(outlive())
        gone = weakref.ref(heard)
        del heard
        gc.collect()
        assert gone() is None
        ended.set()
        left = await late
        assert left is not None
        assert left.request == TurnRequest(tools_allowlist=frozenset({"a"}), hold=("b*",), system_append="x")
        left.tell(Text("demo", "late"))
        left.speech.piece("model", "demo", "late", reasoning=False)
        left.speech.begin_again("model", "demo")
        left.speech.end("model")

    asyncio.run(run())
