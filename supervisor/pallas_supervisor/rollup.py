"""The health roll-up: from states and the workers' own reports to one document. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_supervisor.states import Desired, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_registry.protocol import HealthReport, Status
    from pallas_supervisor.states import Agent


def agent_health(agent: Agent, report: HealthReport | None) -> Status:
    """`error` unless the agent is READY; then what it says of itself, `ok` until it has said something."""
    if agent.state is not State.READY:
        return "error"
    return "ok" if report is None else report.status


def roll_up(
    agents: Mapping[str, Agent],
    reports: Mapping[str, HealthReport],
    messages: Mapping[str, str],
    timestamp: str,
) -> dict[str, Any]:
    """The document of `GET /health`.

    `ok` when every agent that should run is ready and ok, `error` when none of them can serve, `degraded`
    otherwise. Agents that should not run are shown and do not count.

    Args:
        messages: per agent why it is in its state; the report's own message wins while it is READY.
    """
    entries: dict[str, dict[str, str]] = {}
    wanted: list[Status] = []
    for name, agent in agents.items():
        report = reports.get(name)
        status = agent_health(agent, report)
        entry = entries[name] = {"status": status, "state": str(agent.state)}
        if status != "ok":
            said = report.message if report is not None and agent.state is State.READY else None
            entry["message"] = said or messages.get(name) or f"the agent is {agent.state}"
        if agent.desired is Desired.UP:
            wanted.append(status)
    return {"status": _overall(wanted), "timestamp": timestamp, "agents": entries}


def _overall(wanted: list[Status]) -> Status:
    if all(status == "ok" for status in wanted):
        return "ok"
    if all(status == "error" for status in wanted):
        return "error"
    return "degraded"
