"""`GET /api/v1/openapi.json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import Response

from pallas_gateway.http.openapi.document import openapi_document
from pallas_gateway.http.openapi.operations.table import DOCUMENT, OPERATIONS
from pallas_gateway.http.openapi.routes import routes_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import Route


def document_routes() -> list[Route]:
    """The route; the document is made when it is first asked for."""
    made: list[bytes] = []

    async def read(_request: Request) -> Response:
        if not made:
            made.append(json.dumps(openapi_document(OPERATIONS), ensure_ascii=False).encode())
        return Response(made[0], media_type="application/json")

    return routes_of(DOCUMENT, {"getOpenApi": read})
