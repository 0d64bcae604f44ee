"""One call of an agent by MCP: the question posted, its progress as it comes, and the answer.

Knows what the messages are and in which forms they come; HTTP itself is in `exchange`.
"""

from __future__ import annotations

import http.client
from contextlib import closing
from typing import TYPE_CHECKING

from pallas_common.problems import quoted
from pallas_control.mcp.errors import ConnectionLostError, WrongAnswerError
from pallas_control.mcp.exchange import (
    LARGEST_ANSWER,
    Exchange,
    Request,
    read_bounded,
    read_events,
    received,
    refusal,
)
from pallas_control.mcp.messages import HEADERS, Answer, read_message, request_body

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pallas_control.mcp.exchange import Endpoint
    from pallas_control.mcp.messages import Progress, Question


def call(
    endpoint: Endpoint, question: Question, *, timeout: float | None
) -> Generator[Progress | Answer | None]:
    """Ask, and give what comes: progress, None from time to time without any, and the answer last.

    The caller closes the generator where it does not read on, and that cancels the call.

    Args:
        timeout: seconds for the whole call, or None for no limit.

    Raises:
        CallError: there is no answer, each subclass for another reason.
        ValueError: the URL is none of `http` or `https`.
    """

    def read(response: http.client.HTTPResponse) -> Iterator[Progress | Answer]:
        return _read(response, endpoint.url)

    exchange = Exchange(endpoint, Request(request_body(question), HEADERS), read)
    news = received(exchange, timeout=timeout)
    with closing(news):
        for item in news:
            yield item
            if isinstance(item, Answer):
                return


def _read(response: http.client.HTTPResponse, url: str) -> Iterator[Progress | Answer]:
    if response.status != http.client.OK:
        raise refusal(response)
    media_type = response.headers.get_content_type()
    if media_type == "text/event-stream":
        for data in read_events(response):
            message = read_message(data)
            if message is not None:
                yield message
            if isinstance(message, Answer):
                return
        raise ConnectionLostError("the connection ended before the answer")
    if media_type != "application/json":
        raise WrongAnswerError(f"what answers at {url} is no MCP server: it sends {quoted(media_type)}")
    message = read_message(read_bounded(response, LARGEST_ANSWER))
    if not isinstance(message, Answer):
        raise WrongAnswerError("what came is no answer to the call")
    yield message
