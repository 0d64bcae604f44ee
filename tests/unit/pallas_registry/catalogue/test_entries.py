"""The catalogue's documents: valid by the public schema, and true to when they changed."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.problems import ConfigurationError
from pallas_common.protocol.agent.llm import ModelCapabilities
from pallas_common.protocol.gateway import GatewaySettings
from pallas_registry.catalogue.entries import (
    OFFICIAL,
    PUBLISHER_PROVIDED,
    Catalogue,
    catalogue,
    server_document,
    server_entry,
)
from support.data.agents_text import parse
from support.data.catalogue import NOON, SECOND, deployment, entries
from support.repository import ROOT

SCHEMA = json.loads((ROOT / "tests" / "support" / "data" / "server-2025-12-11.json").read_bytes())
jsonschema.validators.validator_for(SCHEMA).check_schema(SCHEMA)  # once: it takes longer than any document
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
CAPABILITIES = ModelCapabilities(vision=False, context_window=200_000, max_output_tokens=32_000)


def test_an_entry_to_the_letter() -> None:
    whole = parse("""
        name: my-project
        host: my-host.example.com
        namespace: com.example.project
        agents:
          tech_research:
            module: m
            port: 8201
            title: Research Agent
            description: Web search
            icon: /icons/research.svg
    """)
    capabilities = {
        "model": "my-model-name",
        "vision": False,
        "context_window": 200_000,
        "max_output_tokens": 32_000,
    }
    entry = server_entry(whole, whole.agents["tech_research"], "openai.my-model-name", CAPABILITIES, NOON)
    assert entry == {
        "server": {
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": "com.example.project/tech-research",
            "title": "Research Agent",
            "description": "Web search",
            "version": "1.0.0",
            "icons": [{"src": "/icons/research.svg", "sizes": ["any"]}],
            "remotes": [{"type": "streamable-http", "url": "http://my-host.example.com:8201/mcp"}],
            "capabilities": capabilities,
            "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"capabilities": capabilities}},
        },
        "_meta": {
            "io.modelcontextprotocol.registry/official": {
                "status": "active",
                "publishedAt": "2026-03-12T12:00:00Z",
                "updatedAt": "2026-03-12T12:00:00Z",
                "isLatest": True,
            }
        },
    }
    VALIDATOR.validate(entry["server"])


def test_nothing_is_published_that_was_not_declared() -> None:
    whole = deployment("a")
    document = server_document(whole, whole.agents["a"], "openai.x", None)
    assert {"capabilities", "_meta", "icons"}.isdisjoint(document)
    document = server_document(whole, whole.agents["a"], None, CAPABILITIES)
    assert "model" not in document["capabilities"]
    assert document["_meta"][PUBLISHER_PROVIDED]["capabilities"] == document["capabilities"]


def test_an_address_of_ip_version_6_is_a_url() -> None:
    [entry] = entries("a", host="2001:db8::7")
    assert entry["server"]["remotes"][0]["url"] == "http://[2001:db8::7]:8201/mcp"


TEXTS = st.text(min_size=1, max_size=110)


@given(
    name=st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True),
    title=TEXTS,
    description=TEXTS,
    version=TEXTS,
    host=TEXTS,
    namespace=TEXTS,
    icon=TEXTS,
)
def test_what_the_reader_accepts_is_valid(
    name: str, icon: str, title: str, description: str, **top: str
) -> None:
    """Whatever passes the reader's rules fits the schema: each text is tried alone, so that some do."""
    agent = {"module": "m", "port": 9000}
    for extra_top, extra_agent in [
        *(({key: value}, {}) for key, value in top.items()),
        ({}, {"title": title}),
        ({}, {"description": description}),
        ({}, {"icon": icon}),
    ]:
        text = json.dumps({"name": "demo", **extra_top, "agents": {name: {**agent, **extra_agent}}})
        try:
            whole = parse(text.encode("utf-8", "surrogatepass"))
        except ConfigurationError:
            continue
        entry = server_entry(whole, whole.agents[name], "a.b", CAPABILITIES, NOON)
        VALIDATOR.validate(entry["server"])


def test_the_list() -> None:
    assert catalogue(entries("a", "b")) == {"servers": entries("a", "b")}
    book = Catalogue()
    book.update(entries("b", "a"), NOON)
    assert json.loads(book.view.body) == {"servers": entries("b", "a")}


def updated(book: Catalogue) -> dict[str, str]:
    return {entry.name: entry.document["_meta"][OFFICIAL]["updatedAt"] for entry in book.view.entries}


def test_only_what_changed_is_updated() -> None:
    book = Catalogue()
    assert book.update(entries("a", "b"), NOON)
    first = book.view
    assert not book.update(entries("a", "b"), NOON + SECOND)
    assert book.view is first

    changed = entries("a", "b")
    changed[1]["server"]["title"] = "New"
    assert book.update(changed, NOON + 2 * SECOND)
    assert updated(book) == {
        "com.example.project/a": "2026-03-12T12:00:00Z",
        "com.example.project/b": "2026-03-12T12:00:02Z",
    }
    assert book.view.etag != first.etag
    assert book.view.changed_at == NOON + 2 * SECOND
    assert len(first.entries) == 2
    assert json.loads(first.body)["servers"][1]["server"]["title"] == "B"


def test_who_leaves_and_comes_back_is_updated_but_not_published_again() -> None:
    book = Catalogue()
    book.update(entries("a", "b"), NOON)
    assert book.update(entries("a"), NOON + SECOND)
    assert updated(book) == {"com.example.project/a": "2026-03-12T12:00:00Z"}
    assert book.view.changed_at == NOON + SECOND
    assert book.update(entries("a", "b"), NOON + 2 * SECOND)
    official = book.view.entries[1].document["_meta"][OFFICIAL]
    assert (official["publishedAt"], official["updatedAt"]) == (
        "2026-03-12T12:00:00Z",
        "2026-03-12T12:00:02Z",
    )


def test_another_order_is_another_list_with_the_same_entries() -> None:
    book = Catalogue()
    book.update(entries("a", "b"), NOON)
    etag, before = book.view.etag, updated(book)
    turned = list(reversed(entries("a", "b")))
    assert book.update(turned, NOON + SECOND)
    assert book.view.etag != etag
    assert updated(book) == before


def test_the_first_update_is_a_change_even_of_nothing() -> None:
    book = Catalogue()
    assert book.update([], NOON)
    assert book.view.changed_at == NOON
    assert not book.update([], NOON + SECOND)


def test_a_clock_that_is_set_back_does_not_move_time_back() -> None:
    book = Catalogue()
    book.update(entries("a"), NOON)
    book.update(entries("b"), NOON - 60 * SECOND)
    assert updated(book) == {"com.example.project/b": "2026-03-12T12:00:00Z"}


@pytest.mark.parametrize("zone", [dt.UTC, dt.timezone(dt.timedelta(hours=2))])
def test_times_are_published_in_utc(zone: dt.timezone) -> None:
    whole = deployment("a")
    entry = server_entry(whole, whole.agents["a"], None, None, NOON.astimezone(zone))
    assert entry["_meta"][OFFICIAL]["updatedAt"] == "2026-03-12T12:00:00Z"


BEHIND = GatewaySettings(bind="0.0.0.0", public_url="https://agents.example.com", workers="behind")


def remotes(settings: GatewaySettings | None, port: int | None = 8201) -> Any:
    whole = deployment("jarvis", gateway=settings)
    agent = replace(whole.agents["jarvis"], port=port)
    return server_document(whole, agent, None, None).get("remotes")


def test_behind_a_gateway_its_urls_are_published_with_the_header_that_they_want() -> None:
    by_gateway = {
        "type": "streamable-http",
        "url": "https://agents.example.com/mcp/agents/jarvis",
        "headers": [
            {
                "name": "Authorization",
                "description": "`Bearer` and a token of this deployment's gateway",
                "isRequired": True,
                "isSecret": True,
            }
        ],
    }
    own = {"type": "streamable-http", "url": "http://my-host.example.com:8201/mcp"}
    assert remotes(BEHIND) == remotes(BEHIND, None) == [by_gateway]
    beside = replace(BEHIND, workers="open")
    assert remotes(beside) == [own]
    assert remotes(beside, None) == [by_gateway], "an agent without a port is reached by the gateway"
    assert remotes(None) == [own]
    assert remotes(None, None) is None
    without_tokens = [{key: value for key, value in by_gateway.items() if key != "headers"}]
    assert remotes(replace(BEHIND, auth="none")) == without_tokens


def test_entries_of_a_gateway_fit_the_schema() -> None:
    for entry in entries("jarvis", gateway=BEHIND):
        VALIDATOR.validate(entry["server"])
