"""The mirror itself: what documents and events of the supervisor make of it, and what of it has changed. No I/O.

Events say how agents are, in order. What agents and resources are declared to be comes with documents, which whoever
feeds this fetches anew for all that is `stale`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_gateway.directory import topics
from pallas_gateway.directory.records import (
    AgentRecord,
    Resource,
    ResourceRecord,
    resource_record,
    with_definition,
    with_health,
    with_place,
    with_state,
    with_status,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_gateway.directory.events.topics import Topic

type Json = Mapping[str, Any]

KINDS = ("secret", "llm", "server", "project", "agent")
"""Each after those that it refers to."""


class Gone(NamedTuple):
    """An agent that is not there any more; there may be another one of its name."""

    name: str
    uid: str | None
    deleted: bool
    """Whether somebody has deleted it: not where a file says something else."""


@dataclass(slots=True)
class Changes:
    """What some documents or events have changed."""

    topics: dict[Topic, None] = field(default_factory=dict)
    gone: list[Gone] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    """Whose declaration has to be fetched anew."""
    resources: set[Resource] = field(default_factory=set)
    """Of other kinds, likewise."""
    upstreams: set[str] = field(default_factory=set)
    """Agents whose way, key or tokens are others."""
    projects: bool = False
    """Whether the ways of projects are others."""
    membership: bool = False
    """Whether there are other agents than before, which any compositor may list, depending on its grants."""

    def tell(self, *changed: Topic) -> None:
        """These have changed."""
        self.topics.update(dict.fromkeys(changed))

    def merge(self, later: Changes) -> None:
        """These as well."""
        self.topics.update(later.topics)
        self.gone += later.gone
        self.agents |= later.agents
        self.resources |= later.resources
        self.upstreams |= later.upstreams
        self.projects |= later.projects
        self.membership |= later.membership


class Mirror:
    """What is known of the deployment."""

    def __init__(self) -> None:
        self.agents: dict[str, AgentRecord] = {}
        self.resources: dict[str, dict[str, ResourceRecord]] = {kind: {} for kind in KINDS[:-1]}
        self.supervisor: Json = {}
        """The status document without its agents."""
        self.epoch, self.seq = "", 0
        """Position of the newest event that is in here."""
        self._names: dict[str, str] = {}
        """uid → name of the agent."""
        self._told: dict[str, int] = {}
        """Agent → the newest event on how it is."""
        self._dependents: dict[str, set[str]] | None = None

    def agent(self, name_or_uid: str) -> AgentRecord | None:
        """The agent that is called so."""
        return self.agents.get(name_or_uid) or self.agents.get(self._names.get(name_or_uid, ""))

    def take_all(self, status: Json, documents: Mapping[str, Iterable[Json]]) -> Changes:
        """All anew.

        Args:
            documents: kind → the documents of its resources, asked for after the status.
        """
        changes = Changes(projects=True)
        before, before_resources = self.agents, self.resources
        self.resources = {
            kind: {each["metadata"]["name"]: resource_record(each) for each in documents[kind]}
            for kind in KINDS[:-1]
        }
        models = self._models()
        declared = {each["metadata"]["name"]: each for each in documents["agent"]}
        self.agents = {}
        for entry in status["agents"]:
            record = with_status(AgentRecord(name=entry["name"]), entry)
            if (document := declared.get(record.name)) is not None:
                record = with_definition(record, document, models)
            self.agents[record.name] = record
        self.supervisor = {key: value for key, value in status.items() if key != "agents"}
        self.epoch, self.seq = status["events"]["epoch"], status["events"]["seq"]
        self._names = {record.uid: name for name, record in self.agents.items() if record.uid}
        self._told = {}
        self._dependents = None
        self._compare(before, changes)
        for kind in KINDS[:-1]:
            if self.resources[kind] != before_resources[kind]:
                changes.tell(topics.resources(kind))
        if self.resources["project"] != before_resources["project"]:
            changes.tell(topics.PROJECTS)
            for name in {*self.resources["project"], *before_resources["project"]}:
                changes.tell(*topics.lists_of_project(name))
        changes.tell(topics.SUPERVISOR)
        return changes

    def _compare(self, before: Mapping[str, AgentRecord], changes: Changes) -> None:
        for name in {*before, *self.agents}:
            old, new = before.get(name), self.agents.get(name)
            if old == new:
                continue
            self._tell_declared(name, old or new, changes)
            changes.tell(topics.agent_state(name))
            changes.upstreams.add(name)
            if old is not None and (new is None or (old.uid != new.uid and old.uid is not None)):
                # Where there is no uid now, a file that cannot be read may be the old one's.
                changes.gone.append(Gone(name, old.uid, deleted=new is not None and new.uid is not None))
        if before.keys() != self.agents.keys():
            changes.membership = True

    def take_event(self, event: Json) -> Changes:
        """What an event changes; unknown ones change nothing."""
        changes = Changes()
        self.epoch, self.seq = event["epoch"], event["seq"]
        match event["kind"]:
            case "agent":
                self._take_agent_event(event["name"], event, changes)
            case "resource":
                self._take_resource_event(Resource.parse(event["name"]), event, changes)
            case "configuration":
                changes.tell(topics.SUPERVISOR)
                changes.projects = True
            case _:
                pass
        return changes

    def _take_agent_event(self, name: str, event: Json, changes: Changes) -> None:
        record = self.agents.get(name)
        match event["event"]:
            case "added":
                self.agents[name] = record or AgentRecord(name=name)
                changes.agents.add(name)
                changes.upstreams.add(name)
                changes.membership = True
            case "changed":
                changes.agents.add(name)
                changes.upstreams.add(name)
            case "removed" if record is not None:
                del self.agents[name]
                self._names.pop(record.uid or "", None)
                self._told.pop(name, None)
                self._dependents = None
                self._tell_declared(name, record, changes)
                changes.membership = True
                changes.tell(topics.agent_state(name))
                changes.upstreams.add(name)
                changes.gone.append(Gone(name, record.uid, deleted=False))
            case "state" if record is not None:
                if event["generation"] != record.generation or event["pid"] != record.pid:
                    changes.upstreams.add(name)
                self._now(with_state(record, event), changes)
            case "health" if record is not None:
                self._now(with_health(record, event), changes)
            case "restart" if record is not None:
                self._now(replace(record, restarts=record.restarts + 1), changes)
            case "replacement":
                changes.upstreams.add(name)
                if record is not None:
                    self._now(replace(record, message=event["message"]), changes)
            case _:
                pass

    def _now(self, record: AgentRecord, changes: Changes) -> None:
        self.agents[record.name] = record
        self._told[record.name] = self.seq
        changes.tell(topics.AGENTS, topics.agent_state(record.name), topics.agent_snapshot(record.name))

    def _take_resource_event(self, resource: Resource, event: Json, changes: Changes) -> None:
        kind, name = resource
        changes.tell(topics.resources(kind))
        deleted = event["event"] == "deleted"
        if kind == "agent":
            if deleted and event.get("cause") == "request":
                changes.gone.append(Gone(name, event.get("uid"), deleted=True))
            elif name in self.agents:
                changes.agents.add(name)
            return
        if kind not in self.resources:
            return
        if deleted:
            self.resources[kind].pop(name, None)
        else:
            changes.resources.add(resource)
        if kind == "project":
            changes.tell(topics.PROJECTS, *topics.lists_of_project(name))
        changes.projects = True

    def take_agent(self, name: str, document: Json, asked_at: int) -> Changes:
        """The declaration of an agent.

        Args:
            asked_at: `seq` when it was asked for: what events after that say of the agent is newer.
        """
        changes = Changes()
        if (old := self.agents.get(name)) is None:
            return changes  # meanwhile
        new = with_definition(old, document, self._models())
        if (entry := document.get("status")) and "error" not in entry:
            newer = self._told.get(name, 0) > asked_at
            new = with_place(new, entry) if newer else with_status(new, entry)
        self.agents[name] = new
        if new.depends_on != old.depends_on:
            self._dependents = None
        if old.uid != new.uid:
            self._names.pop(old.uid or "", None)
        if new.uid:
            self._names[new.uid] = name
        self._tell_declared(name, new, changes)
        if old.project != new.project and old.project:
            changes.tell(*topics.lists_of_project(old.project))
        changes.tell(topics.agent_state(name))
        return changes

    def take_resource(self, document: Json) -> Changes:
        """The declaration of a resource of another kind."""
        changes = Changes()
        record = resource_record(document)
        self.resources[record.kind][record.name] = record
        changes.tell(topics.resources(record.kind))
        if record.kind == "project":
            changes.tell(topics.PROJECTS, *topics.lists_of_project(record.name))
        return changes

    def record_of(self, name: str, document: Json) -> AgentRecord:
        """The agent as a document says that is newer, whether it is in the mirror yet or not."""
        record = self.agents.get(name) or AgentRecord(name=name)
        if "metadata" in document:
            record = with_definition(record, document, self._models())
        entry = document.get("status")
        return with_status(record, entry) if entry and "error" not in entry else record

    def _tell_declared(self, name: str, record: AgentRecord | None, changes: Changes) -> None:
        changes.tell(
            topics.AGENTS,
            topics.agent_info(name),
            topics.agent_snapshot(name),
            topics.resources("agent"),
            *topics.lists_of_agent(name),
        )
        for other in self._dependents_of(name):  # which list it as a tool
            changes.tell(*topics.lists_of_agent(other))
        if record is not None and record.project:
            changes.tell(*topics.lists_of_project(record.project))

    def _dependents_of(self, name: str) -> set[str]:
        if self._dependents is None:
            self._dependents = {}
            for other in self.agents.values():
                for need in other.depends_on:
                    self._dependents.setdefault(need, set()).add(other.name)
        return self._dependents.get(name, set())

    def _models(self) -> dict[str, str]:
        return {name: each.model for name, each in self.resources["llm"].items() if each.model}
