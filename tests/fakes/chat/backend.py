"""A backend of a chat that answers what a test tells it to, and keeps what it was asked; knows no transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallasctl.verbs.talk.backends.backend import Result, Text, ThreadInfo

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pallas_control.mcp.errors import CallError
    from pallasctl.verbs.talk.backends.backend import Asked, Happened, Json

THREADS = (
    ThreadInfo("11111111-aaaa", "Sums", "2026-01-31T11:00:00.000Z"),
    ThreadInfo("22222222-bbbb", "", None),
)


class FakeBackend:
    """Gives `happens` in each turn, and raises `failure` if there is one."""

    agent = "jarvis"
    note = ""
    takes_parameters = True

    def __init__(self, *happens: Happened | None, with_threads: bool = False) -> None:
        self.happens: Sequence[Happened | None] = happens or (Text("fine"), Result("fine"))
        self.failure: CallError | None = None
        self.asked: list[Asked] = []
        self.closed = 0
        """Turns that were given up."""
        self.said: list[Json] = [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "nice"},
        ]
        self.kept: list[dict[str, Any]] = []
        """Messages of the thread."""
        self.current: str | None = None
        self.searched: list[str] = []
        self.threads = self if with_threads else None

    def ask(self, asked: Asked) -> Generator[Happened | None]:
        """One turn."""
        self.asked.append(asked)
        try:
            yield from self.happens
            if self.failure is not None:
                raise self.failure
        except GeneratorExit:
            self.closed += 1
            raise

    def whole(self, asked: Asked) -> Generator[Happened | None]:
        """The same."""
        return self.ask(asked)

    def clear(self) -> None:
        """Forget."""
        self.said = []
        self.current = None

    def rows(self) -> Sequence[Json]:
        """What was said."""
        return self.said

    def tools(self) -> Sequence[str]:
        """Two."""
        return ("tools__add", "tools__echo")

    def close(self) -> None:
        """Nothing."""

    def find(self, words: str, limit: int) -> Sequence[ThreadInfo]:
        """All of them."""
        self.searched.append(words)
        return THREADS[:limit]

    def resume(self, thread: str) -> None:
        """Go on with it."""
        self.current = thread

    def messages(self) -> Sequence[Json]:
        """Of the thread."""
        return self.kept

    def follow(self) -> Generator[Happened | None]:
        """The same turn."""
        yield from self.happens
