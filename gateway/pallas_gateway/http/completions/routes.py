"""The routes below `/v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_gateway.http.completions.endpoint import Completions
from pallas_gateway.http.completions.models import Models
from pallas_gateway.http.openapi.operations.completions import COMPLETIONS
from pallas_gateway.http.openapi.routes import routes_of

if TYPE_CHECKING:
    from starlette.routing import Route

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.worker import WorkerChats
    from pallas_gateway.directory.directory import Directory


def completion_routes(directory: Directory, chats: WorkerChats, audit: Audit) -> list[Route]:
    """With their whole paths."""
    models = Models(directory)
    return routes_of(
        COMPLETIONS,
        {
            "createChatCompletion": Completions(directory, chats, audit),
            "listModels": models.list,
            "getModel": models.get,
        },
    )
