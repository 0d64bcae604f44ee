"""A worker that does not answer itself says so instead of becoming ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pallas_worker.http import self_check

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Server:
    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self.exchange = answer


def complaint(answer: Callable[[bytes], Awaitable[bytes]]) -> str | None:
    server: Any = Server(answer)
    return asyncio.run(self_check.self_check(server, 8201))


def test_status_200_is_enough() -> None:
    async def answer(request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"Host: localhost:8201\r\n" in head
        return b"HTTP/1.1 200 OK\r\n\r\n{}"

    assert complaint(answer) is None


@pytest.mark.parametrize("line", ["", "HTTP/1.1 421 Misdirected Request"])
def test_any_other_answer_is_a_complaint(line: str) -> None:
    async def answer(_request: bytes) -> bytes:
        return f"{line}\r\n\r\n".encode()

    assert complaint(answer) == f"the worker answers itself with {line!r}"


def test_no_answer_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_request: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(self_check, "TIMEOUT", 0.01)
    assert complaint(answer) == "the worker does not answer itself within 0.01 s"
