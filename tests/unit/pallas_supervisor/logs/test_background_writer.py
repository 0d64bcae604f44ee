"""A thread that writes what others hand to it."""

from __future__ import annotations

import threading

from pallas_supervisor.logs.background_writer import BackgroundWriter
from support.supervisor.processes import PATIENCE, nothing_leaked


def test_a_writer_that_hangs_holds_nobody_up_and_is_bounded() -> None:
    entered, held = threading.Event(), threading.Event()

    def write(_line: bytes) -> None:
        entered.set()
        held.wait(PATIENCE)

    with nothing_leaked():
        writer = BackgroundWriter("stuck", write, limit=100_000)
        writer.put(b"first")
        assert entered.wait(PATIENCE)
        for _ in range(1_000):
            writer.put(b"x" * 900)
        assert 880 <= writer.dropped <= 900
        held.set()
        writer.close()
        assert writer.join(PATIENCE)
