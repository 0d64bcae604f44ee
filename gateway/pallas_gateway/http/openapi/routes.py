"""Routes from the table, each held to it: a query that it does not have, or that has something twice, is refused.

Of what is there twice one would be passed over in silence, and which of the two differs from one library to the next.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from starlette.datastructures import QueryParams
from starlette.routing import Route, request_response

from pallas_common.problems import did_you_mean, quoted
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.openapi.operations.operation import EVENTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pallas_gateway.http.openapi.operations.operation import Operation

    type Handler = Callable[[Request], Awaitable[Response]] | ASGIApp


def routes_of(operations: Iterable[Operation], handlers: Mapping[str, Handler]) -> list[Route]:
    """The routes of operations, with their whole paths, in the operations' order.

    Args:
        handlers: of each of them, by its id.
    """
    found = {each.id: each for each in operations}
    assert found.keys() == handlers.keys(), found.keys() ^ handlers.keys()
    return [_route(each, handlers[each.id]) for each in found.values()]


def _route(operation: Operation, handler: Handler) -> Route:
    route = Route(operation.path, _Held(operation, handler), methods=[operation.method], name=operation.id)
    if route.methods is not None and any(EVENTS in each.content for each in operation.answers):
        route.methods.discard("HEAD")  # it would wait for the end of a stream, and say nothing
    return route


class _Held:
    """One operation, as an ASGI application."""

    def __init__(self, operation: Operation, handler: Handler) -> None:
        self._names = tuple(each.name for each in operation.query)
        is_function = inspect.isfunction(handler) or inspect.ismethod(handler)
        self._app = request_response(cast("Any", handler)) if is_function else cast("ASGIApp", handler)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"]:
            self._check(QueryParams(scope["query_string"]))
        await self._app(scope, receive, send)

    def _check(self, query: QueryParams) -> None:
        names = [name for name, _ in query.multi_items()]
        for index, name in enumerate(names):
            if name not in self._names:
                near = did_you_mean(name, self._names)
                known = f"there are {', '.join(self._names)}" if self._names else "there are none here"
                remedy = f"did you mean `{near}`?" if near else known
                message = f"unknown parameter {quoted(name)}; {remedy}"
                raise ApiError(400, "invalid", message, field=name[:100])
            if name in names[:index]:
                raise ApiError(400, "invalid", f"{name}: is there twice; say it once", field=name)
