"""The OpenAPI 3.1 document of the table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_gateway.http.openapi.operations.schemas import PLACES, SCHEMAS, TAGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_gateway.http.openapi.operations.operation import Answer, Operation

type Json = dict[str, Any]

VERSION = "3.1.1"
API_VERSION = "1"
"""Of what is described; it grows when clients have to change."""
_SECURITY = "token"


def openapi_document(operations: Iterable[Operation]) -> Json:
    """The document."""
    paths: dict[str, Json] = {}
    for each in operations:
        item = paths.setdefault(each.path, {})
        if not item and each.places:
            item["parameters"] = [_place(name) for name in each.places]
        item[each.method.lower()] = _operation(each)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Pallas gateway",
            "version": API_VERSION,
            "summary": "Agents, their conversations and what is declared, by one address.",
            "description": "What a token may do is said by its grants: docs/gateway.md, docs/conversations.md. "
            "MCP is at /mcp, and not described here.",
        },
        "servers": [{"url": "/"}],
        "security": [{_SECURITY: []}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": {name: _error(name) for name in ("Error", "OpenAIError")},
            "securitySchemes": {
                _SECURITY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of Pallas (`pallasctl token create`), or of the issuer that `oidc:` names.",
                }
            },
        },
    }


def _place(name: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": PLACES[name],
        "schema": {"type": "string"},
    }


def _operation(operation: Operation) -> Json:
    found: Json = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"Takes {operation.grant}.",
    }
    parameters = [
        {"name": each.name, "in": place, "description": each.description, "schema": each.schema}
        for place, every in (("query", operation.query), ("header", operation.headers))
        for each in every
    ]
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        content = {kind: {"schema": schema} for kind, schema in operation.body.items()}
        found["requestBody"] = {"required": operation.is_body_required, "content": content}
    error = "OpenAIError" if operation.path.startswith("/v1/") else "Error"
    found["responses"] = {str(each.status): _answer(each) for each in operation.answers} | {
        "default": {"$ref": f"#/components/responses/{error}"}
    }
    return found


def _answer(answer: Answer) -> Json:
    found: Json = {"description": answer.description}
    if answer.headers:
        found["headers"] = {
            each.name: {"description": each.description, "schema": {"type": "string"}}
            for each in answer.headers
        }
    if answer.content:
        found["content"] = {kind: {"schema": schema} for kind, schema in answer.content.items()}
    return found


def _error(schema: str) -> Json:
    return {
        "description": "It is refused, or has failed: the status says how, the body what is wrong and what to do. "
        "429 and 503 may have `Retry-After`.",
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }
