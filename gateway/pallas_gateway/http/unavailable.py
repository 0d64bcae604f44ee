"""What the port answers while the store is not there yet: to come again, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response

from pallas_common.http.hosts import OPEN_PATH
from pallas_gateway.http.errors import HEADERS, error

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

RETRY_AFTER = 5
"""Seconds."""

MESSAGE = (
    "the gateway's store is not available: it is tried again by itself; `pallasctl gateway status` says more"
)


class Unavailable:
    """The application in place of the gateway's own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        await _answer(scope["path"])(scope, receive, send)


def _answer(path: str) -> Response:
    if path == OPEN_PATH:
        return PlainTextResponse("ok\n")
    headers = {"retry-after": str(RETRY_AFTER)}
    if path == "/health":
        body = json.dumps({"status": "error"}).encode()
        return Response(body, 503, {**HEADERS, **headers}, media_type="application/json")
    return error(path, 503, "unavailable", MESSAGE, headers=headers)
