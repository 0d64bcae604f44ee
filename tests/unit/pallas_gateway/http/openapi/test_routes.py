"""Routes from the table: nothing of a query is passed over in silence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.openapi.operations.operation import JSON, Answer, Operation, Parameter
from pallas_gateway.http.openapi.routes import routes_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send


def operation(id: str, path: str) -> Operation:  # noqa: A002 - its name there
    return Operation(
        id=id,
        method="GET",
        path=path,
        tag="agents",
        summary="",
        grant="",
        query=(Parameter("limit", "", {}), Parameter("cursor", "", {})),
        answers=(Answer(200, "", {JSON: {}}),),
    )


async def handled(request: Request) -> Response:
    return JSONResponse(dict(request.query_params))


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse("raw")(scope, receive, send)


def ask(path: str) -> Any:
    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return JSONResponse([error.field, str(error)], error.status)

    class Raw:
        __call__ = staticmethod(application)

    routes = routes_of([operation("one", "/one"), operation("raw", "/raw")], {"one": handled, "raw": Raw()})
    app = Starlette(routes=routes, exception_handlers={ApiError: refuse})

    async def run() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            answer = await client.get(path)
            return answer.status_code, answer.json()

    return asyncio.run(run())


def test_what_the_table_has_comes_through() -> None:
    assert ask("/one?limit=1&cursor=") == (200, {"limit": "1", "cursor": ""})
    assert ask("/raw?limit=1") == (200, "raw")


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("limit=1&limit=2", "limit", "is there twice"),
        ("limit=1&cursor=a&limit=1", "limit", "is there twice"),
        ("limits=1", "limits", "did you mean `limit`"),
        ("x=1", "x", "there are limit, cursor"),
    ],
)
@pytest.mark.parametrize("path", ["/one", "/raw"])
def test_what_it_has_not_or_not_twice_is_refused(path: str, query: str, field: str, said: str) -> None:
    status, (named, message) = ask(f"{path}?{query}")
    assert (status, named) == (400, field)
    assert said in message


def test_an_operation_without_a_handler_is_not_forgotten() -> None:
    with pytest.raises(AssertionError):
        routes_of([operation("one", "/one")], {})
