"""What a check has found, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_common.problems import Problem
    from pallas_common.protocol.inspection import Inspection

Level = Literal["error", "warning"]
Cause = Literal["configuration", "machine"]
"""What has to change: what the deployment says, or something around it, such as a port that is taken."""
Result = Literal["ok", "warning", "error"]
RESULTS: tuple[Result, ...] = ("ok", "warning", "error")
"""From the best to the worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or should be different."""

    problem: Problem
    level: Level = "error"
    cause: Cause = "configuration"
    agent: str | None = None
    """None for what concerns the whole deployment."""
    output: str = ""
    """The end of what the agent's code printed, where that may explain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAgent:
    """One agent whose code was tried."""

    name: str
    result: Result
    seconds: float
    inspection: Inspection | None
    """None where it cannot be started."""
    alike: tuple[str, ...] = ()
    """Declared agents that were not tried because they are made of the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """All that a check has found."""

    path: Path
    """Of `agents.yaml`, as it was named."""
    deployment: str | None
    """Its name; None where the files cannot be used."""
    names: tuple[str, ...] = ()
    """Of all agents."""
    agents: tuple[CheckedAgent, ...] = ()
    """Those whose code was tried, in the order of the file."""
    not_tried: tuple[str, ...] = ()
    """Agents that nothing is known of, because there are too many."""
    findings: tuple[Finding, ...] = ()
    gateway: str | None = None
    """URL by which clients reach the gateway's MCP; None where there is none."""
    open_network: tuple[str, ...] = ()
    """Where there is one, the servers and llms whose URLs may lead to this machine, as `server/NAME`."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What keeps the deployment from being good."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What it can be started with all the same."""
        return tuple(finding for finding in self.findings if finding.level == "warning")

    @property
    def result(self) -> Result:
        """The whole in one word."""
        return worst(*(finding.level for finding in self.findings))


def worst(*results: Result) -> Result:
    """The worst of them; `ok` of none."""
    return max(results, key=RESULTS.index, default="ok")
