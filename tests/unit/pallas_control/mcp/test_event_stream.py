"""Server-sent events in pieces of any size, and beyond the limits."""

from __future__ import annotations

import pytest

from pallas_control.mcp.errors import WrongAnswerError
from pallas_control.mcp.event_stream import EventStream

STREAM = (
    b"\xef\xbb\xbf: a comment\r\nevent: message\r\ndata: one\r\n\r\n"
    b"id: 7\r\ndata:two\r\ndata:  more\r\n\r\n"
    b"retry: 5\rdata\r\r"
    b"event: empty\n\n"
    b"data: \xe2\x80\xa8 is no line end\n\n"
    b"data: never ended\n"
)
EVENTS = [b"one", b"two\n more", b"", b"\xe2\x80\xa8 is no line end"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_do_not_depend_on_the_pieces(size: int) -> None:
    events = EventStream(1000)
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert [data for piece in pieces for data in events.feed(piece)] == EVENTS


@pytest.mark.parametrize("begins", [b"data: ", b": ", b"", b"data: x\ndata: "])
def test_an_event_that_is_too_large(begins: bytes) -> None:
    events = EventStream(1024)
    assert list(events.feed(begins)) == []
    with pytest.raises(WrongAnswerError, match="larger than"):
        [data for _ in range(2000) for data in events.feed(b"x")]


def test_many_small_events_are_not_one_that_is_too_large() -> None:
    events = EventStream(20)
    assert list(events.feed(b": comment\n" * 100 + b"data: 123\n\n" * 100)) == [b"123"] * 100


def test_a_stream_without_end() -> None:
    events = EventStream(100, most_bytes=50)
    with pytest.raises(WrongAnswerError, match="does not end"):
        [data for _ in range(10) for data in events.feed(b": alive\n\n")]


def test_too_many_events() -> None:
    events = EventStream(100, most_events=3)
    with pytest.raises(WrongAnswerError, match="too many events"):
        list(events.feed(b"data: x\n\n" * 4))
