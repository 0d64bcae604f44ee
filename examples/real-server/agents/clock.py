"""An agent that asks an MCP server for the time."""

from fast_agent import FastAgent

fast = FastAgent("Clock", parse_cli_args=False)


@fast.agent(name="clock", instruction="You tell the time. Ask your tools; never guess.", servers=["time"])
async def clock() -> None:
    """Pallas serves the agent; there is nothing to do here."""
