"""An agent that writes, with whatever model the settings name."""

from fast_agent import FastAgent

fast = FastAgent("Writer", parse_cli_args=False)


@fast.agent(name="writer", instruction="You write one short, plain sentence about what you are asked.")
async def writer() -> None:
    """Pallas serves the agent; there is nothing to do here."""
