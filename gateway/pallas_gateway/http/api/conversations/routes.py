"""The routes of conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_gateway.http.api.conversations.chat import Chat, Follow
from pallas_gateway.http.api.conversations.threads import ThreadHandlers
from pallas_gateway.http.api.conversations.transfer import TransferHandlers
from pallas_gateway.http.openapi.operations.conversations import CONVERSATIONS
from pallas_gateway.http.openapi.routes import routes_of

if TYPE_CHECKING:
    from starlette.routing import Route

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.api.conversations.asking import Asking
    from pallas_gateway.http.api.conversations.changes import ThreadChanges
    from pallas_gateway.http.api.conversations.stream import Followers


def conversation_routes(
    conversations: Conversations,
    asking: Asking,
    changes: ThreadChanges,
    turns: Turns,
    audit: Audit,
    followers: Followers,
) -> list[Route]:
    """With their whole paths."""
    threads = ThreadHandlers(conversations, changes, audit)
    transfer = TransferHandlers(conversations, audit)
    return routes_of(
        CONVERSATIONS,
        {
            "chat": Chat(asking),
            "createThread": threads.create,
            "listAgentThreads": threads.list_of_agent,
            "importThread": transfer.import_,
            "listThreads": threads.list,
            "getThread": threads.get,
            "renameThread": threads.rename,
            "deleteThread": threads.delete,
            "listMessages": threads.messages,
            "followTurn": Follow(conversations, turns, followers),
            "stopTurn": threads.stop,
            "exportThread": transfer.export,
        },
    )
