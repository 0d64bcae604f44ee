"""HTTP clients of those servers and models whose URLs may lead nowhere but where `pallas_common.http.reach` says.

They go through no proxy, which connects where it likes, and show nothing of the body of a refusal but what the protocol
has a place for: whoever writes such a URL is not to learn by it what answers there.

Knows HTTP clients and fast-agent's public settings; decides about no address.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
import httpx2

from pallas_common.http.reach import REFUSED, ForbiddenAddressError, closed
from pallas_common.problems import shortened
from pallas_worker.downstreams.tls import shared_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fast_agent.config import MCPServerSettings

LARGEST_REFUSAL = 64 * 1024
"""Bytes of the body of a refusal that are looked at."""
LONGEST_SAID = 120
"""Characters of what a provider says of an error."""
_MARK = "pallas_closed"
"""Of a server's settings, which take more fields than fast-agent knows."""
_WORD = re.compile(r"[a-z0-9_.-]{1,64}", re.IGNORECASE)


def close(settings: MCPServerSettings) -> None:
    """Note that the server's URL may not lead everywhere."""
    setattr(settings, _MARK, True)


def is_closed(settings: MCPServerSettings) -> bool:
    """Whether that is so."""
    return getattr(settings, _MARK, False) is True


class ClosedTransport(httpx2.AsyncHTTPTransport):
    """Sends requests of httpx2 so."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one, wherever it may lead.

        Raises:
            httpx2.ConnectError: nowhere.
        """
        try:
            with closed():
                response = await super().handle_async_request(request)
        except httpx2.ConnectError as error:
            if is_forbidden(error):
                raise httpx2.ConnectError(REFUSED, request=request) from error
            raise
        if response.status_code < 400:
            return response
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > LARGEST_REFUSAL:
                    break
        finally:
            await response.aclose()
        encoded = "content-encoding" in response.headers
        kept = ("retry-after", "www-authenticate")
        headers = {name: value for name, value in response.headers.items() if name in kept}
        said = None if encoded else refusal_in(bytes(body))
        if said is None:
            return httpx2.Response(response.status_code, headers=headers, request=request)
        return httpx2.Response(response.status_code, headers=headers, json=said, request=request)


class ClosedProbeTransport(httpx.AsyncHTTPTransport):
    """Sends requests of httpx so. Probes read no refusals."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one, wherever it may lead.

        Raises:
            httpx.ConnectError: nowhere.
        """
        try:
            with closed():
                return await super().handle_async_request(request)
        except httpx.ConnectError as error:
            if is_forbidden(error):
                raise httpx.ConnectError(REFUSED, request=request) from error
            raise


def probe_client(*, closed: bool) -> httpx.AsyncClient:
    """A client for probes, with the process's certificates. It has no time-out: whoever probes bounds the whole."""
    context = shared_context()
    transport = ClosedProbeTransport(verify=context) if closed else None
    return httpx.AsyncClient(timeout=None, verify=context, transport=transport)  # noqa: S113


def is_forbidden(error: BaseException) -> bool:
    """Whether it is at the address that the connection failed, however the libraries have wrapped that."""
    return any(isinstance(each, ForbiddenAddressError) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def refusal_in(body: bytes) -> dict[str, Any] | None:
    """What a refusal says in the words of JSON-RPC, or of providers' APIs, shortened; None of any other text."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return None
    if document.get("jsonrpc") == "2.0" and isinstance(error.get("code"), int):
        return document  # type: ignore[no-any-return]
    said: dict[str, Any] = {
        key: value
        for key in ("code", "type", "param", "status")
        if isinstance(value := error.get(key), int) or (isinstance(value, str) and _WORD.fullmatch(value))
    }
    if not said:
        return None
    if isinstance(message := error.get("message"), str):
        said["message"] = shortened(" ".join(message.split()), LONGEST_SAID)
    return {"error": said}
