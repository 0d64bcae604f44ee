"""Whether a downstream MCP server can be reached and used: one probe of one server.

Knows how each transport is tried; must not know when probes are due or what follows from them.

A server that answers 401 or 403 is there, but of no use to the agent: it counts as down. The exception is
one that is to get each caller's own bearer (`forward_inbound_auth`, and no `Authorization` of its own): a
probe has no caller, the refusal is what a healthy server answers, and it counts as up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx

from pallas_common.protocol.reports import DownstreamHealth
from pallas_worker.downstreams.closed import probe_client
from pallas_worker.health.handshakes import (
    AnswerError,
    Era,
    agreed_version,
    first_request,
    other,
    read_result,
)
from pallas_worker.health.http_errors import HTTP_FAILURES, describe
from pallas_worker.raised import said
from pallas_worker.redact import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import TracebackType

    from pallas_worker.downstreams.facts import Downstream

PROBE_TIMEOUT = 3.0
"""Seconds that one probe may take (interface specification, "Implementation Guidance")."""
FAREWELL_TIMEOUT = 1.0
"""Seconds that ending a session may take on top of that; its outcome changes nothing."""
MAX_REDIRECTS = 3


class _DownError(Exception):
    """The verdict that the server is down. The message is the reason: one short line without secrets."""


class Prober:
    """Probes servers, and remembers of each by which handshake it answered. An async context manager."""

    def __init__(self, timeout: float = PROBE_TIMEOUT) -> None:
        self._timeout = timeout
        self._answered: dict[str, Era] = {}
        self._guess: dict[str, Era] = {}
        self._clients: dict[bool, httpx.AsyncClient] = {}
        """Those for servers whose URLs may lead anywhere (False), and those that may not: no connection is of both."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            await client.aclose()

    def _http(self, *, closed: bool) -> httpx.AsyncClient:
        """The client, made for the first probe that needs one: many agents have no server at all."""
        if closed not in self._clients:
            self._clients[closed] = probe_client(closed=closed)
            # No server sees another one's.
            self._clients[closed].cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
        return self._clients[closed]

    async def probe(self, server: Downstream) -> DownstreamHealth:
        """Probe one server. Whatever the server does becomes part of the result."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        error = await self._error(server)
        return DownstreamHealth(name=server.name, up=error is None, latency=clock() - begun, error=error)

    async def _error(self, server: Downstream) -> str | None:
        """Why the server is down, or None."""
        try:
            if server.transport == "stdio":
                _find_command(server)
                return None
            async with asyncio.timeout(self._timeout):
                if server.transport == "sse":
                    await self._open_stream(server)
                else:
                    await self._shake_hands(server)
        except TimeoutError:
            # Some servers never answer a method that they do not know: begin with the other one next time.
            self._guess[server.name] = other(self._guess.get(server.name, "modern"))
            return f"no answer within {self._timeout:g} s"
        except _DownError as verdict:
            return str(verdict)
        except HTTP_FAILURES as failure:
            return describe(failure)
        except Exception as error:  # noqa: BLE001 - of a client that cannot be made: calls will not be better off
            return one_line(said(error), 300)
        return None

    async def _shake_hands(self, server: Downstream) -> None:
        """Try the handshake that the server answered last, at first the modern one, and then the other."""
        first = self._answered.get(server.name) or self._guess.get(server.name, "modern")
        try:
            await self._handshake(server, first)
        except AnswerError:
            try:
                await self._handshake(server, other(first))
            except AnswerError as error:
                raise _DownError(str(error)) from None

    async def _handshake(self, server: Downstream, era: Era) -> None:
        headers, body = first_request(era)
        async with self._send(server, "POST", headers, body) as response:
            if _waits_for_caller(server, response):
                return
            version = agreed_version(era, await read_result(response))
            session = response.headers.get("mcp-session-id")
        self._answered[server.name] = era
        if era == "legacy" and session:
            await self._end_session(server, {"mcp-session-id": session, "mcp-protocol-version": version})

    async def _end_session(self, server: Downstream, headers: Mapping[str, str]) -> None:
        with contextlib.suppress(httpx.HTTPError, TimeoutError, _DownError):
            async with asyncio.timeout(FAREWELL_TIMEOUT), self._send(server, "DELETE", headers):
                pass

    async def _open_stream(self, server: Downstream) -> None:
        async with self._send(server, "GET", {"accept": "text/event-stream"}) as response:
            if _waits_for_caller(server, response):
                return
            if response.status_code != 200:
                raise _DownError(f"HTTP {response.status_code}")
            if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                raise _DownError("does not answer with an event stream")

    @contextlib.asynccontextmanager
    async def _send(
        self, server: Downstream, method: str, headers: Mapping[str, str], body: object = None
    ) -> AsyncIterator[httpx.Response]:
        """The head of the answer to one request; a redirect is followed within the server's own origin."""
        merged = httpx.Headers(dict(server.headers))
        merged.update(headers)
        client = self._http(closed=server.closed)
        request = client.build_request(method, server.url or "", headers=merged, json=body)
        if not request.url.host or (request.url.port or 0) > 65535:
            raise _DownError("the URL is not valid")
        for _ in range(MAX_REDIRECTS):
            response = await client.send(request, stream=True)
            if (following := response.next_request) is None:
                break
            await response.aclose()
            if following.method != method or not _same_origin(request.url, following.url):
                raise _DownError("redirects to another origin or method; not followed")
            request = following
        else:
            raise _DownError("redirects without end")
        try:
            yield response
        finally:
            await response.aclose()


def _waits_for_caller(server: Downstream, response: httpx.Response) -> bool:
    """Whether the server refuses only because a probe has no caller; raises for any other refusal."""
    if response.status_code not in {401, 403}:
        return False
    has_own = any(name.lower() == "authorization" for name in server.headers)
    if server.forward_inbound_auth and not has_own:
        return True
    reason = "refuses the configured Authorization" if has_own else "wants credentials, none are configured"
    raise _DownError(f"HTTP {response.status_code}: {reason}")


def _same_origin(sent: httpx.URL, location: httpx.URL) -> bool:
    """Whether a redirect stays with the server: the same origin, or https in place of http."""
    if (sent.scheme, sent.host, sent.port) == (location.scheme, location.host, location.port):
        return True
    upgrade = (sent.scheme, location.scheme) == ("http", "https")
    return upgrade and sent.host == location.host and sent.port is None and location.port is None


def _find_command(server: Downstream) -> None:
    """Find a stdio server's command as the operating system will; raises when it is not there."""
    directory = Path(server.cwd or ".").absolute()
    command = server.command or ""
    if os.sep in command:
        found = shutil.which(directory / command)
    else:
        search = server.env.get("PATH", os.environ.get("PATH", os.defpath)).split(os.pathsep)
        found = shutil.which(command, path=os.pathsep.join(str(directory / part) for part in search))
    if found is None:
        raise _DownError(f"command {command!r} is not found")
