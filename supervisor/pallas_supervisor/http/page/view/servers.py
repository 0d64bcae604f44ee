"""Downstream servers and LLM providers on the page, as the newest probes found them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.http.html import Html, tag
from pallas_supervisor.http.page.view import text
from pallas_supervisor.http.page.view.glyphs import glyph
from pallas_supervisor.http.page.view.tables import since

if TYPE_CHECKING:
    from pallas_supervisor.http.page.data.facts import DeploymentFacts, Look


MAX_SERVERS = 200
"""Servers, and providers, that are shown."""


def servers(facts: DeploymentFacts) -> Html | None:
    """One entry each; None if no agent uses any."""
    samples = facts.samples
    if not samples.downstreams and not samples.providers:
        return None
    lines = []
    for name in sorted(samples.downstreams)[:MAX_SERVERS]:
        found = samples.downstreams[name]
        missing = sorted(agent for agent, up in found.items() if not up)
        users = text.several(len(found), "agent")
        said = f"down for {', '.join(missing)}" if missing else f"up for {users}"
        lines.append(_entry(name, "MCP server", not missing, said, facts.looks.get(("server", name))))
    for name in sorted(samples.providers)[:MAX_SERVERS]:
        up = samples.providers[name]
        look = facts.looks.get(("provider", name))
        lines.append(_entry(name, "LLM provider", up, "up" if up else "down", look))
    more = text.more(max(len(samples.downstreams), len(samples.providers)), MAX_SERVERS)
    return tag("ul", *lines, None if more is None else tag("li", more, class_="note"), class_="servers")


def _entry(name: str, kind: str, up: bool, said: str, look: Look | None) -> Html:
    shape = tag("span", glyph("ok" if up else "error"), class_=f"word is-{'ok' if up else 'error'}")
    return tag(
        "li",
        shape,
        tag("strong", name),
        tag("span", f" {kind}", class_="note"),
        tag("span", f" {said}", class_="said"),
        _look(look) if look is not None and look.up == up else None,
        data_key=f"{kind} {name}",
    )


def _look(look: Look) -> Html:
    """Since when, how long the newest probe took, and why it failed."""
    latency = "" if look.latency is None else f" · {text.milliseconds(look.latency)}"
    error = f" · {look.error}" if look.error else ""
    return tag("span", " since ", since(look.since), f"{latency}{error}", class_="note")
