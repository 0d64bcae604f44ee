"""A worker after hundreds of calls, good and bad: it holds no more than after the first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.load.soak import KINDS, run_soak
from support.worker.census import ASK_PASSTHROUGH, check_nothing_is_left, settle, until

if TYPE_CHECKING:
    from pathlib import Path

FIRST, CALLS = 60, 300
SLACK = 12
"""What warming up, a probe and closing connections may hold at a moment; hundreds of calls are more."""


def test_nothing_grows_with_the_number_of_calls(tmp_path: Path) -> None:
    with run_soak(tmp_path) as soak:
        asyncio.run(soak.calls(0, FIRST))
        before = settle(soak.worker, ASK_PASSTHROUGH)
        asyncio.run(soak.calls(FIRST, CALLS))
        check_nothing_is_left(soak.worker, before, SLACK, ASK_PASSTHROUGH)
        until(soak.worker, lambda metrics: 'pallas_calls_running{agent="demo"} 0.0' in metrics)
        assert not [line for line in soak.worker.messages("WARNING") if "disposed" in line]
        assert soak.worker.stop() == 0
        legacy = soak.servers["legacy"]
        assert legacy.sessions_opened >= FIRST + CALLS
        # A session whose connection was reset is gone for its client: there is nobody to close it.
        resets = (FIRST + CALLS) // len(KINDS) * KINDS.count("reset")
        assert len(legacy.sessions_left) <= resets
        for request in legacy.requests:
            assert request.headers.get("mcp-session-id") not in legacy.sessions_left or (
                request.rpc_method != "tools/call" or b"reset-" in request.body
            )
