"""One line a call: its outcome, duration, tools, tokens and caller, and nothing that was said."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pallas_worker.calls.record import CallRecord, who_calls
from pallas_worker.interface.turn import ModelUsage, ToolCalled

if TYPE_CHECKING:
    import pytest


def called(tool: str) -> ToolCalled:
    return ToolCalled(agent="a", id="1", server="k", tool=tool, arguments={"secret": "argument"})


def ended(record: CallRecord, caplog: pytest.LogCaptureFixture, *end: Any) -> tuple[str, dict[str, Any]]:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        record.end(*end)
    (one,) = caplog.records
    return one.getMessage(), one.__dict__


def test_a_call_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    record = CallRecord("send_message", "agent jarvis", rows=2)
    for name in ("k__search", "k__read", "k__search"):
        record.note(called(name))
    record.use(
        [ModelUsage("m", {"input": 100, "cache_read": 20, "output": 7}), ModelUsage("m", {"output": 1})]
    )
    message, fields = ended(record, caplog, "ok", 1.2345)
    assert message == (
        "send_message: ok after 1.23 s; 2 history rows; 2 model rounds, 120 tokens in, 8 out; "
        "tools k__search ×2, k__read; caller agent jarvis"
    )
    assert "argument" not in str(fields)


def test_one_that_fails_says_whose_matter_it_is(caplog: pytest.LogCaptureFixture) -> None:
    message, _ = ended(CallRecord("chat", "curl/8"), caplog, "error", 0.0, "busy")
    assert message == (
        "chat: error (busy) after 0.0 s; 0 history rows; 0 model rounds, 0 tokens in, 0 out; caller curl/8"
    )


def test_names_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    record = CallRecord("chat", who_calls({"user-agent": "x" * 9_999}, ()))
    for number in range(500):
        record.note(called(f"{number}" + "y" * 9_999))
    message, _ = ended(record, caplog, "ok", 1.0)
    assert len(message) < 3_000
    assert "and 480 more" in message


def test_who_calls() -> None:
    assert who_calls({"user-agent": "curl/8.5"}, ("jarvis@d", "research@d")) == "agent research"
    assert who_calls({"user-agent": "curl/8.5\x1b[2J"}, ()) == "curl/8.5?[2J"
    assert who_calls({}, ()) == "unknown"
