"""All servers that are in use: one connection for equal definitions, opened when first needed, dropped when idle."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.keys import KEY_HEADER
from pallas_common.secrets.values import KnownSecrets
from pallas_gateway.relay.http.endpoint import parse_endpoint
from pallas_gateway.relay.http.errors import NoConnectionError
from pallas_gateway.relay.http_link import HttpLink
from pallas_gateway.relay.own_secrets import own_secrets
from pallas_gateway.relay.sse_link import SseLink
from pallas_gateway.relay.stdio_link import StdioLink
from pallas_gateway.relay.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pallas_common.protocol.gateway import AgentUpstream, ServerUpstream
    from pallas_gateway.relay.messages.model import Answer, Call, Heard, Json, Link, Opened

IDLE = 600.0
"""Seconds without use after which a connection is dropped."""
SWEEP_INTERVAL = 30.0


@dataclass(slots=True)
class _Worker:
    """The way to one agent's worker."""

    link: HttpLink
    used: float = 0.0


class Upstreams:
    """The servers and workers that calls go to.

    Args:
        changed: told of each change of a server, as `upstream.Changed` says.
        known: learns the servers' credentials, so that no log has them: children write to it.
        needed: whether somebody wants to hear of such changes, so that it is not dropped.
    """

    def __init__(
        self,
        changed: Callable[[Upstream, str], None],
        known: KnownSecrets | None = None,
        needed: Callable[[Upstream], bool] = lambda _: False,
    ) -> None:
        self._changed = changed
        self._needed = needed
        self._known = known or KnownSecrets()
        self._servers: dict[str, Upstream] = {}
        self._retiring: dict[asyncio.Task[None], Upstream] = {}
        self._workers: dict[tuple[str, int | None, str | None], _Worker] = {}

    def server(self, server: ServerUpstream) -> Upstream:
        """The server of that definition."""
        key = _key(server)
        upstream = self._servers.get(key)
        if upstream is None:
            self._known.add(own_secrets(server.settings))
            link = link_of(server.name, server.settings, closed=server.closed)
            upstream = Upstream(server.name, link, self._changed, server.settings)
            self._servers[key] = upstream
        upstream.start()
        return upstream

    def worker(self, agent: AgentUpstream) -> HttpLink:
        """The way to an agent; nothing is sent before it is called, so that nobody is woken."""
        key = (agent.host, agent.port, agent.socket)
        worker = self._workers.get(key)
        if worker is None:
            shown = {} if agent.siblings_key is None else {KEY_HEADER: agent.siblings_key}
            endpoint = parse_endpoint(f"{agent.origin}/mcp", shown, socket=agent.socket)
            self._workers[key] = worker = _Worker(HttpLink(endpoint, stateless=True))
        worker.used = time.monotonic()
        return worker.link

    @property
    def connections(self) -> int:
        """How many are open now, to all of them."""
        servers = sum(each.connections for each in self._servers.values())
        return servers + sum(each.link.connections for each in self._workers.values())

    async def run(self) -> None:
        """Drop what is not used, until this is cancelled; then all."""
        try:
            while True:
                await asyncio.sleep(SWEEP_INTERVAL)
                await self.sweep(time.monotonic() - IDLE)
        finally:
            await self.close()

    def keep(self, servers: Iterable[ServerUpstream]) -> None:
        """These are declared: all others end, as soon as no call of theirs is under way."""
        declared = {_key(server) for server in servers} if self._servers else set()
        for key in self._servers.keys() - declared:
            upstream = self._servers.pop(key)
            task = asyncio.get_running_loop().create_task(upstream.retire(), name=f"end of {upstream.name}")
            self._retiring[task] = upstream
            task.add_done_callback(self._retiring.pop)

    async def sweep(self, before: float) -> None:
        """Drop what was last used before that moment of the monotonic clock, and is neither needed nor busy."""
        for key, upstream in list(self._servers.items()):
            await upstream.sweep(before)
            wanted = upstream.is_busy or upstream.following or self._needed(upstream)
            if upstream.used < before and not wanted:
                del self._servers[key]
                await upstream.close()
        for place, worker in list(self._workers.items()):
            if worker.used < before and not worker.link.is_busy:
                del self._workers[place]
                await worker.link.close()

    async def close(self) -> None:
        """Drop all."""
        servers, self._servers = list(self._servers.values()), {}
        workers, self._workers = list(self._workers.values()), {}
        servers += self._retiring.values()
        closing = [*(each.close() for each in servers), *(each.link.close() for each in workers)]
        await asyncio.gather(*closing, return_exceptions=True)


def _key(server: ServerUpstream) -> str:
    """The same for equal definitions."""
    return json.dumps([server.name, dict(server.settings), server.closed], sort_keys=True, default=str)


def link_of(name: str, settings: Mapping[str, Any], *, closed: bool = False) -> Link:
    """The link that settings of a server ask for; one that cannot be made says why when it is opened.

    Args:
        closed: its URL may lead nowhere but where `pallas_common.http.reach` says.
    """
    transport = settings.get("transport", "stdio")
    if transport == "stdio":
        return _stdio_link(name, settings)
    if transport not in ("http", "sse"):
        return Impossible(
            str(transport),
            f"the gateway cannot relay to servers of transport `{transport}`: use `http`, `sse` or `stdio`",
        )
    try:
        headers = settings.get("headers") or {}
        sent = {key: str(headers[key]) for key in headers}
        endpoint = parse_endpoint(str(settings.get("url")), sent, closed=closed)
    except ValueError as error:
        return Impossible(str(transport), str(error))
    if transport == "sse":
        return SseLink(name, endpoint, read_timeout=_read_timeout(settings))
    return HttpLink(endpoint, read_timeout=_read_timeout(settings))


def _read_timeout(settings: Mapping[str, Any]) -> float | None:
    timeout = settings.get("read_timeout_seconds")
    return None if timeout is None else float(timeout)


def _stdio_link(name: str, settings: Mapping[str, Any]) -> Link:
    command, arguments = settings.get("command"), settings.get("args") or []
    if not isinstance(command, str) or not command:
        return Impossible("stdio", "it has no `command`")
    environment = settings.get("env") or {}
    return StdioLink(
        name,
        [command, *(str(each) for each in arguments)],
        {str(key): str(environment[key]) for key in environment},
        settings.get("cwd"),
        read_timeout=_read_timeout(settings),
    )


class Impossible:
    """A server that cannot be reached by its settings."""

    shares_connections = False
    keeps_sessions = False

    def __init__(self, transport: str, reason: str) -> None:
        self.transport = transport
        self._reason = reason

    @property
    def connections(self) -> int:
        """None."""
        return 0

    def another(self) -> Impossible:
        """It would do no better."""
        return self

    async def open(self) -> Opened:
        """Say why."""
        raise NoConnectionError(self._reason)

    async def request(self, method: str, params: Json, *, timeout: float) -> Json:
        """Say why."""
        raise NoConnectionError(self._reason)

    async def relay(self, call: Call) -> Answer:
        """Say why."""
        raise NoConnectionError(self._reason)

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        """There is nothing to hear."""

    async def resubscribe(self, before: frozenset[str], after: frozenset[str]) -> bool:
        """There is nothing to hear."""
        return True

    async def close(self) -> None:
        """There is nothing to end."""
