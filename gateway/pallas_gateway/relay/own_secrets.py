"""A server's own credentials, struck from what it or the gateway says of an error: whoever calls must not learn them.

What a server answers where nothing went wrong goes on as it came: looking at it would cost every call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pallas_common.secrets.patterns import credentials
from pallas_common.secrets.values import LIKELY, KnownSecrets, secrets_in
from pallas_gateway.relay.messages import adapting, answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pallas_gateway.relay.messages.model import Answer

_DATA = b"data: "


def own_secrets(settings: Mapping[str, Any]) -> Iterator[str]:
    """What of a server's settings is secret by its name or its looks, and each long value of a header."""
    yield from secrets_in(settings)
    headers = settings.get("headers")
    for value in headers.values() if isinstance(headers, Mapping) else ():
        if isinstance(value, str) and len(value) >= LIKELY:
            yield value
    arguments = settings.get("args")
    for text in (settings.get("url"), *(arguments if isinstance(arguments, list | tuple) else ())):
        if isinstance(text, str):
            yield from (text[found.begin : found.end] for found in credentials(text))


class OwnSecrets:
    """Strikes them."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._known = KnownSecrets(own_secrets(settings))
        self._are_any = self._known.longest > 0

    def strike(self, text: str) -> str:
        """The text without them."""
        return self._known.strike(text)

    def strike_error[Failure: Exception](self, error: Failure) -> Failure:
        """The same error with a message that has none of them."""
        error.args = tuple(self.strike(each) if isinstance(each, str) else each for each in error.args)
        return error

    def strike_answer(self, answer: Answer) -> Answer:
        """The answer, without them where it says that something went wrong."""
        if not self._are_any:
            return answer
        if not isinstance(answer.body, bytes):
            return dataclasses.replace(answer, body=self._events(answer.body))
        if not answer.is_error or not self._known.may_be_in(answer.body.decode("utf-8", "replace")):
            return answer
        return dataclasses.replace(answer, body=self._message(answer.body))

    async def _events(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The events of a stream, of which each piece is one."""
        try:
            async for piece in body:
                yield self._event(piece)
        finally:
            if (close := getattr(body, "aclose", None)) is not None:
                await close()

    def _event(self, event: bytes) -> bytes:
        if not self._known.may_be_in(event.decode("utf-8", "replace")):
            return event
        data = b"".join(line.removeprefix(_DATA) for line in event.splitlines() if line.startswith(_DATA))
        return answers.event(self._message(data))

    def _message(self, data: bytes) -> bytes:
        message = adapting.parse(data)
        if not adapting.is_failure(message):
            return data
        said = {
            key: self._struck(value) if key in ("error", "result") else value
            for key, value in message.items()
        }
        return adapting.dumped(said)

    def _struck(self, value: Any) -> Any:
        """The same value with its texts struck. What was parsed is no deeper than the parser goes."""
        match value:
            case str():
                return self.strike(value)
            case list():
                return [self._struck(each) for each in value]
            case dict():
                return {self.strike(key): self._struck(each) for key, each in value.items()}
        return value
