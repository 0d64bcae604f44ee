"""The gateway's REST API: turns in threads that it keeps, and that go on when nobody listens."""

from __future__ import annotations

import json
import time
from contextlib import closing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from pallas_control.errors import GatewayRefusedError
from pallas_control.mcp.errors import ConnectionLostError
from pallas_control.mcp.exchange import (
    LARGEST_ANSWER,
    LARGEST_REFUSAL,
    Endpoint,
    Exchange,
    Request,
    read_bounded,
    read_events,
    received,
)
from pallas_control.mcp.messages import parse_object
from pallasctl.failures import EXIT_USAGE, Failure, NoSuchAgent
from pallasctl.verbs.talk.backends.backend import Reset, Text
from pallasctl.verbs.talk.backends.gateway_stream import (
    DONE,
    TurnFailedError,
    is_thread_id,
    read_chunk,
    read_ending,
    read_result,
    read_thread,
    row_of,
    title_of,
)
from pallasctl.verbs.talk.backends.kept import NothingAskedError
from pallasctl.verbs.talk.backends.worker import data_url, ignored

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from http.client import HTTPResponse

    from pallas_control.gateway import Gateway
    from pallasctl.verbs.talk.backends.backend import Asked, Happened, Json, ThreadInfo

STOP_WITHIN = 2.0
"""Seconds in which a turn that was asked for has to have begun, where it is to be stopped."""
_AGAIN = 0.1
_PAGE = 1000
_MOST_PAGES = 50
"""Of messages, as the gateway bounds each page in bytes, too."""


class NoSuchThread(Failure):
    """A thread that was named is none with this agent: wrong usage, as a mistyped agent is."""

    exit_code = EXIT_USAGE


class GatewayBackend:
    """An agent behind a gateway, in one thread at a time.

    Args:
        note: what to know of the agent.
        tools: gives the names of those that it has.

    Raises:
        GatewayError: it does not answer, or refuses.
    """

    takes_parameters = True

    def __init__(
        self, gateway: Gateway, agent: str, *, note: str, tools: Callable[[], Sequence[str]]
    ) -> None:
        self.agent = agent
        self.note = note
        self.tools = tools
        self._gateway = gateway
        self._path = f"/api/v1/agents/{quote(agent, safe='')}"
        self.current: str | None = None
        self._is_empty = False
        """The thread was made here, and nothing was kept in it yet."""
        try:
            self.find("", 1)  # whether it answers, and lets this token run the agent
        except GatewayRefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise NoSuchAgent(error.message) from None
            raise

    @property
    def threads(self) -> GatewayBackend:
        """Here."""
        return self

    def ask(self, asked: Asked) -> Generator[Happened | None]:
        """One turn, as a stream."""
        return self._turn(asked, stream=True)

    def whole(self, asked: Asked) -> Generator[Happened | None]:
        """One turn, whole."""
        return self._turn(asked, stream=False)

    def clear(self) -> None:
        """The next turn begins a thread; this one stays."""
        self.close()
        self.current = None

    def rows(self) -> Sequence[Json]:
        """All of the thread that is part of its history."""
        return [row for message in self.messages() if (row := row_of(message)) is not None]

    def messages(self) -> Iterator[Json]:
        """The messages of the thread, oldest first."""
        query: dict[str, object] = {"limit": _PAGE}
        for _ in range(_MOST_PAGES if self.current is not None else 0):
            page = self._gateway.get(f"{self._thread_path}/messages?{urlencode(query)}")
            yield from (item for item in page.get("items", ()) if isinstance(item, dict))
            if not (cursor := page.get("nextCursor")):
                return
            query["cursor"] = cursor

    def close(self) -> None:
        """A thread that was made for a turn which never began is no use to anybody."""
        if self.current is not None and self._is_empty:
            self._gateway.delete(self._thread_path)
            self.current, self._is_empty = None, False

    def find(self, words: str, limit: int) -> list[ThreadInfo]:
        """The user's threads with the agent."""
        query = {"limit": limit, **({"q": words} if words else {})}
        page = self._gateway.get(f"{self._path}/threads?{urlencode(query)}")
        return [read_thread(item) for item in page.get("items", ())]

    def resume(self, thread: str) -> None:
        """Go on with that thread.

        Raises:
            GatewayRefusedError: there is none of this agent.
        """
        nothing = f"there is no thread {thread!r} with {self.agent}; /threads in a chat lists yours"
        if not is_thread_id(thread):
            raise NoSuchThread(nothing)
        try:
            found = self._gateway.get(f"/api/v1/threads/{thread}")
        except GatewayRefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise NoSuchThread(nothing) from None
            raise
        if found.get("agent") != self.agent:
            other = found.get("agent")
            raise NoSuchThread(
                f"the thread {thread} is one with another agent: `pallasctl chat {other} --thread {thread}`"
            )
        self.close()
        self.current, self._is_empty = thread, False

    def follow(self) -> Generator[Happened | None]:
        """What happens in the turn of the thread that is under way; who closes the generator stops it."""
        if self.current is None:
            return
        news = received(self._exchange(Request(b"", self._headers(), "GET"), f"{self._thread_path}/turn"))
        try:
            with closing(news):
                yield from news
        except (GeneratorExit, KeyboardInterrupt):
            self._stop(within=0.0)
            raise

    @property
    def _thread_path(self) -> str:
        return f"/api/v1/threads/{self.current}"

    def _turn(self, asked: Asked, *, stream: bool) -> Generator[Happened | None]:
        body = json.dumps(self._body(asked, stream=stream)).encode()
        headers = self._headers() | {"Content-Type": "application/json"}
        news = received(self._exchange(Request(body, headers), f"{self._path}/chat"))
        begun = False
        try:
            with closing(news):
                for item in news:
                    begun = begun or item is not None
                    yield item
        except (GeneratorExit, KeyboardInterrupt):
            self._stop(within=0.0 if begun else STOP_WITHIN)
            begun = True
            raise
        except TurnFailedError:
            begun = True
            raise
        finally:
            self._is_empty = self._is_empty and not begun

    def _body(self, asked: Asked, *, stream: bool) -> Json:
        """What is posted; a thread is made where there is none, so that its turn can be stopped at any moment."""
        body: dict[str, Any] = {**asked.parameters, "stream": stream}
        if asked.message is None:
            if self.current is None:
                raise NothingAskedError("there is nothing to ask again: no message has been sent yet")
            body["retry"] = True
        else:
            body["message"] = asked.message.text
            if asked.message.images:
                body["images"] = [data_url(image) for image in asked.message.images]
            if self.current is None:
                title = title_of(asked.message.text)
                made = self._gateway.post(f"{self._path}/threads", {"title": title} if title else {})
                self.current, self._is_empty = read_thread(made).id, True
        return {**body, "threadId": self.current}

    def _stop(self, *, within: float) -> None:
        """End the turn, which would go on otherwise. It may not have begun yet when it is first asked to stop."""
        deadline = time.monotonic() + within
        while not self._gateway.delete(f"{self._thread_path}/turn").get("stopped"):
            if time.monotonic() >= deadline:
                return
            time.sleep(_AGAIN)

    def _headers(self) -> dict[str, str]:
        return {**self._gateway.headers(), "Accept": "application/json, text/event-stream"}

    def _exchange(self, request: Request, path: str) -> Exchange[Happened]:
        return Exchange(Endpoint(f"{self._gateway.url}{path}"), request, self._read)

    def _read(self, response: HTTPResponse) -> Iterator[Happened]:
        if response.status == HTTPStatus.NO_CONTENT:
            return
        if response.status != HTTPStatus.OK:
            if response.headers.get("Pallas-Thread"):  # it had begun, and is kept
                self._is_empty = False
            # Raises what it says.
            self._gateway.read_object(response.status, read_bounded(response, LARGEST_REFUSAL))
        if names := response.headers.get("Pallas-Ignored"):
            yield ignored(names)
        if response.headers.get_content_type() != "text/event-stream":
            body = read_bounded(response, LARGEST_ANSWER)
            document = self._gateway.read_object(response.status, body)
            yield from read_ending(document)
            yield read_result(document)
            return
        said = ""
        for data in read_events(response):
            if data == DONE:
                return
            yield from read_ending(parse_object(data) or {})
            item = read_chunk(data, said)
            if isinstance(item, Text):
                said += item.delta
            elif isinstance(item, Reset):
                said = said[: -item.characters]
            if item is not None:
                yield item
        raise ConnectionLostError("the connection to the gateway ended; the turn may go on there")
