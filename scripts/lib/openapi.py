"""The OpenAPI document of the gateway as a file, for readers and generators of clients that have no gateway at hand."""

from __future__ import annotations

import json

from pallas_gateway.http.openapi.document import openapi_document
from pallas_gateway.http.openapi.operations.table import OPERATIONS


def page() -> str:
    """`docs/openapi.json`."""
    return json.dumps(openapi_document(OPERATIONS), indent=1, ensure_ascii=False) + "\n"
