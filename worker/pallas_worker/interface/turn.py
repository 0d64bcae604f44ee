"""One turn of the agent: what is asked, what is told while it runs, and what it ends with.

Pure. Knows no surface: MCP's `send_message` and chat completions both translate to and from this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pallas_worker.interface.history import History

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_types import ContentBlock

    from pallas_common.protocol.agent.incomplete import Reason
    from pallas_common.protocol.agent.output_schema.schema import OutputSchema, Structured
    from pallas_common.protocol.agent.parameters import Parameters
    from pallas_worker.interface.history import Row
    from pallas_worker.interface.images import Image

type TokenKind = Literal["input", "output", "cache_read", "cache_write", "cache_hit", "reasoning"]

type FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why a turn has ended, in the words of chat completions; `tool_calls`: it is held before calls that did not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """The checked request for one turn."""

    message: str = ""
    """The new user turn; empty where there are images alone, or where the history ends with tool calls or results, from
    which the turn goes on."""
    images: tuple[Image, ...] = ()
    history: History = field(default_factory=History)
    conversation_id: str | None = None
    parameters: Parameters | None = None
    """How the model is to answer; None for what the agent's definition says."""
    system_append: str = ""
    """Follows the agent's own instruction, for this turn."""
    system_override: str | None = None
    """Stands in place of the agent's own instruction."""
    model_override: str | None = None
    tools_allowlist: frozenset[str] | None = None
    """The tools that may be called in this turn, of those that the agent has; None for all."""
    hold: tuple[str, ...] = ()
    """Patterns of tools before whose calls the turn ends, to be taken up later."""
    output: OutputSchema | None = None
    """What the answer has to fit; None for the agent's own schema, if it has one."""
    said: frozenset[str] = frozenset()
    """The fields about which the caller said something, of those that an agent's definition may have defaults for."""
    by_default: frozenset[str] = frozenset()
    """Those whose value here is the definition's."""
    resume: bool = False
    """The history ends with calls that have not run: run them and go on."""


type TextKind = Literal["answer", "reasoning", "other"]
"""Part of the answer, or of what a model thinks, or of what an agent says whose words are not the answer."""


class Text(NamedTuple):
    """A piece of what an agent's model says, as it comes.

    All pieces of the answer, without what was taken back, are the texts of the turn with a blank line between them.
    """

    agent: str
    text: str
    kind: TextKind = "answer"


class ToolCalled(NamedTuple):
    """A model has decided to call a tool, and the call begins; not told of a call before which the turn ends."""

    agent: str
    id: str
    server: str | None
    """None for a tool that no downstream server has."""
    tool: str
    """As the agent lists it."""
    arguments: Mapping[str, object]


class ToolReturned(NamedTuple):
    """A tool's call has ended, or was refused, or has broken off with the turn: one for each `ToolCalled`."""

    agent: str
    id: str
    server: str | None
    tool: str
    ok: bool
    text: str = ""
    """What it gave, cut where it is long; of a call that was refused, why."""


class TakenBack(NamedTuple):
    """Text is void: a model is asked again, or what came from it is not the answer after all."""

    agent: str
    characters: int
    """How many of the last ones: of the answer, whoever spoke them, or else of this agent's texts of that kind."""
    kind: TextKind = "answer"


class Ignored(NamedTuple):
    """Parameters that the model's provider does not have; told once, before the model is asked."""

    parameters: tuple[str, ...]


type TurnEvent = Text | ToolCalled | ToolReturned | TakenBack | Ignored


class ModelUsage(NamedTuple):
    """The tokens of one round-trip to a model."""

    model: str
    tokens: Mapping[TokenKind, int]
    """No kind has none; `input` leaves out what is cached where the provider has `cache_read`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What a turn ends with."""

    content: Sequence[ContentBlock]
    """The texts of the turn, the answer's last, then its images; see `messages.result_content`."""
    rows: Sequence[Row] = ()
    """All messages of the turn, the user's first, to be kept and sent as history."""
    usage: Sequence[ModelUsage] = ()
    finish_reason: FinishReason = "stop"
    incomplete: Reason | None = None
    """Why this is no whole answer; None where it is, and where the turn is held."""
    turns_left_out: int = 0
    """How many of the oldest turns the model was not given, because it could not take all."""
    structured: Structured | None = None
    """The answer that fits a schema, where there is one."""
