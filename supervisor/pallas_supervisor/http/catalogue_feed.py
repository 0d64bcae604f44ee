"""Keeps the catalogue in step with the fleet: who is listed, with which model, since when.

Knows the fleet and the catalogue's entries; nothing of HTTP.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pallas_registry.catalogue.entries import Catalogue, server_entry

if TYPE_CHECKING:
    from pallas_registry.catalogue.entries import CatalogueView
    from pallas_supervisor.agents.manager import AgentManager


class Directory:
    """The catalogue of a fleet, brought up to date by every change of it."""

    def __init__(self, fleet: AgentManager) -> None:
        self._fleet = fleet
        self._catalogue = Catalogue()
        fleet.change_observers.append(self._update)
        self._update()

    def view(self) -> CatalogueView:
        """The catalogue as it is."""
        return self._catalogue.view

    def _update(self) -> None:
        now = datetime.now(UTC)
        fleet = self._fleet
        entries = []
        for name in fleet.listed():
            model, capabilities = fleet.settings.default_model, fleet.settings.capabilities
            if (said := fleet.reports.model(fleet.agents[name])) is not None:
                model, capabilities = said.model, said.capabilities
            entries.append(
                server_entry(fleet.deployment, fleet.deployment.agents[name], model, capabilities, now)
            )
        self._catalogue.update(entries, now)
