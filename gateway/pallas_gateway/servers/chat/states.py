"""What somebody's conversations are now, as one document that is bounded in size: for resources of MCP.

Own threads alone: whose they are is part of each question to the store.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_gateway.servers.chat.documents import message_document, moment, thread_document
from pallas_gateway.store.conversations.messages import newest_messages
from pallas_gateway.store.conversations.threads import newest_threads

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.records import Message, Thread

type Json = dict[str, Any]

MOST_THREADS = 20
MOST_MESSAGES = 50
"""Of the thread with the newest activity."""
LONGEST_TEXT = 4000
"""Characters of a message, and of the arguments of a call as JSON."""
LONGEST_STORED = 64 * 1024
"""The same as they are stored: what is longer is not even read."""
MOST_CALLS = 20
"""Of one message."""


def read_state(
    connection: Connection, *, tenant: str, owner: str, agent_keys: Collection[str] | None
) -> Json:
    """The owner's newest threads, and the newest messages of the first of them.

    Args:
        connection: within a transaction.
        tenant: whose they are.
        owner: the subject of a principal.
        agent_keys: with which agents alone; None for all.

    Raises:
        MalformedMessageError: a row is none of a message.
    """
    found = newest_threads(connection, tenant=tenant, owner=owner, agent_keys=agent_keys, limit=MOST_THREADS)
    threads = [{**thread_document(each), "state": _state(each)} for each in found]
    messages: list[Json] = []
    if found:
        newest = newest_messages(
            connection, tenant=tenant, thread=found[0].id, limit=MOST_MESSAGES, longest=LONGEST_STORED
        )
        messages = [_message(found[0].id, message, is_large) for message, is_large in newest]
    return {"thread": threads[0] if threads else None, "messages": messages, "threads": threads}


def read_runs(connection: Connection, *, tenant: str, owner: str, agent_key: str) -> list[Json]:
    """The owner's turns with an agent: those under way, and the last one of each of the newest threads.

    Raises:
        MalformedMessageError: a row is none of a message.
    """
    runs = []
    for thread in newest_threads(
        connection, tenant=tenant, owner=owner, agent_keys=[agent_key], limit=MOST_THREADS
    ):
        found = newest_messages(connection, tenant=tenant, thread=thread.id, limit=1, longest=LONGEST_STORED)
        if found:
            runs.append(_run(thread, found[0][0]))
    return runs


def _state(thread: Thread) -> str:
    return "idle" if thread.turn is None else "running"


def _run(thread: Thread, last: Message) -> Json:
    """The last turn of a thread, by its last message."""
    is_over = thread.turn is None
    state = "running" if not is_over else "failed" if last.status == "error" else "completed"
    return {
        "threadId": thread.id,
        "title": thread.title,
        "turnIndex": last.turn_index,
        "state": state,
        "endedAt": moment(thread.last_turn) if is_over and thread.last_turn is not None else None,
        "error": last.error[:LONGEST_TEXT] if is_over and last.error is not None else None,
    }


def _message(thread: str, message: Message, is_large: bool) -> Json:
    """A message with what it says cut, and without its images."""
    found = message_document(thread, message)
    found.pop("parts", None)
    is_cut = is_large or len(found["content"]) > LONGEST_TEXT
    found["content"] = found["content"][:LONGEST_TEXT]
    if calls := found["toolCalls"]:
        is_cut = is_cut or len(calls) > MOST_CALLS
        found["toolCalls"] = calls = calls[:MOST_CALLS]
        for call in calls:
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            if len(arguments) > LONGEST_TEXT:
                call["arguments"], is_cut = arguments[:LONGEST_TEXT], True
    if (error := found.get("error")) is not None:
        found["error"] = error[:LONGEST_TEXT]
    if is_cut:
        found["isCut"] = True
    return found
