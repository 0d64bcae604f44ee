"""The control API as the gateway asks it: HTTP over the supervisor's unix socket, bounded in size and time.

Knows no verb and no document (docs/control-api.md has them).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from pallas_control.errors import ControlError, RefusedError, UnknownAgentError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

type Json = dict[str, Any]
type Query = Mapping[str, str | int | list[str]]

ANSWER_TIMEOUT = 15.0
"""Seconds in which a healthy supervisor answers anything that does not wait for an agent."""

CONNECT_TIMEOUT = 5.0

GRACE = 10.0
"""Seconds beyond a verb's own time-out before the supervisor counts as stuck."""

SILENCE = 60.0
"""Seconds without even an empty line after which a followed supervisor counts as gone; it sends one every 15 s."""

MOST_BYTES = 256 * 1024 * 1024
"""Of one answer: ten thousand resources of some 20 KiB."""
LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of one event: the names of tens of thousands of agents."""
MOST_CONNECTIONS = 20
"""At a time; the control socket is for others as well."""

_CHUNK = 64 * 1024


class Answer(NamedTuple):
    """What the supervisor answered, whatever its status."""

    status: int
    etag: str | None
    document: Json


class ControlClient:
    """The control API on one socket. Several requests may be under way at a time."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                uds=socket, limits=httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=3.0)
            ),
            base_url="http://pallas",
            headers={"Accept": "application/json"},
            trust_env=False,
        )

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def get(self, path: str, query: Query | None = None) -> Json:
        """The answer's JSON object.

        Raises:
            UnreachableError: nobody answers on the socket.
            UnknownAgentError: there is no such thing.
            RefusedError: the supervisor will not or cannot.
            ControlError: it does not answer in time, or what answers is no supervisor.
        """
        return _accepted(await self.ask("GET", path, query=query))

    async def post(self, path: str, body: Json, *, timeout: float = ANSWER_TIMEOUT) -> Json:
        """The answer's JSON object; raises as `get` does.

        Args:
            timeout: seconds that the verb may take; the supervisor knows its own.
        """
        answer = await self.ask(
            "POST", path, content=json.dumps(body).encode(), timeout=timeout, content_type="application/json"
        )
        return _accepted(answer)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        timeout: float = ANSWER_TIMEOUT,
    ) -> Answer:
        """The answer as it is, also where the supervisor refuses.

        Raises:
            UnreachableError: nobody answers on the socket.
            ControlError: the supervisor does not answer in time, or what answers is none.
        """
        sent = {**(headers or {}), **({} if content_type is None else {"Content-Type": content_type})}
        try:
            async with self._client.stream(
                method,
                path,
                params=_parameters(query),
                content=content,
                headers=sent,
                timeout=httpx.Timeout(timeout, connect=CONNECT_TIMEOUT, pool=timeout),
            ) as response:
                data = bytearray()
                async for piece in response.aiter_bytes(_CHUNK):
                    data += piece
                    if len(data) > MOST_BYTES:
                        raise ControlError(f"the supervisor's answer has more than {MOST_BYTES} bytes")
                return Answer(response.status_code, response.headers.get("etag"), _object(bytes(data)))
        except httpx.HTTPError as error:
            raise self._failure(error, timeout) from None

    async def lines(self, path: str, query: Query) -> AsyncGenerator[list[bytes]]:
        """The answer's lines as they come, those that come together at once; where an empty one
        comes alone, which says no more than that the supervisor is there, there are none.

        Raises:
            UnreachableError, RefusedError, ControlError: as `get`; also where the stream is cut off.
        """
        timeout = httpx.Timeout(SILENCE, connect=CONNECT_TIMEOUT)
        try:
            async with self._client.stream(
                "GET", path, params=_parameters(query), timeout=timeout
            ) as response:
                if response.status_code != httpx.codes.OK:
                    document = _object(await response.aread())
                    _accepted(Answer(response.status_code, None, document))
                rest = b""
                async for piece in response.aiter_bytes():
                    *whole, rest = (rest + piece).split(b"\n")
                    if len(rest) > LONGEST_LINE:
                        raise ControlError("what answers on the control socket sends no lines")
                    yield [line for line in whole if line.strip()]
        except httpx.HTTPError as error:
            raise self._failure(error, SILENCE) from None

    def _failure(self, error: httpx.HTTPError, timeout: float) -> ControlError:
        if isinstance(error, httpx.ReadTimeout | httpx.PoolTimeout | httpx.WriteTimeout):
            return ControlError(
                f"the supervisor did not answer within {timeout:g} s: it is overloaded or stuck; its log says more"
            )
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return UnreachableError(
                f"the supervisor is away: nobody answers on {self._socket}; start it again"
            )
        return UnreachableError(
            f"the connection to the supervisor on {self._socket} failed: {str(error) or type(error).__name__}"
        )


def _parameters(query: Query | None) -> httpx.QueryParams | None:
    return None if query is None else httpx.QueryParams(dict(query))


def _object(data: bytes) -> Json:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ControlError("what answers on the control socket is no supervisor: it sends no JSON object")
    return document


def _accepted(answer: Answer) -> Json:
    if answer.status in (httpx.codes.OK, httpx.codes.CREATED):
        return answer.document
    unknown = answer.status == httpx.codes.NOT_FOUND
    raise (UnknownAgentError if unknown else RefusedError)(answer.status, answer.document)
