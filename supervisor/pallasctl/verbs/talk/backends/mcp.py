"""An MCP endpoint of Pallas elsewhere, by its URL: its tool `send_message`, the history kept here."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.problems import quoted
from pallas_control.mcp.client import call
from pallas_control.mcp.exchange import Endpoint
from pallas_control.mcp.messages import Answer, Question, Row
from pallasctl.failures import Failure
from pallasctl.verbs.talk.backends.backend import Aside, Doing, Result, Text
from pallasctl.verbs.talk.backends.kept import KeptTurns
from pallasctl.verbs.talk.turn import answered

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pallasctl.verbs.talk.backends.backend import Asked, Happened, Json, Message


class McpBackend:
    """An agent that is known by its URL alone.

    Raises:
        ValueError: it is none.
    """

    note = ""
    threads = None
    takes_parameters = False

    def __init__(self, url: str, conversation_id: str) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.port == 0:
            raise ValueError(f"{quoted(url)} is no http or https URL")
        self.agent = url
        self._endpoint = Endpoint(url)
        self._conversation_id = conversation_id
        self._kept: KeptTurns[Row] = KeptTurns()

    def ask(self, asked: Asked) -> Generator[Happened | None]:
        """One turn."""
        return self._kept.asked(asked.message, self._turn)

    def whole(self, asked: Asked) -> Generator[Happened | None]:
        """The same: an answer comes whole."""
        return self.ask(asked)

    def clear(self) -> None:
        """Forget the conversation."""
        self._kept.clear()

    def rows(self) -> Sequence[Json]:
        """As `history` of `send_message` takes them."""
        return self._kept.rows

    def tools(self) -> Sequence[str]:
        """Nobody tells them."""
        raise Failure(
            "an agent that is named by its URL does not tell its tools; see `pallasctl describe` there"
        )

    def close(self) -> None:
        """Nothing is left."""

    def _turn(self, message: Message) -> Generator[Happened | None]:
        question = Question(message.text, message.images, self._kept.history, self._conversation_id)
        with closing(call(self._endpoint, question, timeout=None)) as news:
            for item in news:
                if item is None:
                    yield None
                elif not isinstance(item, Answer):
                    if item.message:
                        yield Doing(item.message)
                else:
                    answer = answered(item)
                    for text in answer.texts[:-1]:
                        yield Aside(text)
                    # An empty answer has no row, as an agent would leave it out.
                    rows = [Row(role="user", content=message.text, images=list(message.images))]
                    if answer.text:
                        yield Text(answer.text)
                        rows.append(Row(role="assistant", content=answer.text, images=[]))
                    self._kept.end(rows)
                    yield Result(answer.text, images=len(answer.images))
