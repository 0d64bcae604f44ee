"""Agents, projects and resources as the gateway knows them, and how documents of the control API become these. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

type Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """One agent: how it is, and what it is declared to be."""

    name: str
    state: str = "stopped"
    """In the words of the status document."""
    health: str = "unknown"
    message: str = ""
    since: str = ""
    generation: int = 0
    pid: int | None = None
    restarts: int = 0
    start: str = "always"
    depends_on: tuple[str, ...] = ()
    port: int | None = None
    socket: str | None = None
    url: str | None = None
    """One of port and socket is None; the URL too where it has no port."""

    uid: str | None = None
    """New at each creation of a resource; None for an agent of `agents.yaml`, as with what follows."""
    owner: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    version: int | None = None
    title: str = ""
    description: str = ""
    model: str | None = None
    """As fast-agent writes it, `provider.model`; None where it is not declared."""
    project: str | None = None
    source: str = "file"
    """`resource`, or what an agent of `agents.yaml` is made from: `module`, `card`."""
    output_schema: Json | None = field(default=None, repr=False)

    @property
    def is_new(self) -> bool:
        """Whether what it is declared to be is not known yet."""
        return self.source == "file" or (self.is_resource and self.uid is None)

    @property
    def is_resource(self) -> bool:
        """Whether it can be changed here."""
        return self.source == "resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRecord:
    """One resource of another kind, without its secrets."""

    kind: str
    name: str
    uid: str | None = None
    owner: str | None = None
    updated_at: str | None = None
    version: int | None = None
    description: str = ""
    servers: tuple[str, ...] = ()
    """Of a project."""
    model: str | None = None
    """Of an llm: `provider.model`."""
    usable: bool = True


class Resource(NamedTuple):
    """Which resource: `llm/small`."""

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Resource:
        """Of an event's name."""
        kind, _, name = text.partition("/")
        return cls(kind, name)


def with_status(record: AgentRecord, entry: Json) -> AgentRecord:
    """The agent as an entry of the status document says it is."""
    return replace(
        with_place(record, entry),
        state=entry["state"],
        health=entry["health"],
        message=entry["message"],
        since=entry["since"],
        generation=entry["generation"],
        pid=entry["pid"],
        restarts=entry["restarts"],
    )


def with_place(record: AgentRecord, entry: Json) -> AgentRecord:
    """The agent with what an entry of the status document says of it that no event does."""
    source = entry.get("source") or {}
    return replace(
        record,
        start=entry.get("start", "always"),
        depends_on=tuple(entry["depends_on"]),
        port=entry["port"],
        socket=entry.get("socket"),
        url=entry.get("url"),
        source="resource" if source.get("kind") == "resource" else _made_from(record),
    )


def _made_from(record: AgentRecord) -> str:
    return "file" if record.source == "resource" else record.source


def with_state(record: AgentRecord, event: Json) -> AgentRecord:
    """The agent after an event `state` of it."""
    return replace(
        record,
        state=event["state"],
        generation=event["generation"],
        pid=event["pid"],
        health=event["health"],
        message=event["message"],
        # Ready after ready: another process, that has taken over from the one before.
        since=event["time"] if _step(event) != (record.state, record.generation) else record.since,
    )


def _step(event: Json) -> tuple[str, int]:
    return event["state"], event["generation"]


def with_health(record: AgentRecord, event: Json) -> AgentRecord:
    """The agent after an event `health` of it."""
    return replace(record, health=event["health"], message=event["message"])


def with_definition(record: AgentRecord, document: Json, models: Mapping[str, str]) -> AgentRecord:
    """The agent as its resource declares it; of an agent of `agents.yaml` as far as a resource can say it.

    Args:
        models: name of an llm → `provider.model`.
    """
    metadata = document["metadata"]
    spec = document.get("spec") or {}
    run = spec.get("run") or {}
    source = metadata.get("source") or {}
    title = run.get("title") or record.name.title()
    return replace(
        record,
        uid=metadata.get("uid"),
        owner=metadata.get("owner"),
        created_at=metadata.get("createdAt"),
        updated_at=metadata.get("updatedAt"),
        version=metadata.get("version"),
        title=title,
        description=spec.get("description") or title,
        model=spec.get("model") or models.get(spec.get("llm") or ""),
        project=spec.get("project"),
        source=source.get("kind", "file") if source else "resource",
        output_schema=spec.get("outputSchema"),
    )


def resource_record(document: Json) -> ResourceRecord:
    """A resource of another kind than `agent`."""
    metadata = document["metadata"]
    spec = document.get("spec") or {}
    kind = document["kind"]
    model = f"{spec['type']}.{spec['model']}" if kind == "llm" and "model" in spec else None
    return ResourceRecord(
        kind=kind,
        name=metadata["name"],
        uid=metadata.get("uid"),
        owner=metadata.get("owner"),
        updated_at=metadata.get("updatedAt"),
        version=metadata.get("version"),
        description=spec.get("description") or "",
        servers=tuple(spec.get("servers") or ()) if kind == "project" else (),
        model=model,
        usable="error" not in (document.get("status") or {}),
    )
