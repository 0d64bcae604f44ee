"""Since when each agent, server and provider is as it is, and what was last wrong with it.

Kept by agent, over restarts of its workers. Pure; moments are RFC 3339.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_common.protocol.reports import DownstreamHealth, HealthReport, ProviderHealth, Status


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of one server or provider, as one agent sees it."""

    up: bool
    since: str
    """When it was first found so."""
    last_error: str | None = None
    """Why it is down, or was the last time; None if it has never been."""
    last_error_at: str | None = None
    """When that was last found."""


class HealthHistory:
    """The past of all agents."""

    def __init__(self) -> None:
        self._statuses: dict[str, tuple[Status, str]] = {}
        self._downstreams: dict[str, dict[str, Past]] = {}
        self._providers: dict[str, dict[str, Past]] = {}

    def note(self, name: str, status: Status, now: str) -> None:
        """The agent's health is this from now on, unless it has been before."""
        if name not in self._statuses or self._statuses[name][0] != status:
            self._statuses[name] = (status, now)

    def take(self, name: str, report: HealthReport) -> None:
        """Remember what the agent's worker has found; what it does not look at any more is forgotten."""
        known = self._downstreams.get(name, {})
        self._downstreams[name] = {
            server.name: _remember(known.get(server.name), server, report.timestamp)
            for server in report.downstreams
        }
        provider, asked = report.provider, self._providers.get(name, {})
        self._providers[name] = (
            {provider.name: _remember(asked.get(provider.name), provider, report.timestamp)}
            if provider
            else {}
        )

    def since(self, name: str) -> str | None:
        """Since when the agent's health is what it is."""
        return self._statuses[name][1] if name in self._statuses else None

    def downstream(self, name: str, server: str) -> Past | None:
        """What is remembered of the agent's server."""
        return self._downstreams.get(name, {}).get(server)

    def provider(self, name: str, provider: str) -> Past | None:
        """What is remembered of the agent's LLM provider."""
        return self._providers.get(name, {}).get(provider)

    def forget(self, name: str) -> None:
        """The agent has left."""
        for kept in (self._statuses, self._downstreams, self._providers):
            kept.pop(name, None)


def _remember(past: Past | None, found: DownstreamHealth | ProviderHealth, reported: str) -> Past:
    moment = found.checked or reported
    if past is None or past.up != found.up:
        last = (None, None) if past is None else (past.last_error, past.last_error_at)
        past = Past(found.up, moment, *last)
    return past if found.up else replace(past, last_error=found.error, last_error_at=moment)
