"""An agent whose library is of today."""

import semver
from fast_agent import FastAgent

fast = FastAgent("New", parse_cli_args=False)


@fast.agent(name="new", instruction="You compare versions.")
async def new() -> None:
    """Pallas serves the agent; there is nothing to do here."""


@fast.tool
def newest(versions: list[str]) -> str:
    """Returns the newest of some versions."""
    found = max(versions, key=semver.Version.parse)  # this name came with semver 3
    return f"{found}, by semver {semver.__version__}"
