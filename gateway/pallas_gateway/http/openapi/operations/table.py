"""All operations, in the order of the document. Pure."""

from __future__ import annotations

from pallas_gateway.http.openapi.operations.administration import AUDIT, TOKENS
from pallas_gateway.http.openapi.operations.agents import AGENTS
from pallas_gateway.http.openapi.operations.completions import COMPLETIONS
from pallas_gateway.http.openapi.operations.conversations import CONVERSATIONS
from pallas_gateway.http.openapi.operations.operation import JSON, Answer, Operation
from pallas_gateway.http.openapi.operations.resources import RESOURCES

DOCUMENT = (
    Operation(
        id="getOpenApi",
        method="GET",
        path="/api/v1/openapi.json",
        tag="document",
        summary="This document",
        grant="any token",
        answers=(Answer(200, "OpenAPI 3.1", {JSON: {"type": "object"}}),),
    ),
)

OPERATIONS: tuple[Operation, ...] = (
    *AGENTS,
    *CONVERSATIONS,
    *COMPLETIONS,
    *RESOURCES,
    *TOKENS,
    *AUDIT,
    *DOCUMENT,
)
