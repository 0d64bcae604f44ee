"""Operations on threads, their messages and turns. Pure."""

from __future__ import annotations

from pallas_gateway.http.openapi.operations.agents import PAGE
from pallas_gateway.http.openapi.operations.agents import PATH as AGENTS_PATH
from pallas_gateway.http.openapi.operations.operation import (
    EVENTS,
    JSON,
    LINES,
    Answer,
    Header,
    Operation,
    Parameter,
)
from pallas_gateway.http.openapi.operations.shapes import page_of, record, ref, text

PATH = "/api/v1/threads"
_AGENT = f"{AGENTS_PATH}/{{agent}}"
_THREAD = f"{PATH}/{{thread}}"
_RUN = "`run:agents:NAME`"
_SEARCH = (
    Parameter("q", "Words that the title or one message has", text(maxLength=200)),
    Parameter("owner", "`all` takes `view:threads`", text(enum=["me", "all"])),
)
_TURN_HEADERS = (
    Header("Pallas-Thread", "Id of the thread"),
    Header("Pallas-Ignored", "Parameters that the model's provider does not have"),
)
_EVENTS = text("Events `data: {json}`, each a `Chunk`, then `data: [DONE]`")
_THREAD_PAGE = (Answer(200, "A page of threads", {JSON: page_of("Thread")}),)

CONVERSATIONS = (
    Operation(
        id="chat",
        method="POST",
        path=f"{_AGENT}/chat",
        tag="conversations",
        summary="One turn with an agent, in a thread",
        grant=f"{_RUN}; a thread is gone on with by its owner alone",
        body={JSON: ref("ChatBody")},
        answers=(
            Answer(
                200,
                "The answer; with `stream` as it comes",
                {JSON: ref("Answer"), EVENTS: _EVENTS},
                _TURN_HEADERS,
            ),
        ),
    ),
    Operation(
        id="createThread",
        method="POST",
        path=f"{_AGENT}/threads",
        tag="conversations",
        summary="A new thread, without messages",
        grant=_RUN,
        body={
            JSON: record(
                {
                    "title": text(maxLength=200),
                    "session": text("The caller's own name for it", maxLength=200),
                },
                "title",
                "session",
            )
        },
        is_body_required=False,
        answers=(
            Answer(201, "The thread", {JSON: ref("Thread")}),
            Answer(200, "The thread that has this session already", {JSON: ref("Thread")}),
        ),
    ),
    Operation(
        id="listAgentThreads",
        method="GET",
        path=f"{_AGENT}/threads",
        tag="conversations",
        summary="The token's threads with an agent, the newest activity first",
        grant=_RUN,
        query=(*_SEARCH, *PAGE),
        answers=_THREAD_PAGE,
    ),
    Operation(
        id="importThread",
        method="POST",
        path=f"{_AGENT}/threads/import",
        tag="conversations",
        summary="A thread that was exported, as a new one",
        grant=_RUN,
        body={LINES: text("What an export has given")},
        answers=(Answer(201, "The thread", {JSON: ref("Thread")}),),
    ),
    Operation(
        id="listThreads",
        method="GET",
        path=PATH,
        tag="conversations",
        summary="The token's threads with all agents that it may run, the newest activity first",
        grant="some `run:agents`",
        query=(*_SEARCH, *PAGE),
        answers=_THREAD_PAGE,
    ),
    Operation(
        id="getThread",
        method="GET",
        path=_THREAD,
        tag="conversations",
        summary="One thread",
        grant=f"{_RUN}; another's `view:threads:NAME`, too",
        answers=(Answer(200, "The thread", {JSON: ref("Thread")}),),
    ),
    Operation(
        id="renameThread",
        method="PATCH",
        path=_THREAD,
        tag="conversations",
        summary="Another title for a thread",
        grant=f"{_RUN}; another's `edit:threads:NAME`, too",
        body={JSON: record({"title": text(maxLength=200)})},
        answers=(Answer(200, "The thread", {JSON: ref("Thread")}),),
    ),
    Operation(
        id="deleteThread",
        method="DELETE",
        path=_THREAD,
        tag="conversations",
        summary="Delete a thread with its messages; its turn is stopped",
        grant=f"{_RUN}; another's `delete:threads:NAME`, too",
        answers=(Answer(200, "It was deleted", {JSON: record({"deleted": text("Its id")})}),),
    ),
    Operation(
        id="listMessages",
        method="GET",
        path=f"{_THREAD}/messages",
        tag="conversations",
        summary="The messages of a thread, in their order",
        grant="`view:agents:NAME`; another's `view:threads:NAME`, too",
        query=PAGE,
        answers=(Answer(200, "A page of messages", {JSON: page_of("Message")}),),
    ),
    Operation(
        id="followTurn",
        method="GET",
        path=f"{_THREAD}/turn",
        tag="conversations",
        summary="The turn that is under way, or was until a minute ago, from its beginning",
        grant=f"{_RUN}; another's `view:threads:NAME`, too",
        headers=(Parameter("Last-Event-ID", "Go on behind this event", text()),),
        answers=(
            Answer(200, "As of a chat, each event with an `id`", {EVENTS: _EVENTS}, _TURN_HEADERS),
            Answer(204, "There is none, or nothing of it behind that event"),
        ),
    ),
    Operation(
        id="stopTurn",
        method="DELETE",
        path=f"{_THREAD}/turn",
        tag="conversations",
        summary="End the turn that is under way; what it has said is kept as failed",
        grant=f"{_RUN}; another's `edit:threads:NAME`, too",
        answers=(Answer(200, "Whether one was under way", {JSON: record({"stopped": {"type": "boolean"}})}),),
    ),
    Operation(
        id="exportThread",
        method="GET",
        path=f"{_THREAD}/export",
        tag="conversations",
        summary="All of a thread, for an import",
        grant="`view:agents:NAME`; another's `view:threads:NAME`, too",
        answers=(Answer(200, "Lines of JSON: the thread, then each message", {LINES: text()}),),
    ),
)
