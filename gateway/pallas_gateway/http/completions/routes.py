"""The routes below `/v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from pallas_gateway.http.completions.endpoint import PATH, Completions
from pallas_gateway.http.completions.models import Models

if TYPE_CHECKING:
    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.worker import WorkerChats
    from pallas_gateway.directory.directory import Directory


def completion_routes(directory: Directory, chats: WorkerChats, audit: Audit) -> list[Route]:
    """With their whole paths."""
    return [Route(PATH, Completions(directory, chats, audit), methods=["POST"]), *Models(directory).routes()]
