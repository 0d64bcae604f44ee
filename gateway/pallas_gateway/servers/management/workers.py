"""Agents' workers as they are asked: chat completions on a port or a unix socket, as long as these take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from pallas_gateway.servers.management.arguments import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_common.protocol.gateway import AgentUpstream

type Json = dict[str, Any]

PATH = "/v1/chat/completions"
CONNECT_TIMEOUT = 10.0
MOST_BYTES = 64 * 1024 * 1024
"""Of an answer."""


class Workers:
    """Asks agents' workers, on ports and unix sockets.

    Args:
        trace: the headers that tell a worker of the trace of now.
    """

    def __init__(self, trace: Callable[[], Mapping[str, str]] = dict) -> None:
        self._trace = trace
        self.connections = 0
        """How many are open now."""

    async def complete(
        self, upstream: AgentUpstream, body: Json, headers: Mapping[str, str]
    ) -> tuple[int, Json]:
        """Status and JSON of a chat completion. Whoever is cancelled here ends the turn.

        Raises:
            ToolError: the agent cannot be reached, or answers nothing that could be one.
        """
        transport = httpx.AsyncHTTPTransport(uds=upstream.socket, verify=False)
        timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT)
        # In ASCII: half of a surrogate pair, which no UTF-8 has, is the worker's to refuse.
        content = json.dumps(body).encode()
        sent = {**headers, **self._trace(), "Content-Type": "application/json"}
        self.connections += 1
        try:
            async with (
                httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client,
                client.stream("POST", upstream.origin + PATH, content=content, headers=sent) as response,
            ):
                data = bytearray()
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > MOST_BYTES:
                        raise ToolError("too_large", f"the agent's answer has more than {MOST_BYTES} bytes")
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise ToolError("agent_unreachable", f"the agent cannot be reached: {reason}") from None
        finally:
            self.connections -= 1
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ToolError(
                "agent_failed", f"the agent answered no JSON object (HTTP status {response.status_code})"
            )
        return response.status_code, found
