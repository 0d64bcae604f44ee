"""What a chat asks for, what happens in a turn, and the shape of who answers.

Pure; knows neither HTTP nor terminals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from pallas_control.mcp.messages import ImageDocument

type Json = Mapping[str, Any]


class Message(NamedTuple):
    """What the user says."""

    text: str
    images: Sequence[ImageDocument] = ()


class Asked(NamedTuple):
    """A turn that is asked for."""

    message: Message | None
    """None: the last turn is taken again."""
    parameters: Json
    """By their names in the REST API; None clears an agent's default."""


class Text(NamedTuple):
    """A piece of the answer."""

    delta: str


class Reset(NamedTuple):
    """So many characters of the answer that came last are void: the model is asked again."""

    characters: int


class ToolCall(NamedTuple):
    """A tool is called."""

    tool: str
    arguments: object


class ToolResult(NamedTuple):
    """A call has ended."""

    tool: str
    ok: bool
    text: str = ""
    """The beginning of what it gave, where that is told."""


class Doing(NamedTuple):
    """What the agent does now, in words of its own."""

    message: str


class Aside(NamedTuple):
    """Something to know that is no part of the answer."""

    text: str


class Result(NamedTuple):
    """The turn is over, and kept. It is the last that happens."""

    content: str
    tool_calls: Sequence[Json] = ()
    usage: Json | None = None
    thread: str | None = None
    turn_index: int | None = None
    images: int = 0
    """Images of the answer, which are not shown."""


type Happened = Text | Reset | ToolCall | ToolResult | Doing | Aside | Result


class ThreadInfo(NamedTuple):
    """A thread in a list."""

    id: str
    title: str
    last_turn: str | None
    """When; None before the first turn has ended."""


class Threads(Protocol):
    """Who keeps conversations in threads."""

    @property
    def current(self) -> str | None:
        """The id of the thread that the next turn goes on with; None: a new one."""

    def find(self, words: str, limit: int) -> Sequence[ThreadInfo]:
        """The user's threads with the agent that have these words, those with the newest activity first."""

    def resume(self, thread: str) -> None:
        """Go on with that one from now on."""

    def messages(self) -> Iterable[Json]:
        """All messages of it in their order, as the REST API has them."""

    def follow(self) -> Generator[Happened | None]:
        """What happens in the turn of it that is under way, from its beginning; nothing where there is none."""


class Backend(Protocol):
    """Who answers. All but the properties raise CallError, ControlError or click.ClickException where it fails."""

    @property
    def agent(self) -> str:
        """As it was named."""

    @property
    def note(self) -> str:
        """What to know of it before the first turn; empty if nothing."""

    @property
    def threads(self) -> Threads | None:
        """None: the conversation is kept here, and ends with the chat."""

    @property
    def takes_parameters(self) -> bool:
        """Whether `Asked.parameters` may hold anything."""

    def ask(self, asked: Asked) -> Generator[Happened | None]:
        """One turn; None from time to time where nothing happens. Who closes the generator stops the turn."""

    def whole(self, asked: Asked) -> Generator[Happened | None]:
        """The same for who reads only the result, which has all fields."""

    def clear(self) -> None:
        """Begin a new conversation."""

    def rows(self) -> Sequence[Json]:
        """What was said so far, as messages of chat completions."""

    def tools(self) -> Sequence[str]:
        """The names of the tools that the agent has."""

    def close(self) -> None:
        """The chat is over."""
