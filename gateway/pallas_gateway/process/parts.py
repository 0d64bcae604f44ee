"""The parts of the gateway, made and connected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Coroutine

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pallas_common.protocol.gateway import GatewaySpec
    from pallas_common.secrets.values import KnownSecrets


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """What the process moves."""

    app: ASGIApp
    drain: Callable[[], None]
    """Ends what would not end by itself."""
    background: dict[str, Coroutine[None, None, None]] = field(default_factory=dict)
    """What works beside requests, by name, until it is cancelled."""


async def open_parts(
    spec: GatewaySpec, known: KnownSecrets, stack: contextlib.AsyncExitStack
) -> GatewayParts:
    """Make the parts; `stack` closes them.

    Raises:
        GatewayError: the store cannot be used.
    """

    async def health(scope: Scope, receive: Receive, send: Send) -> None:
        # The other parts are connected here as they come.
        is_health = scope["type"] == "http" and scope["path"] == "/health"
        body: dict[str, str] = {"status": "ok"} if is_health else {}
        await JSONResponse(body, 200 if is_health else 404)(scope, receive, send)

    return GatewayParts(app=health, drain=lambda: None)
