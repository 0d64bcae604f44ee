"""Readers of a turn that do not read, or hardly: they are cut off, hold little meanwhile, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from support.gateway.http.conversations import API, CHAT, chunks, on_talk
from support.gateway.turns.worker import text

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_common.http.server import BoundedProtocol
    from support.gateway.http.conversations import Talk

PIECE = "x" * 50_000
PIECES = 160
"""Of a turn: 8 MB, more than what the system's buffers between two sockets hold."""
MOST_HELD = 512 * 1024
"""Bytes that may wait for one reader: a batch, what is let through before writers wait, and some."""


async def connected(talk: Talk, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a request was sent, and of the answer nothing but the head was read."""
    host, port = talk.port.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=4096)
    writer.write(request)
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def more_of(reader: asyncio.StreamReader) -> bytes:
    """What comes next; there has to be something."""
    found = await reader.read(65536)
    assert found, "it was cut off"
    return found


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """A request as it is sent."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def events(told: bytes) -> list[dict[str, Any]]:
    """The events of an answer, in chunks as it came, each of which has whole events."""
    return [json.loads(line[6:]) for line in told.decode().splitlines() if line.startswith("data: {")]


def served(talk: Talk) -> dict[int, BoundedProtocol]:
    """The gateway's ends of its connections, by the port of the other end."""
    ends = talk.port.server._open_connections()
    return {each.transport.get_extra_info("peername")[1]: each for each in ends}


def port_of(writer: asyncio.StreamWriter) -> int:
    port: int = writer.get_extra_info("sockname")[1]
    return port


@pytest.mark.parametrize("follows", [False, True], ids=["who asked", "a follower"])
def test_a_reader_that_stalls_is_cut_off_and_costs_nobody_anything(tmp_path: Path, *, follows: bool) -> None:
    async def do(talk: Talk) -> None:
        ada = talk.ada
        body = json.dumps({"message": "Tell me", "stream": True}).encode()
        asking = asyncio.create_task(connected(talk, request("POST", CHAT, ada, body)))
        exchange = await talk.worker.next()
        await exchange.say(text("Once "))
        asked = await asking
        [thread] = (await talk.ask("GET", "/threads", ada))["items"]
        path = f"{API}/threads/{thread['id']}/turn"
        follower = await connected(talk, request("GET", path, ada))
        stalled, other = (follower, asked) if follows else (asked, follower)
        reads = other[0]  # whose writer has to be kept: without it, it is closed
        end = served(talk)[port_of(stalled[1])]
        held, told = 0, b""
        for _ in range(PIECES):
            await exchange.say(text(PIECE))
            wanted = len(told) + len(PIECE)
            while len(told) < wanted:  # who reads has all of it before the next piece is said
                told += await more_of(reads)
            held = max(held, end.unsent)
        assert 0 < held < MOST_HELD
        while port_of(stalled[1]) in served(talk):  # noqa: ASYNC110 - nobody is told of that
            await asyncio.sleep(0.02)
        await exchange.say(text(" upon a time."))
        await exchange.finish("Once upon a time.")
        while not told.endswith(b"0\r\n\r\n"):
            told += await more_of(reads)
        said = events(told)
        assert "".join(each.get("delta", "") for each in said) == "Once " + PIECE * PIECES + " upon a time."
        assert said[-1] == {"type": "final", "threadId": thread["id"], "turnIndex": 1}
        [_, kept] = (await talk.ask("GET", f"/threads/{thread['id']}/messages", ada))["items"]
        assert (kept["content"], kept["status"]) == ("Once upon a time.", "complete")
        left = b""
        with contextlib.suppress(ConnectionError):
            left = await stalled[0].read()
        assert b"[DONE]" not in left

    on_talk(tmp_path, do, stall_timeout=0.5)


def test_for_a_reader_that_is_slow_little_is_held(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        ada = talk.ada
        response = asyncio.create_task(talk.port.ask("POST", CHAT, ada, json={"message": "Tell me"}))
        exchange = await talk.worker.next()
        for _ in range(PIECES):
            await exchange.say(text(PIECE))
        [thread] = (await talk.ask("GET", "/threads", ada))["items"]
        path = f"{API}/threads/{thread['id']}/turn"
        reader, writer = await connected(talk, request("GET", path, ada))
        end, held, told = served(talk)[port_of(writer)], 0, b""
        await exchange.finish("All of it")
        while not told.endswith(b"0\r\n\r\n"):
            held = max(held, end.unsent)
            told += await more_of(reader)
        assert 0 < held < MOST_HELD
        assert "".join(each.get("delta", "") for each in events(told)) == PIECE * PIECES
        assert chunks((await response).text)

    on_talk(tmp_path, do)
