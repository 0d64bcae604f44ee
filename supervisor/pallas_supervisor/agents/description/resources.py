"""Resources as documents: what they say, and for agents how they are. No value of a secret is in any of them.

Agents of `agents.yaml` are among them, with what their entry says, so that one list has all agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.problems import did_you_mean, shortened
from pallas_registry.resources.model import API_VERSION, KINDS, Kind, ResourceId
from pallas_registry.resources.references import users_of
from pallas_registry.resources.text import to_document
from pallas_supervisor.agents.description.settings import AGENT_FIELDS, ENTRY, agent_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_common.secrets.values import KnownSecrets
    from pallas_registry.deployment.model import Agent
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.reload.drift import Drift

_OF_THE_SPEC = frozenset({"description", "output_schema", "module", "card"})
"""Fields of an agent that are not below `run`."""

_SHOWN_IN_RUN = frozenset(AGENT_FIELDS) - _OF_THE_SPEC


class UnknownResourceError(Exception):
    """There is no such resource; the message says which."""


class ResourceDescriptions:
    """Describes resources."""

    def __init__(self, drift: Drift, status: StatusView, secrets: KnownSecrets) -> None:
        self._drift = drift
        self._secrets = secrets
        self._status = status

    def resolve(self, kind: Kind, name_or_uid: str) -> ResourceId:
        """The resource that is called so.

        Raises:
            UnknownResourceError: there is none.
        """
        taken = self._drift.taken
        id_ = ResourceId(kind, name_or_uid)
        if id_ in taken.assembly.kept.resources or id_ in taken.assembly.kept.problems:
            return id_
        if kind == "agent" and name_or_uid in taken.base.agents:
            return id_
        for resource in taken.assembly.kept.resources.of(kind).values():
            if resource.metadata is not None and resource.metadata.uid == name_or_uid:
                return resource.id
        near = did_you_mean(name_or_uid, [each.name for each in _ids(kind, taken)])
        hint = f"did you mean {near!r}?" if near else f"`pallasctl get {kind}` lists those that there are"
        raise UnknownResourceError(f"there is no {kind} {shortened(name_or_uid)!r}; {hint}")

    def named(self, words: Iterable[ResourceId]) -> list[ResourceId]:
        """The resources that are called so, or have that uid in place of a name; what is not there as it was given."""
        kept = self._drift.taken.assembly.kept.resources
        of_uid = {
            ResourceId(id_.kind, each.metadata.uid): id_
            for id_, each in kept.items()
            if each.metadata is not None
        }
        return [word if word in kept else of_uid.get(word, word) for word in words]

    def all(self, kind: Kind) -> list[dict[str, Any]]:
        """The documents of all resources of the kind; agents of `agents.yaml` first."""
        taken = self._drift.taken
        entries = {entry["name"]: entry for entry in self._status.entries()} if kind == "agent" else {}
        return [self._document(each, taken, entries) for each in _ids(kind, taken)]

    def one(self, resource: ResourceId) -> dict[str, Any]:
        """The document of a resource that is there, and which others use it."""
        taken = self._drift.taken
        running = resource.kind == "agent" and resource.name in self._status.agents
        entries = {entry["name"]: entry for entry in self._status.entries([resource.name] if running else [])}
        document = self._document(resource, taken, entries)
        if resource.kind != "agent":
            used_by = [str(each) for each in users_of(resource, taken.assembly.kept.resources)]
            document["status"] = {**document.get("status", {}), "usedBy": used_by}
        return document

    def version(self, resource: ResourceId) -> str | None:
        """The `resourceVersion`; None of what is not kept or cannot be read."""
        found = self._drift.taken.assembly.kept.resources.get(resource)
        return None if found is None else found.resource_version

    def _document(
        self, id_: ResourceId, taken: Configuration, entries: dict[str, dict[str, Any]]
    ) -> dict[str, Any]:
        kept = taken.assembly.kept
        problems = taken.disabled.get(id_, ())
        if (resource := kept.resources.get(id_)) is not None:
            document = to_document(resource, digest=kept.digest)
        elif id_.kind == "agent" and id_.name in taken.base.agents:
            document, problems = _of_file(taken.base.agents[id_.name], taken), ()
        else:
            document = {"apiVersion": API_VERSION, "kind": id_.kind, "metadata": {"name": id_.name}}
        if problems:
            said = [self._secrets.strike(str(problem)) for problem in problems]
            document["status"] = {"error": _summary(id_, len(problems)), "problems": said}
        elif id_.name in entries:
            document["status"] = entries[id_.name]
        return document


def _ids(kind: Kind, taken: Configuration) -> list[ResourceId]:
    kept = taken.assembly.kept
    declared = sorted(id_ for id_ in {*kept.resources, *kept.problems} if id_.kind == kind)
    if kind != "agent":
        return declared
    in_file = [ResourceId("agent", name) for name in taken.base.agents]
    return [*in_file, *(id_ for id_ in declared if id_.name not in taken.base.agents)]


def _of_file(agent: Agent, taken: Configuration) -> dict[str, Any]:
    """An agent of `agents.yaml` as far as a resource can say it; its variables may be secrets, and are left out."""
    said = {row["name"]: row["value"] for row in agent_settings(agent) if row["from"] == ENTRY}
    spec: dict[str, Any] = {"description": agent.description}
    if agent.output_schema is not None:
        spec["outputSchema"] = agent.output_schema
    if run := {name: value for name, value in said.items() if name in _SHOWN_IN_RUN}:
        spec["run"] = run
    source = {
        "file": str(taken.base.path),
        "line": agent.line,
        "kind": agent.source.key,
        "value": str(agent.source),
    }
    metadata = {"name": agent.name, "source": source}
    return {"apiVersion": API_VERSION, "kind": "agent", "metadata": metadata, "spec": spec}


def _summary(id_: ResourceId, count: int) -> str:
    return f"{id_} cannot be used: {'one problem' if count == 1 else f'{count} problems'}"


def kind_of(word: str) -> Kind | None:
    """The kind that the word names, singular or plural; None for another word."""
    singular = word.lower().removesuffix("s")
    return next((kind for kind in KINDS if kind == singular), None)
