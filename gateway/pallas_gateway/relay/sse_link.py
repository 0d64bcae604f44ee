"""A server of MCP over HTTP+SSE, the transport of the revision 2024-11-05.

A GET opens a stream whose first event says where messages are posted to; all answers come on that stream.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.problems import quoted
from pallas_gateway.relay.duplex import OPEN_TIMEOUT, Duplex
from pallas_gateway.relay.http.errors import (
    LostError,
    NoConnectionError,
    RelayError,
    WrongAnswerError,
)
from pallas_gateway.relay.http.pool import Pool
from pallas_gateway.relay.messages import adapting, answers

if TYPE_CHECKING:
    from pallas_gateway.relay.http.connection import Response
    from pallas_gateway.relay.http.endpoint import Endpoint
    from pallas_gateway.relay.messages.model import Answer, Call, Heard, Json, Opened

POST_TIMEOUT = 30.0
"""Seconds until the server has taken a message; its answer comes otherwise."""
MOST_BYTES = 64 * 1024
"""Of what it says to that, which is thrown away."""
_NEVER_OPENED = "the server has not been opened yet"


class SseLink:
    """One server at one URL.

    Args:
        name: for messages.
        endpoint: of the stream.
        read_timeout: seconds that the server's settings allow for one answer; None for no limit of its own.
    """

    transport = "sse"
    shares_connections = False
    keeps_sessions = True

    def __init__(self, name: str, endpoint: Endpoint, *, read_timeout: float | None = None) -> None:
        self._name = name
        self._endpoint = endpoint
        self._read_timeout = read_timeout
        self._pool = Pool(endpoint)
        self._messages: asyncio.Future[Endpoint] | None = None
        """Where messages are posted to."""
        self._reading: asyncio.Task[None] | None = None
        self._duplex: Duplex | None = None

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._pool.connections

    def another(self) -> SseLink:
        """A link for a session of its own: each stream is one."""
        return SseLink(self._name, self._endpoint, read_timeout=self._read_timeout)

    async def open(self) -> Opened:
        """Open the stream, and shake hands.

        Raises:
            RelayError: nothing answers, or not as such a server does.
            ServerError: it refuses.
        """
        await self.close()
        head = self._endpoint.head("GET") + b"accept: text/event-stream\r\n\r\n"
        self._pool = Pool(self._endpoint)
        response = await self._pool.exchange(head, safe=True, timeout=OPEN_TIMEOUT)
        if response.status != 200 or response.body is not None:
            response.abandon()
            raise WrongAnswerError(
                f"it answers with HTTP status {response.status} and no event stream: is its `transport` `http`?"
            )
        response.unlimited()
        self._messages = asyncio.get_running_loop().create_future()
        self._duplex = duplex = Duplex(self._name, self._post)
        self._reading = asyncio.get_running_loop().create_task(self._read(response, self._messages, duplex))
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                await asyncio.shield(self._messages)
        except TimeoutError:
            raise WrongAnswerError("its stream does not say where messages are posted to") from None
        return await duplex.shake_hands()

    async def request(self, method: str, params: Json, *, timeout: float) -> Json:
        """The result of a request of our own; raises as `open` does."""
        return await self._talk().request(method, params, timeout=timeout)

    async def relay(self, call: Call) -> Answer:
        """The answer to a client's request.

        Raises:
            RelayError: there is none.
        """
        return await self._talk().relay(call.within(self._read_timeout))

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        """Hear of changes until the stream ends.

        Raises:
            LostError: it has.
        """
        await self._talk().watch(uris, heard)

    async def resubscribe(self, before: frozenset[str], after: frozenset[str]) -> bool:
        """Have the server tell of other resources."""
        return await self._talk().resubscribe(before, after)

    async def close(self) -> None:
        """Close the stream and all other connections."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        self._pool.close()

    def _talk(self) -> Duplex:
        if self._duplex is None:
            raise NoConnectionError(_NEVER_OPENED)
        return self._duplex

    async def _read(self, response: Response, messages: asyncio.Future[Endpoint], duplex: Duplex) -> None:
        error: RelayError = LostError("the server has ended its stream")
        try:
            async for data in answers.events(response, endless=True):
                if messages.done():
                    await duplex.take(data)
                else:
                    messages.set_result(self._told(data))
        except RelayError as raised:
            error = raised
        finally:
            response.abandon()
            if not messages.done():
                messages.set_exception(error)
                messages.exception()  # whoever waits has it; there may be nobody any more
            duplex.end(str(error))

    def _told(self, data: bytes) -> Endpoint:
        """Where the first event says that messages go: to the same server, which has what the headers hold."""
        said = data[:4000].decode("utf-8", "replace").strip()
        endpoint = self._endpoint.redirected(said)
        if endpoint is None:
            raise WrongAnswerError(
                f"it wants messages posted to {quoted(said, 200)}, which is another server"
            )
        return endpoint

    async def _post(self, message: Json) -> None:
        assert self._messages is not None
        endpoint = await asyncio.shield(self._messages)
        body = adapting.dumped(message)
        rest = f"content-type: application/json\r\naccept: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        request = endpoint.head("POST") + rest.encode() + body
        response = await self._pool.exchange(request, safe=False, timeout=POST_TIMEOUT, most=MOST_BYTES)
        response.abandon()
        if not 200 <= response.status < 300:
            raise LostError(f"it refuses messages with HTTP status {response.status}")
