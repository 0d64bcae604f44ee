"""A resource as a document and as YAML, for people and for files; what is written is read back as an equal resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from pallas_registry.reading.values import NUMBER
from pallas_registry.resources.model import API_VERSION, WITH_NETWORK
from pallas_registry.resources.secret_values import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_registry.resources.model import Resource
    from pallas_registry.resources.secret_values import Digest

type Document = dict[str, Any]

_WIDTH = 1 << 20
"""Characters of a line: none is broken, so that two texts differ only where two resources do."""


def to_document(resource: Resource, *, digest: Digest, status: Mapping[str, Any] | None = None) -> Document:
    """The resource as JSON, as it may be shown: a secret's values by their `digest`."""
    spec = shown(resource, digest) if resource.id.kind == "secret" else dict(resource.spec)
    document = _document(resource, spec)
    document["metadata"]["resourceVersion"] = resource.resource_version
    if status is not None:
        document["status"] = dict(status)
    return document


def to_text(document: Document) -> str:
    """A document as YAML, keys in the order in which they are there."""
    return _dumped([document])


def to_texts(documents: Iterable[Document]) -> str:
    """Several documents as one text of YAML."""
    return _dumped(documents)


def to_file_text(resource: Resource) -> str:
    """The resource as it is kept: with all that it says, a secret's values included."""
    return _dumped([_document(resource, dict(resource.spec))])


def _document(resource: Resource, spec: Mapping[str, Any]) -> Document:
    metadata: Document = {"name": resource.id.name}
    if (kept := resource.metadata) is not None:
        metadata |= {
            "uid": kept.uid,
            "owner": kept.owner,
            "version": kept.version,
            "createdAt": kept.created_at,
            "updatedAt": kept.updated_at,
        }
        if resource.id.kind in WITH_NETWORK:
            metadata["network"] = resource.network or "open"
    return {"apiVersion": API_VERSION, "kind": resource.id.kind, "metadata": metadata, "spec": spec}


_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc]
    """Writes what our reader reads, without anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _text(dumper: Any, text: str) -> yaml.Node:
    if "\n" in text:
        style = "|"
    elif NUMBER.fullmatch(text):
        style = '"'
    else:
        style = None
    node: yaml.Node = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _text)


def _dumped(documents: Iterable[Document]) -> str:
    text: str = yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH,
        default_flow_style=False,
    )
    return text
