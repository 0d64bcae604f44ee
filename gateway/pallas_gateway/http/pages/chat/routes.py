"""The routes below `/chat` that need a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from pallas_gateway.http.api.conversations.transfer import TransferHandlers
from pallas_gateway.http.pages.chat.actions import Actions
from pallas_gateway.http.pages.chat.live import Live
from pallas_gateway.http.pages.chat.pages import Pages
from pallas_gateway.http.pages.chat.reading import Reading
from pallas_gateway.http.pages.files import build

if TYPE_CHECKING:
    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.api.conversations.asking import Asking
    from pallas_gateway.http.api.conversations.changes import ThreadChanges
    from pallas_gateway.http.api.conversations.stream import Followers

PATH = "/chat"


def chat_routes(
    conversations: Conversations,
    directory: Directory,
    turns: Turns,
    audit: Audit,
    asking: Asking,
    changes: ThreadChanges,
    followers: Followers,
) -> list[Route]:
    """With their whole paths."""
    pages = Pages(Reading(conversations, directory), conversations, build())
    actions = Actions(pages, conversations, asking, changes)
    transfer = TransferHandlers(conversations, audit)
    return [
        Route(PATH, pages.page, methods=["GET"]),
        Route(PATH, actions.send, methods=["POST"]),
        Route(f"{PATH}/stop", actions.stop, methods=["POST"]),
        Route(f"{PATH}/rename", actions.rename, methods=["POST"]),
        Route(f"{PATH}/delete", actions.delete, methods=["POST"]),
        Route(f"{PATH}/messages", pages.messages, methods=["GET"]),
        Route(f"{PATH}/threads", pages.threads, methods=["GET"]),
        Route(f"{PATH}/image", pages.image, methods=["GET"]),
        Route(f"{PATH}/export/{{thread}}", transfer.export, methods=["GET"]),
        Route(f"{PATH}/turn", Live(conversations, turns, followers), methods=["GET"]),
    ]
