"""How to reach the agents, on the page: every client for each of them, as text, and not for endlessly many."""

from __future__ import annotations

from datetime import UTC, datetime

from pallas_registry.catalogue.connections import CLIENTS, Endpoint, connection
from pallas_supervisor.http.page.data.facts import AgentFacts, DeploymentFacts
from pallas_supervisor.http.page.data.history import Count, History, together
from pallas_supervisor.http.page.data.samples import Samples, Totals
from pallas_supervisor.http.page.view.connect import MOST_AGENTS, connect_section, connect_stamp
from pallas_supervisor.http.page.view.render import connect_page, view
from pallas_supervisor.lifecycle.states import State
from support.documents.browser.markup import Read


def fleet(*endpoints: tuple[str, str]) -> DeploymentFacts:
    trend = History(0.0).trend("a", Count(), 0.0)
    agents = tuple(
        AgentFacts(
            name=name,
            title="<T>",
            url=url,
            serves="agents.a",
            model="",
            project="",
            available=True,
            needs=(),
            state=State.READY,
            wanted=True,
            since=datetime(2026, 3, 12, tzinfo=UTC),
            health="ok",
            why="",
            restarts=0,
            memory=None,
            totals=Totals(),
            trend=trend,
            stretches=(),
        )
        for name, url in endpoints
    )
    return DeploymentFacts(name="x", health="ok", agents=agents, trend=together(()), samples=Samples())


ONE = ("research", "http://localhost:1/mcp")
TWO = ("jarvis", "http://localhost:2/mcp")


def test_every_snippet_of_every_client_is_there_to_the_letter() -> None:
    said = Read(str(connect_section(fleet(ONE, TWO)))).said
    for endpoints in ([Endpoint(*ONE)], [Endpoint(*TWO)], [Endpoint(*ONE), Endpoint(*TWO)]):
        for client in CLIENTS:
            for snippet in connection(client, endpoints).snippets:
                assert snippet.text in said


def test_each_can_be_copied_and_each_agent_has_a_target_that_its_row_leads_to() -> None:
    facts = fleet(ONE, TWO)
    tags = Read(str(connect_section(facts))).tags
    assert len([name for name, _ in tags if name == "pre"]) == len(
        [name for name, attributes in tags if name == "button" and attributes["class"] == "copy"]
    )
    targets = {attributes["id"] for _, attributes in tags if "id" in attributes}
    links = {attributes.get("href") for name, attributes in Read(str(view(facts, ""))).tags if name == "a"}
    assert {"#connect-research", "#connect-jarvis"} <= links
    assert {"connect-research", "connect-jarvis"} <= targets


def test_what_is_in_a_url_is_text() -> None:
    facts = fleet(("a", 'http://x/"><script>alert(1)</script>\u202e'))
    markup = str(connect_page(facts, "b"))
    assert "<script" not in markup
    assert "\u202e" not in markup
    assert "<script>alert(1)" in Read(markup).said


def test_the_stamp_changes_with_names_and_urls_alone() -> None:
    stamp = connect_stamp(fleet(ONE, TWO))
    assert stamp == connect_stamp(fleet(ONE, TWO))
    assert len({stamp, connect_stamp(fleet(ONE)), connect_stamp(fleet(ONE, ("jarvis", "http://x/")))}) == 3
    assert f'data-stamp="{stamp}"' in connect_section(fleet(ONE, TWO))
    assert f'data-connect="{stamp}"' in view(fleet(ONE, TWO), "")


def test_there_is_an_end_to_it_and_a_way_to_the_rest() -> None:
    many = fleet(*((f"a{number}", f"http://x:{number}/mcp") for number in range(MOST_AGENTS + 1)))
    markup = str(connect_section(many))
    assert f'id="connect-a{MOST_AGENTS - 1}"' in markup
    assert f'id="connect-a{MOST_AGENTS}"' not in markup
    assert f'#connect-a{MOST_AGENTS}"' not in view(many, "")
    assert "and 1 more: see pallasctl connect" in markup
    assert len(markup) < 1_000_000
    assert "no agent to connect to" in connect_section(fleet())


def test_the_page_of_its_own_neither_reloads_nor_has_a_script() -> None:
    markup = str(connect_page(fleet(ONE), "b"))
    tags = Read(markup).tags
    assert not [name for name, attributes in tags if name == "script" or "http-equiv" in attributes]
    assert "reloads itself" not in markup
    assert ("a", {"href": "../"}) in tags
    assert 'href="page.css?b"' in markup
