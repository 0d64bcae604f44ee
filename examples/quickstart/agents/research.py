"""Research looks things up with a tool of its own. Put your search engine or document store here."""

from fast_agent import FastAgent

fast = FastAgent("Research", parse_cli_args=False)

_LIBRARY = {
    "pallas": "Pallas runs every LLM agent as a supervised MCP server of its own. (Source: its README)",
    "mcp": "MCP, the Model Context Protocol, connects models to tools and data. (Source: its specification)",
}


@fast.agent(
    name="research",
    instruction="You are a researcher. Look up what you are asked, and answer briefly with the source.",
)
async def research() -> None:
    """Pallas serves the agent; there is nothing to do here."""


@fast.tool
def look_up(topic: str) -> str:
    """Returns what the library holds on a topic."""
    return _LIBRARY.get(topic.lower(), f"The library holds nothing on {topic}.")
