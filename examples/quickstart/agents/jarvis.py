"""Jarvis delegates: the other two agents are MCP servers to it, like any other."""

from fast_agent import FastAgent

fast = FastAgent("Jarvis", parse_cli_args=False)


@fast.agent(
    name="jarvis",
    instruction=(
        "You are Jarvis, the user's assistant. Let the research agent find facts, let the engineering agent "
        "work out estimates, and say whose answer is whose."
    ),
    servers=["research", "engineering"],  # mcp.servers in fastagent.config.yaml
)
async def jarvis() -> None:
    """Pallas serves the agent; there is nothing to do here."""
