"""An agent that is reached through a proxy."""

from fast_agent import FastAgent

fast = FastAgent("Greeter", parse_cli_args=False)


@fast.agent(name="greeter", instruction="You greet people.")
async def greeter() -> None:
    """Pallas serves the agent; there is nothing to do here."""
