"""The catalogue of agents: registry entries built from facts, and the list of those that can be used now.

Pure; knows the documents (server schema 2025-12-11) and when each of them last changed, not who asks for
them. Which agents are in the list is for the caller to decide.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import urlsplit

from pallas_common.protocol.agent.llm import model_name
from pallas_common.times import rfc3339
from pallas_registry.deployment.model import slug

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_common.protocol.agent.llm import ModelCapabilities
    from pallas_registry.deployment.model import Agent, Deployment

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
PUBLISHER_PROVIDED = "io.modelcontextprotocol.registry/publisher-provided"

OF_GATEWAY = "/mcp/agents/"
"""Path of the gateway below which each agent is a server of its own."""

AUTHORIZATION = {
    "name": "Authorization",
    "description": "`Bearer` and a token of this deployment's gateway",
    "isRequired": True,
    "isSecret": True,
}
"""The header that a client has to send to the gateway (KeyValueInput of the schema)."""

type Document = dict[str, Any]


@overload
def endpoint(host: str, port: int) -> str: ...


@overload
def endpoint(host: str, port: int | None) -> str | None: ...


def endpoint(host: str, port: int | None) -> str | None:
    """Where clients reach an agent; None for one without a port."""
    return None if port is None else f"{_origin(host, port)}/mcp"


def published_url(deployment: Deployment, agent: Agent) -> str | None:
    """Where others reach the agent: its own port, or the gateway where there is none or it is not for them.

    None for an agent without a port where there is no gateway.
    """
    gateway = deployment.gateway
    if gateway is not None and (agent.port is None or deployment.workers_behind):
        return f"{gateway.public_url}{OF_GATEWAY}{agent.name}"
    return endpoint(deployment.host, agent.port)


def is_of_gateway(url: str) -> bool:
    """Whether a published URL is one of the gateway, which wants a token and calls its tool `chat`."""
    return urlsplit(url).path.startswith(OF_GATEWAY)


def tool_of(url: str) -> str:
    """The tool that asks the agent at a published URL."""
    return "chat" if is_of_gateway(url) else "send_message"


def page_url(deployment: Deployment) -> str:
    """Where people find the status page, and clients the catalogue."""
    return f"{_origin(deployment.host, deployment.registry_port)}/"


def _origin(host: str, port: int) -> str:
    named = f"[{host}]" if ":" in host else host
    return f"http://{named}:{port}"


def server_document(
    deployment: Deployment, agent: Agent, model: str | None, capabilities: ModelCapabilities | None
) -> Document:
    """The agent as a `ServerDetail` of the schema, with `capabilities` beside, where clients read them.

    `model` is the agent's own, `provider.model-name`. Capabilities are published as they are declared, here
    and in the schema's place for what a publisher adds; None publishes none. Sizes are in tokens.
    """
    document: Document = {
        "$schema": SCHEMA,
        "name": f"{deployment.namespace}/{slug(agent.name)}",
        "title": agent.title,
        "description": agent.description,
        "version": deployment.version,
    }
    if agent.icon is not None:
        document["icons"] = [{"src": agent.icon, "sizes": ["any"]}]
    if (url := published_url(deployment, agent)) is not None:
        remote: Document = {"type": "streamable-http", "url": url}
        if deployment.gateway is not None and deployment.gateway.auth == "token" and is_of_gateway(url):
            remote["headers"] = [AUTHORIZATION]
        document["remotes"] = [remote]
    if capabilities is not None:
        published: Document = {} if model is None else {"model": model_name(model)}
        published |= {
            "vision": capabilities.vision,
            "context_window": capabilities.context_window,
            "max_output_tokens": capabilities.max_output_tokens,
        }
        document["capabilities"] = published
        document["_meta"] = {PUBLISHER_PROVIDED: {"capabilities": published}}
    return document


def server_entry(
    deployment: Deployment,
    agent: Agent,
    model: str | None,
    capabilities: ModelCapabilities | None,
    updated_at: dt.datetime,
    published_at: dt.datetime | None = None,
) -> Document:
    """The agent's entry in a list: its `server_document` and the registry's `_meta`."""
    document = server_document(deployment, agent, model, capabilities)
    return _entry(document, updated_at, published_at or updated_at)


def catalogue(entries: Iterable[Document]) -> Document:
    """The document of `/.well-known/mcp/server.json`."""
    return {"servers": list(entries)}


@dataclass(frozen=True, slots=True)
class Entry:
    """One published server. `document` must not be changed."""

    name: str
    version: str
    updated_at: dt.datetime
    published_at: dt.datetime
    document: Document


@dataclass(frozen=True, slots=True)
class CatalogueView:
    """The list as it is at one moment: entries in the order of the deployment, encoded once.

    `etag` changes with every change of the list, `changed_at` is the moment of the last one.
    """

    entries: tuple[Entry, ...]
    body: bytes
    etag: str
    changed_at: dt.datetime


class Catalogue:
    """The current list, and when each entry and the whole last changed. Times are aware."""

    def __init__(self) -> None:
        self._published: dict[str, dt.datetime] = {}
        self._begun = False
        self._view = _view((), dt.datetime.fromtimestamp(0, dt.UTC))

    @property
    def view(self) -> CatalogueView:
        """The newest view; the same object until the next change."""
        return self._view

    def update(self, entries: Iterable[Document], now: dt.datetime) -> bool:
        """Make `entries`, from `server_entry`, the current list; whether that changed anything.

        Their own times do not count: `updatedAt` becomes `now` only if the server is new or differs. One that
        was away and comes back is new, but keeps its `publishedAt`. The first update is always a change, so
        that what a cache holds from before a restart is out of date. A clock that is set back does not move
        time back.
        """
        now = max(now, self._view.changed_at)
        before = {entry.name: entry for entry in self._view.entries}
        current = []
        for document in (entry["server"] for entry in entries):
            old = before.get(document["name"])
            unchanged = old is not None and old.document["server"] == document
            current.append(old if old is not None and unchanged else self._new(document, now))
        if tuple(current) == self._view.entries and self._begun:
            return False
        self._begun = True
        self._view = _view(tuple(current), now)
        return True

    def _new(self, document: Document, now: dt.datetime) -> Entry:
        published_at = self._published.setdefault(document["name"], now)
        entry = _entry(document, now, published_at)
        return Entry(document["name"], document["version"], now, published_at, entry)


def encoded(document: Document) -> bytes:
    """The document as UTF-8 JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _entry(document: Document, updated_at: dt.datetime, published_at: dt.datetime) -> Document:
    official = {
        "status": "active",
        "publishedAt": rfc3339(published_at),
        "updatedAt": rfc3339(updated_at),
        "isLatest": True,
    }
    return {"server": document, "_meta": {OFFICIAL: official}}


def _view(entries: tuple[Entry, ...], now: dt.datetime) -> CatalogueView:
    body = encoded(catalogue(entry.document for entry in entries))
    digest = hashlib.blake2b(body, digest_size=12).hexdigest()
    return CatalogueView(entries, body, f'"{digest}"', now)
