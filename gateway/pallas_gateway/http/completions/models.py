"""`GET /v1/models`: each agent that the caller may run is a model, as OpenAI's API lists them."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from pallas_gateway.access.predicate import may, may_some
from pallas_gateway.http.completions.request import no_such_model
from pallas_gateway.http.requests import admitted_of
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.surface import InsufficientScopeError

if TYPE_CHECKING:
    from starlette.requests import Request

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.records import AgentRecord

type Json = dict[str, Any]

OWNER = "pallas"


class Models:
    """The list, and each of its entries."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def list(self, request: Request) -> Response:
        """All that the principal may run."""
        principal = admitted_of(request).principal
        if not may_some(principal, "run", "agents"):
            raise InsufficientScopeError(Permission("run", "agents"))
        found = [
            _model(each)
            for each in self._directory.agents.values()
            if may(principal, Permission("run", "agents", each.name))
        ]
        return _answer({"object": "list", "data": found})

    async def get(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["model"]
        record = self._directory.agents.get(name)
        permission = Permission("run", "agents", name)
        if record is None or not may(admitted_of(request).principal, permission):
            raise no_such_model(name)
        return _answer(_model(record))


def _model(record: AgentRecord) -> Json:
    """An agent as a model. `created` is 0 for one of agents.yaml, of which it is not known."""
    found: Json = {
        "id": record.name,
        "object": "model",
        "created": _seconds(record.created_at),
        "owned_by": OWNER,
    }
    if record.title:
        found["name"] = record.title
    if record.description and record.description != record.title:
        found["description"] = record.description
    return found


def _seconds(moment: str | None) -> int:
    try:
        return int(dt.datetime.fromisoformat(moment or "").timestamp())
    except ValueError:
        return 0


def _answer(document: Json) -> Response:
    return Response(json.dumps(document).encode(), media_type="application/json")
