"""What a resource is: a declared thing of one of five kinds, as frozen facts. Knows no file format and no disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Kind = Literal["agent", "llm", "secret", "server", "project"]

KINDS: tuple[Kind, ...] = get_args(Kind)

Network = Literal["open", "closed"]
"""Whether what a resource says may lead to this machine (`pallas_common.http.reach`), as its writer had the right."""

NETWORKS: tuple[Network, ...] = get_args(Network)

WITH_NETWORK: frozenset[Kind] = frozenset(("llm", "server", "secret"))
"""The kinds of which that is noted: those with a URL, and what may stand in one."""

REFERRED_FIRST: tuple[Kind, ...] = ("secret", "llm", "server", "project", "agent")
"""The kinds, each after those that it refers to."""

API_VERSION = "pallas/v1"
OTHER_API_VERSIONS = ("mcpctl.io/v1",)
"""Read as the same."""


LEFT_WITH_ITS_FILE = "is left out with the rest of its file"
"""What is said of a refused resource that is good itself: who shows the others need not show it."""


class ResourceId(NamedTuple):
    """Which resource: one name is there once in each kind."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        """As people write it: `agent/deployer`."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What Pallas notes of a resource that it keeps. Times are RFC 3339."""

    uid: str
    """New at each creation, so that a name used again is another thing."""
    owner: str
    """Who applied it first."""
    version: int
    """Counts its changes, from 1."""
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One declared thing. Two are equal that say the same, wherever it was read and whenever it was applied."""

    id: ResourceId
    spec: Mapping[str, Any] = field(repr=False)
    """What it says, as JSON in its canonical form: short forms, defaults left out. A secret's values are in it."""
    metadata: Metadata | None = field(default=None, compare=False)
    """None of one that has only been read."""
    network: Network | None = field(default=None, compare=False)
    """As its document says. None says nothing: who applies it decides, and a file that is kept is open."""
    file: str = field(default="", compare=False, repr=False)
    """Where it was read, for people."""
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Line of each field, by its path: `spec.run.port`; of the document by ``."""

    def line(self, path: str) -> int | None:
        """The line of a field, or of what it is in, as far as they are known: `spec.servers[0]`."""
        while path not in self.lines and path:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)

    def with_spec(self, spec: Mapping[str, Any]) -> Resource:
        """The same resource, saying something else."""
        return replace(self, spec=spec)

    @property
    def is_closed(self) -> bool:
        """Whether what it says may not lead to this machine."""
        return self.network == "closed"

    @property
    def resource_version(self) -> str:
        """Changes with all that the resource says, also by hand: 16 hexadecimal digits.

        Of a secret it leaves the values out, which whoever sees it could guess by it: they count as changed by API.
        """
        kept = self.metadata
        shown = sorted(self.spec["data"]) if self.id.kind == "secret" else self.spec
        said = [*self.id, shown, None if kept is None else (kept.uid, kept.version)]
        said += ["closed"] if self.is_closed else []
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class ResourceSet(Mapping[ResourceId, Resource]):
    """All resources of a deployment, by kind and name; it does not change."""

    __slots__ = ("_resources",)

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources = {resource.id: resource for resource in resources}

    def __getitem__(self, key: ResourceId) -> Resource:
        return self._resources[key]

    def __iter__(self) -> Iterator[ResourceId]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)

    def of(self, kind: Kind) -> dict[str, Resource]:
        """Those of one kind, by name."""
        return {each.id.name: each for each in self._resources.values() if each.id.kind == kind}

    def changed(self, put: Iterable[Resource] = (), gone: Iterable[ResourceId] = ()) -> ResourceSet:
        """The set with `put` added or in place of what they replace, and without `gone`."""
        left = {**self._resources, **{resource.id: resource for resource in put}}
        for each in gone:
            left.pop(each, None)
        return ResourceSet(left.values())
