"""An agent whose library is years old."""

import semver
from fast_agent import FastAgent

fast = FastAgent("Old", parse_cli_args=False)


@fast.agent(name="old", instruction="You compare versions.")
async def old() -> None:
    """Pallas serves the agent; there is nothing to do here."""


@fast.tool
def newest(versions: list[str]) -> str:
    """Returns the newest of some versions."""
    found = max(versions, key=semver.VersionInfo.parse)  # the name before semver 3
    return f"{found}, by semver {semver.__version__}"
