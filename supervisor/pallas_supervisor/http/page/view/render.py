"""The page as HTML: a shell that stays, and the view in it that is made again whenever something changes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common import __version__
from pallas_common.http.html import Html, join, tag
from pallas_supervisor.http.page.view import text
from pallas_supervisor.http.page.view.charts import area, bars
from pallas_supervisor.http.page.view.connect import connect_section, connect_stamp
from pallas_supervisor.http.page.view.glyphs import glyph, symbols, word
from pallas_supervisor.http.page.view.graph import graph
from pallas_supervisor.http.page.view.layers import lay_out
from pallas_supervisor.http.page.view.servers import servers
from pallas_supervisor.http.page.view.tables import (
    CALLS_FLOOR,
    MAX_MODELS,
    MEMORY_FLOOR,
    PER_MINUTE,
    agents_table,
    idle_list,
    models_table,
)
from pallas_supervisor.lifecycle.states import RESTING, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_supervisor.http.page.data.facts import DeploymentFacts
    from pallas_supervisor.http.page.data.samples import Samples

POLL = 2000
"""Milliseconds between two requests of the script."""
POLL_WHILE_MOVING = 1000
"""The same while an agent is between two states."""
RELOAD = 10
"""Seconds after which a browser without scripts asks again."""
TOKENS_FLOOR = 100.0

MAX_DRAWN = 100
"""Agents in the drawing of who needs whom; more than that nobody can follow."""
MAX_ALONE = 50
"""Names of agents without dependencies."""

_SETTLED = RESTING | {State.READY, State.IDLE}


def page(facts: DeploymentFacts, shown: str, build: str) -> Html:
    """The whole document around a view; `build` names the version of script and style."""
    live = (
        tag("noscript", tag("meta", http_equiv="refresh", content=str(RELOAD))),
        tag("script", src=f"page/page.js?{build}", type="module"),
    )
    head = _head(_title(facts), "page/", build, *live)
    return _document(head, symbols(), _banner(), Html(shown), connect_section(facts), _foot())


def connect_page(facts: DeploymentFacts, build: str) -> Html:
    """How to reach the agents, as a document of its own, one folder below the page; no part of it changes."""
    head = _head(f"Connect · {facts.name} · Pallas", "", build)
    back = tag("p", tag("a", "Back to the fleet", href="../"))
    return _document(head, tag("main", tag("h1", facts.name), connect_section(facts, alone=True), back))


def _document(head: Html, *children: Html) -> Html:
    return join(Html("<!doctype html>\n"), tag("html", head, tag("body", *children), lang="en"))


def _head(title: str, assets: str, build: str, *more: Html) -> Html:
    """`assets` is the relative path to script and style."""
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href=f"{assets}icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=f"{assets}page.css?{build}"),
        *more,
    )


def view(facts: DeploymentFacts, build: str) -> Html:
    """What changes: the `main` element, with the time until the next request."""
    moving = any(agent.state not in _SETTLED for agent in facts.agents)
    return tag(
        "main",
        tag("h1", facts.name),
        _status(facts),
        _trouble(facts),
        _tiles(facts),
        _gateway(facts),
        _agents(facts),
        _dependencies(facts),
        _models(facts.samples),
        _servers(facts),
        id="view",
        data_title=_title(facts),
        data_build=build,
        data_connect=connect_stamp(facts),
        data_poll=POLL_WHILE_MOVING if moving else POLL,
        tabindex=-1,
    )


def _gateway(facts: DeploymentFacts) -> Html | None:
    """Where all agents are reached, and whether it serves."""
    if (gateway := facts.gateway) is None:
        return None
    shown = gateway.health if gateway.state == "ready" else gateway.state
    return _section(
        "Gateway",
        tag(
            "p",
            word(shown),
            join(" ", tag("code", f"{gateway.url}/mcp"), " "),
            tag("span", gateway.why, class_="why") if gateway.why else None,
        ),
        id="gateway",
    )


def _agents(facts: DeploymentFacts) -> Html:
    table = agents_table(facts)
    shown = None if table is None else tag("div", table, class_="wide")
    return _section("Agents", shown, idle_list(facts), id="agents")


def _title(facts: DeploymentFacts) -> str:
    return f"{facts.ready}/{facts.wanted} ready · {facts.name} · Pallas"


def _banner() -> Html:
    links = (("Registry", "v0.1/servers"), ("Metrics", "metrics"), ("Health", "health"))
    return tag(
        "header",
        tag("a", "Skip to the fleet", href="#view", class_="skip"),
        tag("p", tag("strong", "Pallas"), tag("span", f" {__version__}", class_="note"), class_="brand"),
        tag(
            "nav",
            tag("ul", *(tag("li", tag("a", name, href=target)) for name, target in links)),
            aria_label="Raw data",
        ),
        tag("p", tag("noscript", f"Reloads every {RELOAD} s"), id="live"),
        tag("p", id="lost", role="alert", hidden=True),
    )


def _foot() -> Html:
    return tag(
        "footer",
        tag(
            "p",
            "Rates are of the last minute, charts of the last 15. Calls, errors and tokens count since the supervisor "
            "started, in the table of models without those of idle agents; resident memory counts pages that agents "
            "share once for each. ",
            tag("code", "pallasctl logs NAME"),
            " shows what an agent has said.",
        ),
    )


def _section(title: str, *children: Html | None, id: str) -> Html:  # noqa: A002 - it is the attribute
    return tag("section", tag("h2", title, id=f"{id}-title"), *children, id=id, aria_labelledby=f"{id}-title")


def _status(facts: DeploymentFacts) -> Html:
    agents = text.several(facts.wanted, "agent")
    if not facts.wanted:
        said = "No agent should run"
    elif facts.ready == facts.wanted:
        said = f"All {agents} ready" if facts.wanted > 1 else "The agent is ready"
    else:
        said = f"{facts.ready} of {agents} ready"
    if facts.idle:
        said += f", {text.whole(len(facts.idle))} of these idle"
    if facts.unwell:
        said += f", {facts.unwell} of these not well"
    failed = (
        tag("span", glyph("failed"), f" {facts.failed} failed", class_="word is-failed")
        if facts.failed
        else None
    )
    return tag("p", word(facts.health), failed, tag("span", said), class_="status", role="status")


def _trouble(facts: DeploymentFacts) -> Html | None:
    """Which agents need attention, and why, before anything else."""
    if not facts.troubled:
        return None
    lines = (
        tag(
            "li",
            word(str(agent.state) if agent.state is not State.READY else agent.health),
            join(" ", tag("a", agent.name, href=f"#agent-{agent.name}"), " "),
            tag("span", agent.why, class_="why"),
            tag("code", f"pallasctl logs {agent.name}", class_="note"),
            data_key=agent.name,
        )
        for agent in facts.troubled
    )
    lost = "trouble lost" if facts.failed else "trouble"
    return tag("ul", lines, class_=lost, aria_label="Agents that are not well")


def _tiles(facts: DeploymentFacts) -> Html:
    points = facts.trend.points
    counts = [point.counted for point in points]
    calls = tuple([count.calls * PER_MINUTE for count in counts])
    errors = tuple([count.errors * PER_MINUTE for count in counts])
    tokens = tuple([count.tokens * PER_MINUTE for count in counts])
    memory = tuple([point.memory for point in points])
    nothing = (0.0,) * len(points)
    rate = facts.trend.rate
    used = [agent.memory for agent in facts.agents if agent.memory is not None]
    return tag(
        "dl",
        _tile("Ready", f"{facts.ready} / {facts.wanted}", None),
        _tile(
            "Calls/min",
            text.rate(rate.calls),
            bars(calls, nothing, floor=CALLS_FLOOR, label="Calls of all agents"),
        ),
        _tile(
            "Errors/min",
            text.rate(rate.errors),
            bars(errors, errors, floor=CALLS_FLOOR, label="Failed calls of all agents"),
        ),
        _tile(
            "Tokens/min",
            text.compact(rate.tokens),
            bars(tokens, nothing, floor=TOKENS_FLOOR, label="Tokens in and out of all agents"),
        ),
        _tile(
            "Memory",
            text.memory(sum(used) if used else None),
            area(memory, floor=MEMORY_FLOOR, label="Resident memory of all agents"),
        ),
        _tile("Restarts", text.whole(sum(agent.restarts for agent in facts.agents)), None),
        class_="tiles",
    )


def _tile(title: str, value: str, chart: Html | None) -> Html:
    return tag("div", tag("dt", title), tag("dd", tag("span", value, class_="figure"), chart))


def _dependencies(facts: DeploymentFacts) -> Html | None:
    needs = {agent.name: agent.needs for agent in facts.agents}
    joined = {name for name, needed in needs.items() if needed}.union(*needs.values())
    if not joined:
        return None
    if len(joined) > MAX_DRAWN:
        said = f"{text.several(len(joined), 'agent')} need others or are needed: pallasctl describe NAME says which"
        return _section("Dependencies", tag("p", said, class_="note"), id="dependencies")
    layout = lay_out(needs)
    drawn = graph(facts.agents, layout)
    return _section(
        "Dependencies",
        tag("div", drawn, class_="scroll", role="region", aria_label="Dependency graph", tabindex=0),
        tag("p", f"On their own: {_names(layout.alone)}", class_="note alone") if layout.alone else None,
        id="dependencies",
    )


def _names(names: Sequence[str]) -> str:
    more = text.more(len(names), MAX_ALONE)
    return ", ".join((*names[:MAX_ALONE], *([] if more is None else [more])))


def _models(samples: Samples) -> Html | None:
    table = models_table(samples)
    if table is None:
        return None
    more = text.more(len(samples.models), MAX_MODELS)
    return _section(
        "Models",
        tag("div", table, class_="wide"),
        None if more is None else tag("p", more, class_="note"),
        id="models",
    )


def _servers(facts: DeploymentFacts) -> Html | None:
    listed = servers(facts)
    return None if listed is None else _section("Servers and providers", listed, id="servers")
