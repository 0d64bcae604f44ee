"""Who may call an agent that stands behind a gateway: whoever shows one of the two keys of its port.

Knows a header of HTTP and the shapes of refusals; nothing of calls. What each key allows is said where it is asked for.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, PlainTextResponse

from pallas_common.protocol.keys import KEY_HEADER
from pallas_worker.interface.chat.errors import WRONG_KEY, ApiError

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pallas_common.protocol.spec import WorkerSpec

FOR_EVERYBODY = frozenset(("/", "/livez", "/metrics"))
"""Paths that ask nothing of the agent."""

_HEADER = KEY_HEADER.lower().encode()
_CHAT = "/v1/"


class KeyGuard:
    """Passes on the requests of those that show a key, and what is for everybody."""

    def __init__(self, app: ASGIApp, spec: WorkerSpec) -> None:
        self._app = app
        self._keys = tuple(key.encode() for key in (spec.key, spec.siblings_key) if key is not None)
        origin = spec.gateway_urls[0] if spec.gateway_urls else "the gateway"
        self._way = {
            True: f"{origin}/v1, with the model {spec.agent}",
            False: f"{origin}/mcp/agents/{spec.agent}",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "http" and scope["path"] not in FOR_EVERYBODY:
            shown = [value for name, value in scope["headers"] if name == _HEADER]
            if len(shown) != 1 or not any(hmac.compare_digest(shown[0], key) for key in self._keys):
                response = self._refusal(scope["path"], shown=bool(shown))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, path: str, *, shown: bool) -> Response:
        is_chat = path.startswith(_CHAT)
        error = WRONG_KEY if shown else _no_key(self._way[is_chat])
        if is_chat:
            return JSONResponse(error.document(), error.status, dict(error.headers))
        return PlainTextResponse(f"{error.message}\n", error.status, dict(error.headers))


def _no_key(way: str) -> ApiError:
    return ApiError(
        401,
        f"this port is for the gateway and for agents of this deployment: ask {way} instead "
        "(`pallasctl connect` says how), or open it with `gateway: {workers: open}` in agents.yaml",
        "authentication_error",
        code="no_key",
        headers={"WWW-Authenticate": KEY_HEADER},
    )
