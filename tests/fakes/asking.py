"""Tools of a downstream server that ask its client back, in both eras: for an answer of its LLM, or of a human."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mcp.server.elicitation import AcceptedElicitation, CancelledElicitation, DeclinedElicitation
from mcp.server.mcpserver import Context  # noqa: TC002 - the server reads annotations
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


class Colour(BaseModel):
    """What a human is asked for."""

    colour: str


def _sample(text: str) -> Sample:
    content = TextContent(type="text", text=text)
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=50)


def _elicit(question: str) -> Elicit[Colour]:
    return Elicit(question, Colour)


def think(text: str, thought: Annotated[CreateMessageResult, Resolve(_sample)]) -> str:
    """What the client's LLM makes of the text."""
    assert isinstance(thought.content, TextContent)
    return f"thought: {thought.content.text}"


def ask(
    question: str,
    answer: Annotated[
        AcceptedElicitation[Colour] | DeclinedElicitation | CancelledElicitation, Resolve(_elicit)
    ],
) -> str:
    """What the client's human says."""
    return f"{answer.action}: {answer.data.colour if isinstance(answer, AcceptedElicitation) else None}"


def can(context: Context) -> list[str]:
    """What the client says that it can be asked for."""
    told = context.client_capabilities
    assert told is not None
    return [name for name in ("sampling", "elicitation", "roots") if getattr(told, name) is not None]


def add_asking_tools(server: MCPServer) -> None:
    """Give the server the tools `think(text)`, `ask(question)` and `can()`."""
    for tool in (think, ask, can):
        server.tool()(tool)
