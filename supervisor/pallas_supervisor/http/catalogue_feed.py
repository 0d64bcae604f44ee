"""Keeps the catalogue in step with the agents: who is listed, with which model, since when.

Knows the agents' status and the catalogue's entries; nothing of HTTP.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pallas_registry.catalogue.entries import Catalogue, server_entry

if TYPE_CHECKING:
    from pallas_registry.catalogue.entries import CatalogueView
    from pallas_supervisor.agents.observers import AgentObservers
    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.reload.drift import Drift


class CatalogueFeed:
    """The catalogue of the agents, brought up to date by every change of them."""

    def __init__(self, status: StatusView, drift: Drift, observers: AgentObservers) -> None:
        self._status = status
        self._drift = drift
        self._catalogue = Catalogue()
        observers.changed.add(self._update)
        self._update()

    def view(self) -> CatalogueView:
        """The catalogue as it is."""
        return self._catalogue.view

    def _update(self) -> None:
        now = datetime.now(UTC)
        status, taken = self._status, self._drift.taken
        entries = []
        for name in status.listed():
            model, capabilities = taken.settings.default_model, taken.settings.capabilities
            if (said := status.reports.model(status.agents[name])) is not None:
                model, capabilities = said.model, said.capabilities
            deployment = taken.deployment
            entries.append(server_entry(deployment, deployment.agents[name], model, capabilities, now))
        self._catalogue.update(entries, now)
