"""The probes that confirm a process's word: an MCP `initialize` on a worker's socket, `GET /health` of the gateway.

Knows one HTTP exchange; nothing of workers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.protocol.readiness_request import readiness_request, says_ready

if TYPE_CHECKING:
    from collections.abc import Callable

type Address = tuple[str, int] | str
"""Host and port, or the path of a unix socket."""

PROBE_TIMEOUT = 5.0
PROBE_INTERVAL = 0.1


class Question(NamedTuple):
    """What is asked: the request for a host and a port, and whether an answer that begins with this line will do."""

    request: Callable[[str, int | None], bytes]
    suffices: Callable[[str], bool]


def initialize(key: str | None = None) -> Question:
    """An `initialize` of MCP.

    Args:
        key: that opens the port of a worker; None where it is open.
    """
    return Question(lambda name, port: readiness_request(name, port, "pallas-supervisor", key), says_ready)


def _health_request(name: str, port: int | None) -> bytes:
    authority = name if port is None else f"{name}:{port}"
    return f"GET /health HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n".encode()


HEALTH = Question(_health_request, lambda status_line: status_line.split(" ")[1:2] in (["200"], ["503"]))
"""However it is with what answers: it answers."""


async def probe(address: Address, question: Question) -> str | None:
    """Ask at `address` once; None if that was answered, else why not, in one line."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            return await _exchange(address, question)
    except TimeoutError:
        return f"no answer within {PROBE_TIMEOUT:g} s"
    except OSError as error:
        return str(error)


async def _exchange(address: Address, question: Question) -> str | None:
    port: int | None
    if isinstance(address, str):
        reader, writer = await asyncio.open_unix_connection(address)
        name, port = "localhost", None
    else:
        reader, writer = await asyncio.open_connection(*address)
        host, port = address
        name = f"[{host}]" if ":" in host else host
    try:
        writer.write(question.request(name, port))
        await writer.drain()
        status_line = (await reader.readline()).decode("latin-1").rstrip()
        return None if question.suffices(status_line) else f"answered {status_line!r}"
    finally:
        writer.close()


async def until_answered(address: Address, question: Question) -> None:
    """Probe until it is answered; the caller bounds the time."""
    while await probe(address, question) is not None:  # noqa: ASYNC110 - a socket has no event for us
        await asyncio.sleep(PROBE_INTERVAL)
