"""How to reach the agents from MCP clients: a section below the view, and the same as a page of its own. Pure.

It stands outside of what is made again every few seconds: it depends on names and URLs alone, and what somebody has
opened or selected in it stays as it is.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from pallas_common.http.html import Html, join, tag
from pallas_registry.catalogue.connections import CLIENTS, Endpoint, connection, reach_note
from pallas_supervisor.http.page.view import text

if TYPE_CHECKING:
    from pallas_registry.catalogue.connections import Connection, Snippet
    from pallas_supervisor.http.page.data.facts import AgentFacts, DeploymentFacts

MOST_AGENTS = 50
"""Agents that have an entry here; `pallasctl connect` knows all."""


def connect_id(agent: AgentFacts) -> str:
    """The id of the agent's entry."""
    return f"connect-{agent.name}"


def connect_stamp(facts: DeploymentFacts) -> str:
    """Changes whenever the section does."""
    return hashlib.blake2b(repr(_endpoints(facts)).encode(), digest_size=6).hexdigest()


def connect_section(facts: DeploymentFacts, *, alone: bool = False) -> Html:
    """The section; `alone` on the page of its own, which does not reload itself."""
    return tag(
        "section",
        tag("h2", "Connect", id="connect-title"),
        tag("noscript", None if alone else _STAYING),  # in both: the script turns one into the other
        _entries(_endpoints(facts)),
        id="connect",
        data_stamp=connect_stamp(facts),
        aria_labelledby="connect-title",
    )


_STAYING = tag(
    "p",
    "This page reloads itself and closes what is open here. ",
    tag("a", "A page that stays as it is", href="page/connect"),
    class_="note",
)


def _endpoints(facts: DeploymentFacts) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(agent.name, agent.url) for agent in facts.agents if agent.url)


@lru_cache(maxsize=2)
def _entries(endpoints: tuple[Endpoint, ...]) -> Html:
    shown = endpoints[:MOST_AGENTS]
    more = text.more(len(endpoints), MOST_AGENTS)
    every = _entry("All agents", None, endpoints) if 1 < len(endpoints) <= MOST_AGENTS else None
    return join(
        tag(
            "p",
            "What to paste into an MCP client; ",
            tag("code", "pallasctl connect"),
            " prints the same. ",
            _marked(reach_note(endpoints) or ""),
            class_="note",
        )
        if endpoints
        else tag("p", "There is no agent to connect to.", class_="note"),
        tag(
            "div",
            every,
            *(_entry(one.name, one.url, (one,)) for one in shown),
            class_="wide connections",
        )
        if endpoints
        else None,
        None if more is None else tag("p", f"{more}: see pallasctl connect", class_="note"),
    )


def _entry(title: str, url: str | None, endpoints: tuple[Endpoint, ...]) -> Html:
    group = "connect" if url is None else f"connect-{title}"
    return tag(
        "details",
        tag("summary", tag("span", title, class_="title"), tag("code", url, class_="note") if url else None),
        tag(
            "div",
            *(_client(connection(name, endpoints), group) for name in CLIENTS),
            id=None if url is None else group,
        ),
        data_key=title,
    )


def _client(connected: Connection, group: str) -> Html:
    """One client; of those of an agent, one is open at a time."""
    return tag(
        "details",
        tag("summary", connected.title),
        *map(_snippet, connected.snippets),
        tag("ul", *(tag("li", _marked(note)) for note in connected.notes), class_="note")
        if connected.notes
        else None,
        name=f"{group}-client",
        data_key=connected.title,
    )


def _snippet(snippet: Snippet) -> Html:
    lines = [join(line) for line in snippet.text.split("\n")]
    return tag(
        "div",
        tag("p", snippet.lead),
        tag("button", "Copy", type="button", class_="copy", aria_live="polite"),
        tag("pre", Html("\n".join(lines))),
        class_="snippet",
    )


def _marked(note: str) -> Html:
    """The note, with what stands between backticks as code."""
    parts = note.split("`")
    return join(*(tag("code", part) if place % 2 else part for place, part in enumerate(parts)))
