"""Engineering calculates with a tool of its own. Put your build system, shell or repository here."""

from fast_agent import FastAgent

fast = FastAgent("Engineering", parse_cli_args=False)


@fast.agent(
    name="engineering",
    instruction="You are an engineer. Work out what you are asked, and state what you assumed.",
)
async def engineering() -> None:
    """Pallas serves the agent; there is nothing to do here."""


@fast.tool
def estimate(tasks: int, hours_each: float) -> str:
    """Estimates the hours for a number of like tasks, with a margin of a quarter."""
    return f"{tasks} tasks at {hours_each:g} h: {tasks * hours_each * 1.25:g} h, with a margin of a quarter."
