"""The health roll-up: from states and the workers' own reports to one document. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_supervisor.lifecycle.states import Desired, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_common.protocol.reports import DownstreamHealth, HealthReport, ProviderHealth, Status
    from pallas_supervisor.health.history import HealthHistory, Past
    from pallas_supervisor.lifecycle.states import Agent


def agent_health(agent: Agent, report: HealthReport | None) -> Status:
    """What the agent says of itself while it is READY; `ok` until it has said something, and where one may count on it.

    An agent that starts on demand is well while it wakes and while it goes idle: else each call would be a change.
    """
    if agent.state is State.READY and report is not None:
        return report.status
    return "ok" if agent.is_available else "error"


def roll_up(
    agents: Mapping[str, Agent],
    reports: Mapping[str, HealthReport],
    why: Callable[[str], str],
    history: HealthHistory,
    timestamp: str,
) -> dict[str, Any]:
    """The document of `GET /health`.

    `ok` when every agent that should run is ready and ok, `error` when none of them can serve, `degraded`
    otherwise. Agents that should not run are shown and do not count. What a worker has found counts while its
    agent is READY: until then it is not checked.

    Args:
        why: says why an agent is in its state; the report's own message wins while it is READY.
        history: since when all is as it is.
    """
    entries: dict[str, dict[str, Any]] = {}
    wanted: list[Status] = []
    for name, agent in agents.items():
        report = reports.get(name) if agent.state is State.READY else None
        status = agent_health(agent, report)
        entry = entries[name] = {"status": status, "state": str(agent.state), "since": history.since(name)}
        if status != "ok":
            said = report.message if report is not None else None
            entry["message"] = said or why(name) or f"the agent is {agent.state}"
        if agent.desired is Desired.UP:
            wanted.append(status)
        if agent.state is State.IDLE:  # there may be very many
            continue
        entry["checked"] = None if report is None else report.timestamp
        entry["downstreams"] = [
            _entry(server, history.downstream(name, server.name)) | {"incomplete": server.incomplete}
            for server in (() if report is None else report.downstreams)
        ]
        provider = None if report is None else report.provider
        entry["provider"] = (
            None if provider is None else _entry(provider, history.provider(name, provider.name))
        )
    return {"status": overall(wanted), "timestamp": timestamp, "agents": entries}


def _entry(found: DownstreamHealth | ProviderHealth, past: Past | None) -> dict[str, Any]:
    """One server or provider, as the agent's newest probe found it."""
    return {
        "name": found.name,
        "up": found.up,
        "since": None if past is None else past.since,
        "checked": found.checked,
        "latency": None if found.latency is None else round(found.latency, 6),
        "error": found.error,
        "last_error": None if past is None else past.last_error,
        "last_error_at": None if past is None else past.last_error_at,
    }


def overall(wanted: list[Status]) -> Status:
    """The health of the deployment, from that of the agents that should run."""
    if all(status == "ok" for status in wanted):
        return "ok"
    if all(status == "error" for status in wanted):
        return "error"
    return "degraded"


def with_gateway(agents: Status, gateway: Status, *, closed: bool) -> Status:
    """The health of the deployment, from that of its agents and that of its gateway.

    Args:
        closed: nobody reaches an agent.
    """
    if closed:
        return "error"
    return "degraded" if agents == "ok" and gateway != "ok" else agents
