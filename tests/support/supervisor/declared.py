"""Resources as people write them, for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_registry.resources.changes import AppliedFile
from pallas_registry.resources.documents import read_resources

if TYPE_CHECKING:
    from pallas_registry.resources.model import Kind

VALUE = "sk-a-value-that-nobody-may-see"


def document(kind: Kind, name: str, /, *, resource_version: str | None = None, **spec: Any) -> str:
    """One resource, as a line of JSON."""
    metadata = {"name": name} | ({} if resource_version is None else {"resourceVersion": resource_version})
    return json.dumps({"apiVersion": "pallas/v1", "kind": kind, "metadata": metadata, "spec": spec})


def secret(name: str = "keys", **data: str) -> str:
    """A secret; with `API_KEY` unless something else is given."""
    return document("secret", name, data=data or {"API_KEY": VALUE})


def llm(name: str = "small", **spec: Any) -> str:
    """A model whose key is in the secret `keys`."""
    given = {"type": "openai", "model": "m", "url": "http://127.0.0.1:9/v1", "apiKeyRef": "keys/API_KEY"}
    return document("llm", name, **given | spec)


def open_llm(name: str = "open") -> str:
    """A model that needs no key."""
    return document("llm", name, type="openai", model="m", url="http://127.0.0.1:9/v1")


def agent(name: str = "deployer", **spec: Any) -> str:
    """An agent that uses the model `small`."""
    return document("agent", name, **{"description": "It deploys", "llm": "small"} | spec)


def file(name: str, *documents: str) -> AppliedFile:
    """A file of an apply."""
    read = read_resources("\n---\n".join(documents).encode(), name)
    return AppliedFile(name=name, resources=read.resources, problems=read.problems, versions=read.versions)
