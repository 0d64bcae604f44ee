"""Chat completions of agents' workers over HTTP: on connections that are kept, on a port or a unix socket.

Knows where workers are and what a request of HTTP is; nothing of turns.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from pallas_common.protocol.keys import KEY_HEADER
from pallas_control.errors import ControlError
from pallas_gateway.conversations.errors import TurnFailedError
from pallas_gateway.relay.http.endpoint import parse_endpoint
from pallas_gateway.relay.http.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_common.protocol.gateway import AgentUpstream
    from pallas_gateway.directory.control import ControlClient
    from pallas_gateway.relay.http.connection import Response

PATH = "/v1/chat/completions"
ACCEPT_HEADER = "Pallas-Accept"
"""What the reader of an answer can do beyond OpenAI's protocol: `retry`, take text back; `detail`, see a provider's own
words."""
MOST_CONNECTIONS = 1024
"""To one worker: turns of it at a time. It has limits of its own, and says so."""
READY_TIMEOUT = 90.0
"""Seconds that an agent may take to start whose key is needed."""
IDLE = 60.0
"""Seconds without use after which a way is dropped."""
SWEEP_INTERVAL = 15.0


class Ways(Protocol):
    """Where workers are: the directory."""

    client: ControlClient

    @property
    def away(self) -> str | None:
        """Why it may be old."""

    async def upstream(self, agent: str) -> AgentUpstream | None:
        """The way to an agent."""

    async def refresh(self) -> Any:
        """Ask for all of them anew."""


@dataclass(slots=True)
class _Way:
    pool: Pool
    head: bytes
    used: float


class WorkerChats:
    """The ways to all workers.

    Args:
        trace: the headers that tell a worker of the trace of now.
    """

    def __init__(self, trace: Callable[[], Mapping[str, str]] = dict) -> None:
        self._trace = trace
        self._ways: dict[tuple[str, int | None, str | None], _Way] = {}

    @property
    def connections(self) -> int:
        """How many are open now."""
        return sum(way.pool.connections for way in self._ways.values())

    async def post(
        self, upstream: AgentUpstream, body: bytes, headers: Mapping[str, str], *, with_key: bool
    ) -> Response:
        """Send a request; the answer whole, or the head of an event stream, that takes as long as it does.

        Args:
            body: of JSON.
            headers: besides the usual ones; none may have been a client's without a check.
            with_key: whether the call may override what the agent's definition says.

        Raises:
            RelayError: there is none.
        """
        way = self._way(upstream)
        lines = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "accept": "application/json, text/event-stream",
            **headers,
            **self._trace(),
        }
        key = upstream.key if with_key and upstream.key is not None else upstream.siblings_key
        if key is not None:
            lines[KEY_HEADER] = key
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode("latin-1")
        return await way.pool.exchange(way.head + head + b"\r\n" + body, safe=False, timeout=None)

    async def run(self) -> None:
        """Drop what is not used, until this is cancelled; then all."""
        try:
            while True:
                await asyncio.sleep(SWEEP_INTERVAL)
                before = time.monotonic() - IDLE
                for key, way in list(self._ways.items()):
                    if way.used < before and not way.pool.is_busy:
                        del self._ways[key]
                        way.pool.close()
        finally:
            ways, self._ways = self._ways, {}
            for way in ways.values():
                way.pool.close()

    def _way(self, upstream: AgentUpstream) -> _Way:
        key = upstream.host, upstream.port, upstream.socket
        way = self._ways.get(key)
        if way is None:
            endpoint = parse_endpoint(f"{upstream.origin}{PATH}", {}, socket=upstream.socket)
            way = self._ways[key] = _Way(
                Pool(endpoint, most=MOST_CONNECTIONS), endpoint.head("POST"), time.monotonic()
            )
        way.used = time.monotonic()
        return way


def dumped(body: Mapping[str, object]) -> bytes:
    """A request's body. In ASCII: half of a surrogate pair, which no UTF-8 has, is the worker's to refuse."""
    return json.dumps(body, separators=(",", ":")).encode()


async def way_to(directory: Ways, agent: str, *, with_key: bool, anew: bool = False) -> AgentUpstream:
    """The way to an agent; with the key, for which there has to be a worker: it is started where there is none.

    Args:
        anew: what is known of the key counts no more.

    Raises:
        TurnFailedError: there is none.
    """
    if anew:
        await directory.refresh()
    upstream = await directory.upstream(agent)
    if upstream is not None and with_key and upstream.key is None:
        try:
            await directory.client.post(
                "/v1/start", {"agents": [agent], "timeout": READY_TIMEOUT}, timeout=READY_TIMEOUT + 10.0
            )
        except ControlError as error:
            raise TurnFailedError(
                f"the agent {quote(agent, safe='')} cannot be started: {error}",
                status=503,
                type="agent_failed",
            ) from None
        await directory.refresh()
        upstream = await directory.upstream(agent)
    if upstream is None:
        why = directory.away or "the supervisor does not tell where the agent is called"
        raise TurnFailedError(why, status=503, type="agent_unreachable")
    return upstream
