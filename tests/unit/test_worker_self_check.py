"""A worker that does not answer itself says so instead of becoming ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pallas_worker import self_check
from pallas_worker.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Server:
    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self.exchange = answer


def checked(answer: Callable[[bytes], Awaitable[bytes]]) -> None:
    server: Any = Server(answer)
    asyncio.run(self_check.check_answers(server))


def test_status_200_is_enough() -> None:
    async def answer(request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        return b"HTTP/1.1 200 OK\r\n\r\n{}"

    checked(answer)


@pytest.mark.parametrize("response", [b"", b"HTTP/1.1 421 Misdirected Request\r\n\r\n"])
def test_any_other_answer_is_a_failure_of_the_moment(response: bytes) -> None:
    async def answer(_request: bytes) -> bytes:
        return response

    with pytest.raises(AgentError, match="answers itself with") as caught:
        checked(answer)
    assert not caught.value.permanent


def test_no_answer_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_request: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(self_check, "TIMEOUT", 0.01)
    with pytest.raises(AgentError, match="does not answer itself within"):
        checked(answer)
