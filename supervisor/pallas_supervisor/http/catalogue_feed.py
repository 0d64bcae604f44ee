"""Keeps the catalogue in step with the agents: who is listed, with which model, since when.

Knows the agents' status and the catalogue's entries; nothing of HTTP.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pallas_registry.catalogue.entries import Catalogue, published_url, server_entry

if TYPE_CHECKING:
    from pallas_common.protocol.agent.llm import ModelCapabilities
    from pallas_registry.catalogue.entries import CatalogueView, Document
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.observers import AgentObservers
    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.reload.drift import Drift

    type Model = tuple[str | None, ModelCapabilities | None]


class CatalogueFeed:
    """The catalogue of the agents, brought up to date by every change of them."""

    def __init__(self, status: StatusView, drift: Drift, observers: AgentObservers) -> None:
        self._status = status
        self._drift = drift
        self._catalogue = Catalogue()
        self._of: Configuration | None = None
        self._known: dict[str, tuple[Model, Document]] = {}
        """What was published last of each agent of that configuration, and of which model."""
        observers.changed.add(self._update)
        self._update()

    def view(self) -> CatalogueView:
        """The catalogue as it is."""
        return self._catalogue.view

    def _update(self) -> None:
        """Bring it up to date; while many agents start, most of them are as they were at the change before."""
        now = datetime.now(UTC)
        if self._of is not self._drift.taken:
            self._of = self._drift.taken
            self._known.clear()
        deployment = self._of.deployment
        listed = (
            name
            for name in self._status.listed()
            if published_url(deployment, deployment.agents[name]) is not None
        )
        self._catalogue.update([self._entry(self._of, name, now) for name in listed], now)

    def _entry(self, taken: Configuration, name: str, now: datetime) -> Document:
        model = _before_its_start(taken, name)
        if (said := self._status.reports.model(self._status.agents[name])) is not None:
            model = (said.model, said.capabilities)
        known = self._known.get(name)
        if known is None or known[0] != model:
            entry = server_entry(taken.deployment, taken.deployment.agents[name], *model, now)
            known = self._known[name] = (model, entry)
        return known[1]  # whose own times do not count


def _before_its_start(taken: Configuration, name: str) -> Model:
    """What is known of the model of an agent that never ran."""
    definition = taken.deployment.agents[name].definition
    if definition is None or (definition.llm is None and definition.model is None):
        return taken.settings.default_model, taken.settings.capabilities
    llm = definition.llm
    return definition.model if llm is None else f"{llm.provider}.{llm.model}", None
