"""What a table of routes says where it has none for a request: which methods a path has, and what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Match

from pallas_common.protocol.agent.openai_paths import no_such_path
from pallas_gateway.http.errors import HEADERS, OPENAI, error

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.routing import Router
    from starlette.types import Scope

MCP_METHODS = ("GET", "POST", "DELETE")


def methods(scope: Scope, table: Router | None) -> Response:
    """Answer OPTIONS, which needs no token. Nothing is said of origins: no page elsewhere is let in by it.

    Args:
        table: None for a path of MCP.
    """
    allowed = set(MCP_METHODS) if table is None else _allowed(scope, table)
    if not allowed:
        return error(scope["path"], 404, "not_found", _nothing_at(scope))
    allow = ", ".join(sorted({*allowed, "OPTIONS"}))
    return Response(status_code=204, headers={**HEADERS, "allow": allow})


def unrouted(raised: HTTPException, scope: Scope, table: Router) -> Response:
    """Answer what the table of routes, or of methods, does not have."""
    path, status = scope["path"], raised.status_code
    match status:
        case 404:
            return error(path, 404, "not_found", _nothing_at(scope))
        case 405:
            allow = ", ".join(sorted(_allowed(scope, table) or MCP_METHODS))
            message = f"{scope['method'][:20]} is not for this path, which takes {allow}"
            return error(path, 405, "method_not_allowed", message, headers={"allow": allow})
    return error(path, status, "invalid", raised.detail, headers=raised.headers)


def _allowed(scope: Scope, table: Router) -> set[str]:
    # The router's own says the methods of the first route alone.
    routes = [each for each in table.routes if each.matches(scope)[0] is Match.PARTIAL]
    return {method for each in routes for method in getattr(each, "methods", ())}


def _nothing_at(scope: Scope) -> str:
    path = scope["path"]
    if path.startswith(OPENAI):
        return no_such_path(scope["method"], path, "there are POST /v1/chat/completions and GET /v1/models")
    return f"there is nothing at {path[:200]}"
