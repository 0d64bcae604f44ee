"""Who may not use the control socket, and what only the gateway's process or the operator is told.

Refused is whatever comes from a worker or from the gateway, but for the gateway itself: an agent's model may be talked
into running a command, and the control socket can do all that the operator can. Knows HTTP and how a peer stands, not
how that is found out.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from pallas_common.http.hosts import plain_scope
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.gateway import OPERATOR_FILE
from pallas_common.secrets.private_files import read_line
from pallas_common.secrets.tokens import is_token
from pallas_supervisor.http.control.requests import BadRequestError, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pallas_supervisor.agents.upstreams.directory import UpstreamDirectory

QUIET = 10.0
"""Seconds from one line in the log about a refused process to the next."""

REFUSAL = (
    "the control socket is not for processes that agents or the gateway have started; an agent manages others through "
    "the gateway, with its own token"
)
FOR_THE_GATEWAY = "this is for the gateway's process alone: it holds keys and secrets"

_PRIVATE = {"cache-control": "no-store"}

_log = get_logger("pallas.supervisor.control")


class Guard:
    """Refuses requests from inside, and passes on all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._said = -QUIET

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        state = scope.get("state", {})
        if scope["type"] == "http" and state.get("standing") == "inside":
            self._note(f"{scope['method']} {scope['path'][:100]!r}", state.get("peer"))
            await JSONResponse({"error": REFUSAL}, 403)(scope, receive, send)
            return
        await self._app(plain_scope(scope) if scope["type"] == "http" else scope, receive, send)

    def _note(self, what: str, peer: object) -> None:
        if time.monotonic() - self._said >= QUIET:
            self._said = time.monotonic()
            _log.warning(
                f"refused {what} at the control socket to a process that comes from an agent: {peer}"
            )


class GatewayRoutes:
    """`GET /v1/upstreams`, `POST /v1/siblings-key` and `POST /v1/operator-token`.

    Args:
        siblings_key: by which agents' ports admit calls.
        state_directory: where the gateway has put the operator's token; None: the user has no home.
    """

    def __init__(
        self, directory: UpstreamDirectory, siblings_key: str, state_directory: Callable[[], Path | None]
    ) -> None:
        self._directory = directory
        self._siblings_key = siblings_key
        self._state_directory = state_directory

    async def upstreams(self, request: Request) -> Response:
        """What the gateway calls: everything, or the agents and projects that the query names."""
        if not is_gateway(request):
            return _refused(FOR_THE_GATEWAY)
        query = request.query_params
        if unknown := sorted(set(query) - {"agent", "project"}):
            raise BadRequestError(f"unknown parameter {shown(unknown[0])}; there are agent and project")
        agents, projects = query.getlist("agent"), query.getlist("project")
        if not agents and not projects:
            found = await self._directory.upstreams()
        else:
            found = await self._directory.upstreams(frozenset(agents), frozenset(projects))
        return JSONResponse(found.to_json(), headers=_PRIVATE)

    async def siblings_key(self, _request: Request) -> Response:
        """The key of agents' ports, for whoever may steer all agents."""
        return JSONResponse({"key": self._siblings_key}, headers=_PRIVATE)

    async def operator_token(self, request: Request) -> Response:
        """The first human token, for whoever may read its file or is asked for by one who may."""
        if not _is_operator(request):
            return _refused("the operator's token is for root and for the user of the supervisor")
        state = self._state_directory()
        token = None if state is None else await asyncio.to_thread(_read_token, state / OPERATOR_FILE)
        if token is None:
            message = "there is no operator's token: the gateway makes it at its first start; is there `gateway:` in "
            return JSONResponse({"error": f"{message}agents.yaml, and does it run?"}, 404)
        return JSONResponse({"token": token}, headers=_PRIVATE)


def _read_token(path: Path) -> str | None:
    """The token in the file; None without one."""
    text = read_line(path)
    return text if text is not None and is_token(text) else None


def _refused(message: str) -> Response:
    return JSONResponse({"error": message}, 403)


def is_gateway(request: Request) -> bool:
    """Whether the gateway's own process asks."""
    return getattr(request.state, "standing", None) == "gateway"


def _is_operator(request: Request) -> bool:
    """Whether root asks, or the supervisor's user; nobody who comes from an agent gets so far."""
    peer = getattr(request.state, "peer", None)
    return peer is not None and peer.uid in (0, os.getuid()) and not is_gateway(request)
