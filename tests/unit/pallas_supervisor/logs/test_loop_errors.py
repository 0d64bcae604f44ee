"""What a loop complains of: once, where it is the same again and again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_supervisor.logs import loop_errors
from pallas_supervisor.logs.loop_errors import LoopErrors

if TYPE_CHECKING:
    import pytest


def test_a_full_table_of_descriptors_is_told_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopErrors())
        full = {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many")}
        for _ in range(100):
            loop.call_exception_handler(full)
        assert len(caplog.records) == 1
        loop.call_exception_handler({"message": "something else"})
        loop.call_exception_handler({"message": "something else"})
        assert len(caplog.records) == 3
        monkeypatch.setattr(loop_errors, "INTERVAL", 0.0)
        loop.call_exception_handler(full)
        assert len(caplog.records) == 4

    asyncio.run(run())
