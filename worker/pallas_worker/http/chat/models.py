"""`/v1/models`: the agent as the one model of its port, and what is said of paths that are not there.

Knows OpenAI's model objects; nothing of the model behind the agent, which is its own affair.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pallas_common.protocol.agent.openai_paths import no_such_path
from pallas_worker.http.chat.endpoint import PATH as CHAT_PATH
from pallas_worker.interface.chat.errors import ApiError, method_not_allowed, no_such_model

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

PATH = "/v1/models"
_THERE_IS = "an agent has POST /v1/chat/completions, GET /v1/models and MCP at /mcp"


class Models:
    """The list of models of one agent's port."""

    def __init__(self, agent: str, title: str, deployment: str) -> None:
        self._agent = agent
        self._model = {
            "id": agent,
            "object": "model",
            "created": int(time.time()),
            "owned_by": deployment,
            "name": title,
        }

    def routes(self, chat: ASGIApp) -> list[Route]:
        """The paths below `/v1`, and the answer for those that there are not.

        Args:
            chat: answers chat completions.
        """
        return [
            Route("/v1/{path:path}", _methods, methods=["OPTIONS"]),
            Route(CHAT_PATH, chat),
            Route(PATH, self._list, methods=["GET"]),
            Route(f"{PATH}/{{name}}", self._one, methods=["GET"]),
            Route("/v1/{path:path}", _no_such_path, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

    async def _list(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model]})

    async def _one(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name == self._agent:
            return JSONResponse(self._model)
        error = no_such_model(name, self._agent)
        return JSONResponse(error.document(), error.status)


async def _methods(request: Request) -> Response:
    """Say which methods a path has. Pages of other sites are not let in by that: nothing is said of origins."""
    path = request.url.path
    if path == CHAT_PATH:
        return Response(status_code=204, headers={"Allow": "OPTIONS, POST"})
    if path == PATH or path.startswith(f"{PATH}/"):
        return Response(status_code=204, headers={"Allow": "GET, HEAD, OPTIONS"})
    return await _no_such_path(request)


async def _no_such_path(request: Request) -> Response:
    path = request.url.path
    if (path == PATH or path.startswith(f"{PATH}/")) and request.method not in ("GET", "HEAD"):
        error = method_not_allowed(request.method, "GET")
        return JSONResponse(error.document(), error.status, dict(error.headers))
    message = no_such_path(request.method, path, _THERE_IS)
    error = ApiError(404, message, code="not_found")
    return JSONResponse(error.document(), error.status)
