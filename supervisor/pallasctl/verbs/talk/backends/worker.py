"""An agent of this deployment where there is no gateway: chat completions at its own address, the history kept here."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pallas_control.mcp.errors import ConnectionLostError, RefusedCallError, WrongAnswerError
from pallas_control.mcp.exchange import (
    LARGEST_REFUSAL,
    Exchange,
    Request,
    read_bounded,
    read_events,
    received,
    refusal,
)
from pallas_control.mcp.messages import parse_object
from pallasctl.verbs.talk.backends.backend import Aside, Reset, Result, Text
from pallasctl.verbs.talk.backends.kept import KeptTurns
from pallasctl.verbs.talk.backends.tools import tools_of
from pallasctl.verbs.talk.backends.worker_stream import (
    NAMES,
    TurnEnd,
    Usage,
    calls_of,
    error_of,
    read_chunk,
)
from pallasctl.verbs.talk.turn import find

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from http.client import HTTPResponse

    from pallasctl.verbs.talk.backends.backend import Asked, Happened, Json, Message

_HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream", "Pallas-Accept": "retry"}
_PATH = "/v1/chat/completions"


class WorkerBackend:
    """An agent that is known by its name to the supervisor here."""

    threads = None
    takes_parameters = True

    def __init__(self, agent: str, conversation_id: str) -> None:
        self.agent = agent
        self.note = find(agent).note
        self._conversation_id = conversation_id
        self._kept: KeptTurns[Json] = KeptTurns()

    def ask(self, asked: Asked) -> Generator[Happened | None]:
        """One turn."""
        return self._kept.asked(asked.message, partial(self._turn, parameters=asked.parameters))

    def whole(self, asked: Asked) -> Generator[Happened | None]:
        """The same: its stream tells all."""
        return self.ask(asked)

    def clear(self) -> None:
        """Forget the conversation."""
        self._kept.clear()

    def rows(self) -> Sequence[Json]:
        """As they came."""
        return self._kept.rows

    def tools(self) -> Sequence[str]:
        """As the supervisor knows them."""
        return tools_of(self.agent)

    def close(self) -> None:
        """Nothing is left."""

    def _turn(self, message: Message, parameters: Json) -> Generator[Happened | None]:
        target = find(self.agent)  # it may be elsewhere, or stopped, since the last turn
        endpoint = replace(target.endpoint, url=target.endpoint.url.removesuffix("/mcp") + _PATH)
        exchange = Exchange(endpoint, Request(self._body(message, parameters), _HEADERS), _events)
        said, usage, end = "", None, None
        news = received(exchange)
        with closing(news):
            for item in news:
                if isinstance(item, Usage):
                    usage = item.tokens
                elif isinstance(item, TurnEnd):
                    end = item
                else:
                    if isinstance(item, Text):
                        said += item.delta
                    elif isinstance(item, Reset):
                        said = said[: -item.characters]
                    yield item
        if end is None:
            raise ConnectionLostError("the connection ended before the answer")
        self._kept.end(end.rows)
        if end.ignored:
            yield ignored(", ".join(end.ignored))
        yield Result(said, calls_of(end.rows), usage)

    def _body(self, message: Message, parameters: Json) -> bytes:
        body: dict[str, Any] = {
            "model": self.agent,
            "messages": [*self._kept.history, {"role": "user", "content": content_of(message)}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "metadata": {"conversation_id": self._conversation_id},
            **{NAMES.get(name, name): value for name, value in parameters.items()},
        }
        return json.dumps(body).encode()


def content_of(message: Message) -> object:
    """A message as chat completions have it."""
    if not message.images:
        return message.text
    text = [{"type": "text", "text": message.text}] if message.text else []
    return [
        *text,
        *({"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images),
    ]


def data_url(image: Json) -> str:
    """An image where a URL is wanted."""
    return f"data:{image['mime_type']};base64,{image['data']}"


def ignored(names: str) -> Aside:
    """What was said and has had no effect."""
    return Aside(f"the model's provider does not have it, so that it is left out: {names}")


def _events(response: HTTPResponse) -> Iterator[Happened | TurnEnd | Usage]:
    if response.status != HTTPStatus.OK:
        raise _refusal(response)
    if (kind := response.headers.get_content_type()) != "text/event-stream":
        raise WrongAnswerError(f"what answers is no agent of this version: it sends {kind}; restart it")
    for data in read_events(response):
        if data == b"[DONE]":
            return
        yield from read_chunk(data)
    raise ConnectionLostError("the connection ended before the answer")


def _refusal(response: HTTPResponse) -> Exception:
    if response.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.BAD_GATEWAY):
        return refusal(response)
    document = parse_object(read_bounded(response, LARGEST_REFUSAL)) or {}
    return RefusedCallError(error_of(document))
