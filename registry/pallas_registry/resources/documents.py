"""Documents of YAML or JSON read as resources: strictly, and every problem in one run.

Knows what surrounds a spec: `apiVersion`, `kind`, `metadata`, lists of resources; what a spec may say is `kinds`'.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple, cast

from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_registry.reading.fields import Fields
from pallas_registry.reading.files import text_of
from pallas_registry.reading.nodes import compose_all, line_of
from pallas_registry.resources.kinds.names import resource_name
from pallas_registry.resources.kinds.table import TABLE
from pallas_registry.resources.model import (
    API_VERSION,
    KINDS,
    NETWORKS,
    OTHER_API_VERSIONS,
    WITH_NETWORK,
    Metadata,
    Resource,
    ResourceId,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import yaml

    from pallas_registry.resources.model import Kind, Network

MOST_DOCUMENTS = 2000
"""Of one file, and resources in it."""
MOST_PROBLEMS = 1000
"""Of one file; what follows is not read."""

KEYS = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA_KEYS = ("name", "uid", "owner", "version", "createdAt", "updatedAt", "resourceVersion")
NETWORK_KEY = "network"
SHOWN_METADATA_KEYS = ("source",)
"""Of an agent of `agents.yaml`, which may come back as it was shown, to be refused for what it is."""
LIST_KEYS = ("apiVersion", "kind", "metadata", "items")
LONGEST_KEPT = 256
"""Characters of what Pallas itself has written into the metadata."""

_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


class ReadResources(NamedTuple):
    """What was read. Where there are problems, the file is not to be used."""

    resources: tuple[Resource, ...]
    """Those without a problem, in the order of the file."""
    problems: tuple[Problem, ...]
    versions: Mapping[ResourceId, str] = {}
    """`metadata.resourceVersion`, of those that say which one they were made from."""


def read_resources(data: bytes, file: str) -> ReadResources:
    """The resources in the content of a file, or what comes from elsewhere and is called `file` in problems."""
    reader = _Reader(file)
    try:
        text = _joined_surrogates(text_of(data, file))
        for root in compose_all(text, file, MOST_DOCUMENTS):
            reader.document(root)
            if len(reader.problems) > MOST_PROBLEMS:
                break
    except ConfigurationError as error:
        reader.problems += error.found
    problems = sorted(reader.problems, key=lambda problem: problem.line or 0)
    return ReadResources(tuple(reader.found.values()), tuple(problems), reader.versions)


def _joined_surrogates(text: str) -> str:
    """JSON's way of writing a character beyond U+FFFF, which YAML does not know, replaced by the character."""

    def character(match: re.Match[str]) -> str:
        pair = bytes.fromhex(match[2]) + bytes.fromhex(match[3])
        return match[1] + pair.decode("utf-16-be")

    return _SURROGATES.sub(character, text) if text.lstrip().startswith(("{", "[")) else text


class _Reader:
    """Reads the documents of one file."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self.found: dict[ResourceId, Resource] = {}
        self.versions: dict[ResourceId, str] = {}
        self._file = file
        self._first: dict[ResourceId, int] = {}
        self._count = 0

    def document(self, root: yaml.Node) -> None:
        """Read one document: a resource, or a list of them."""
        fields = Fields(root, file=self._file, field="", line=line_of(root), problems=self.problems)
        kind = fields.node("kind")
        if "items" not in fields and getattr(kind, "value", None) != "List":
            self._resource(fields)
            return
        fields.only(LIST_KEYS)
        self._check_version(fields)
        fields.require("items", "list the resources there")
        for item in fields.items("items", MOST_DOCUMENTS):
            self._resource(fields.of_item(item))
            if len(self.problems) > MOST_PROBLEMS:
                break

    def _check_version(self, fields: Fields) -> None:
        version = fields.text("apiVersion")
        if version is not None and version not in (API_VERSION, *OTHER_API_VERSIONS):
            fields.refuse("apiVersion", f"{quoted(version)} is not known", f"write `{API_VERSION}`")

    def _resource(self, fields: Fields) -> None:
        if not fields.is_mapping:
            return
        before = len(self.problems)
        self._count += 1
        if self._count > MOST_DOCUMENTS:
            message = f"holds more than {MOST_DOCUMENTS} resources"
            raise ConfigurationError([Problem(self._file, fields.own_line, "", message, "split the file")])
        fields.only(KEYS)
        fields.require("apiVersion", f"write `apiVersion: {API_VERSION}`")
        fields.require("kind", f"write one of {', '.join(KINDS)}")
        fields.require("metadata", "name the resource, as in `metadata: {name: …}`")
        self._check_version(fields)
        kind = cast("Kind | None", fields.choice("kind", KINDS))
        metadata = fields.section("metadata")
        name = None if metadata is None else self._name(metadata, kind)
        noted, version = (None, None) if metadata is None else _metadata(metadata)
        network = None if metadata is None else _network(metadata, kind)
        fields.require("spec", "say what the resource is")
        spec_fields = fields.section("spec")
        if spec_fields is None or not spec_fields.is_mapping or kind is None:
            return
        spec = TABLE[kind].read(name or "", spec_fields)
        if name is None:
            return
        id_ = ResourceId(kind, name)
        first = self._first.setdefault(id_, fields.own_line)
        if id_ in self.found or first != fields.own_line:
            message = f"{id_} is there twice, first on line {first}"
            fields.refuse("metadata", message, "remove one of the two")
        if len(self.problems) > before:
            return
        lines = _lines(fields, metadata, spec_fields)
        self.found[id_] = Resource(
            id=id_, spec=spec, metadata=noted, network=network, file=self._file, lines=lines
        )
        if version is not None:
            self.versions[id_] = version

    def _name(self, metadata: Fields, kind: Kind | None) -> str | None:
        metadata.only((*METADATA_KEYS, NETWORK_KEY, *SHOWN_METADATA_KEYS))
        metadata.require("name", "name the resource, as in `name: deployer`")
        return metadata.text("name", lambda text: None if kind is None else resource_name(kind, text))


def _metadata(fields: Fields) -> tuple[Metadata | None, str | None]:
    """What Pallas has noted, where all of it is there; and `resourceVersion`."""
    given = {
        key: fields.scalar(key) for key in METADATA_KEYS[1:] if key in fields and not fields.is_empty(key)
    }
    for key, value in given.items():
        if value is not None and len(value) > LONGEST_KEPT:
            fields.refuse(key, f"has {len(value)} characters", "remove the key: Pallas writes it itself")
    uid, owner, version, created, updated = (given.get(key) for key in METADATA_KEYS[1:6])
    counted = int(version) if version is not None and re.fullmatch("[1-9][0-9]{0,8}", version) else None
    noted = None
    if uid and owner and counted and created and updated:
        noted = Metadata(uid=uid, owner=owner, version=counted, created_at=created, updated_at=updated)
    return noted, given.get("resourceVersion")


def _network(fields: Fields, kind: Kind | None) -> Network | None:
    """Whether it may lead to this machine, of a kind that may lead anywhere."""
    if NETWORK_KEY not in fields:
        return None
    if kind is not None and kind not in WITH_NETWORK:
        fields.refuse(NETWORK_KEY, f"is nothing that a resource of kind {kind} has", "remove it")
        return None
    return cast("Network | None", fields.choice(NETWORK_KEY, NETWORKS))


def _lines(fields: Fields, metadata: Fields | None, spec: Fields) -> dict[str, int]:
    """The lines of what messages may have to name after the document has been read."""
    sections = {"metadata": metadata, "spec": spec, "spec.run": spec.section("run")}
    sections["spec.data"] = spec.section("data") if "data" in spec else None
    lines = {"": fields.own_line}
    for path, section in sections.items():
        if section is not None:
            lines[path] = section.own_line
            lines |= {sys.intern(f"{path}.{key}"): line for key, line in section.key_lines().items()}
    return lines
