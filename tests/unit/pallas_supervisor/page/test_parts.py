"""What the status page is made of, each part alone: history, graph layout, charts, markup, figures, colours."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pallas_common.terminal_text import terminal_line
from pallas_supervisor import page
from pallas_supervisor.page.data.facts import FleetFacts, looks_of
from pallas_supervisor.page.data.history import (
    INTERVAL,
    MAX_CHANGES,
    POINTS,
    WINDOW,
    Count,
    History,
    Stretch,
    together,
)
from pallas_supervisor.page.data.samples import Samples, read_samples
from pallas_supervisor.page.view import text
from pallas_supervisor.page.view.charts import HEIGHT, WIDTH, area, bars, strip
from pallas_supervisor.page.view.html import MAX_TEXT, join, tag
from pallas_supervisor.page.view.layers import lay_out
from pallas_supervisor.page.view.render import view
from pallas_supervisor.page.view.servers import MAX_SERVERS, servers
from pallas_supervisor.page.view.tables import MAX_MODELS, models_table

if TYPE_CHECKING:
    from collections.abc import Mapping

STYLE = (Path(page.__file__).parent / "static" / "page.css").read_text()

# --- markup ---------------------------------------------------------------------------------------------


class Read(HTMLParser):
    """What a browser makes of markup: the tags, and the text between them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=MAX_TEXT))
def test_whatever_is_said_is_text_and_whatever_is_an_attribute_is_one(said: str) -> None:
    read = Read(tag("p", said, title=said))
    assert read.tags == [("p", {"title": terminal_line(said)})]
    assert read.said == terminal_line(said)


def test_what_would_be_hidden_is_seen_and_no_text_is_endless() -> None:
    assert tag("p", "a\u202eb\x00\x1b[31m\n\ufeffc ä") == r"<p>a\u202eb\x00\x1b[31m\n\ufeffc ä</p>"
    assert len(tag("p", "x" * 10**6)) == MAX_TEXT + len("<p></p>")
    assert len(tag("p", "\x00" * 10**6)) <= 4 * MAX_TEXT + len("<p></p>")
    assert tag("path", d="M0 0" * MAX_TEXT).count("M0 0") == MAX_TEXT, "drawings are whole"


def test_figures_that_are_none_are_passed_over_and_endless_names_end() -> None:
    calls = CounterMetricFamily("pallas_send_message", "", labels=["agent", "outcome"])
    tokens = CounterMetricFamily("pallas_llm_tokens", "", labels=["agent", "model", "kind"])
    running = GaugeMetricFamily("pallas_calls_running", "", labels=["agent"])
    up = GaugeMetricFamily("pallas_downstream_up", "", labels=["agent", "server"])
    for value in (math.nan, math.inf, -math.inf, 2.0):
        calls.add_metric(["a", "ok"], value)
        tokens.add_metric(["a", "m", "input"], value)
        running.add_metric(["a"], value)
    for number in range(5000):
        tokens.add_metric(["a", f"<model {number}>", "input"], 1)
        up.add_metric(["a", f"<server {number}>"], 1)
    found = read_samples([calls, tokens, running, up])
    assert (found.agents["a"].calls, found.agents["a"].running) == (2, 2)
    assert found.models["m"].tokens["input"] == 2
    assert str(models_table(found)).count('class="title">&lt;model') == MAX_MODELS
    fleet = FleetFacts(name="x", health="ok", agents=(), trend=together(()), samples=found)
    assert str(servers(fleet)).count("MCP server</span>") == MAX_SERVERS
    assert f"and 4\u202f{1000 - MAX_SERVERS} more" in str(servers(fleet))
    shown = view(fleet, "")
    assert f"and 4\u202f{1001 - MAX_MODELS} more" in shown
    assert len(shown) < 300_000


def test_markup_is_nested_as_it_is() -> None:
    assert tag("p", tag("b", "a & b"), ["<", None], class_="x", hidden=True, aria_label=None, x=1.5) == (
        '<p class="x" hidden x="1.5"><b>a &amp; b</b>&lt;</p>'
    )
    assert join(tag("meta", charset="utf-8"), "&") == '<meta charset="utf-8">&amp;'


# --- history --------------------------------------------------------------------------------------------


def test_a_rate_is_of_the_last_minute_and_falls_back_to_none() -> None:
    history = History(0.0)
    seen = []
    for tick in range(1, 11):
        now = tick * INTERVAL
        count = Count(calls=min(tick, 2) * 3.0)  # three calls in each of the first two intervals, then none
        seen.append(history.trend("a", count, now).rate.calls)
        history.record({"a": count}, {}, now)
    assert seen[:2] == [3.0, 6.0], "what is younger than a minute is not extrapolated"
    assert seen[4] == pytest.approx(6 * 60 / 75)
    assert seen[6:] == [0.0] * 4
    assert [point.counted.calls for point in history.trend("a", count, now).points][:3] == [3.0, 3.0, 0.0]


def test_a_counter_that_began_anew_counts_from_nothing() -> None:
    history = History(0.0)
    history.record({"a": Count(calls=10.0)}, {}, INTERVAL)
    assert history.trend("a", Count(calls=4.0), INTERVAL).rate.calls == 14.0


def test_the_history_is_bounded_and_forgets_who_left() -> None:
    history = History(0.0)
    for tick in range(3 * MAX_CHANGES):
        history.change("a", "ready", float(tick))
        history.record({"a": Count(calls=1.0 * tick)}, {"a": tick}, float(tick))
    trend = history.trend("a", Count(), 0.0)
    assert len(trend.points) == POINTS
    assert trend.points[-1].memory == 3 * MAX_CHANGES - 1
    assert len(history.stretches("a")) <= MAX_CHANGES
    history.keep(["b"])
    assert history.trend("a", Count(), 0.0).points == ()


def test_states_are_stretches_of_the_window() -> None:
    history = History(0.0)
    history.change("a", "starting", 0.0)
    history.change("a", "ready", WINDOW / 2)
    history.record({}, {}, WINDOW - INTERVAL)
    assert history.stretches("a") == [Stretch(0.0, 0.5, "starting"), Stretch(0.5, 1.0, "ready")]
    history.record({}, {}, WINDOW * 2)
    assert history.stretches("a") == [Stretch(0.0, 1.0, "ready")], "what is over has left"


def test_agents_that_came_later_are_added_at_the_end() -> None:
    history = History(0.0)
    history.record({"a": Count(calls=1.0)}, {"a": 10}, INTERVAL)
    history.record({"a": Count(calls=3.0), "b": Count(calls=5.0)}, {"a": 10, "b": 7}, 2 * INTERVAL)
    sum_ = together(
        [history.trend("a", Count(3.0), 2 * INTERVAL), history.trend("b", Count(5.0), 2 * INTERVAL)]
    )
    assert [(point.counted.calls, point.memory) for point in sum_.points] == [(1.0, 10), (7.0, 17)]
    assert sum_.rate.calls == 8.0


# --- series ---------------------------------------------------------------------------------------------


def test_series_are_sorted_out_by_agent_model_and_server() -> None:
    calls = CounterMetricFamily("pallas_send_message", "", labels=["agent", "outcome"])
    calls.add_metric(["a", "ok"], 4)
    calls.add_metric(["a", "error"], 1)
    tokens = CounterMetricFamily("pallas_llm_tokens", "", labels=["agent", "model", "kind"])
    for agent in ("a", "b"):
        tokens.add_metric([agent, "gpt", "input"], 100)
    for kind, number in (
        ("cache_read", 40),
        ("cache_write", 2),
        ("cache_hit", 7),
        ("output", 5),
        ("reasoning", 3),
    ):
        tokens.add_metric(["b", "gpt", kind], number)
    up = GaugeMetricFamily("pallas_downstream_up", "", labels=["agent", "server"])
    up.add_metric(["a", "files"], 0)
    up.add_metric(["b", "files"], 1)
    other = GaugeMetricFamily("pallas_something_new", "", value=1)
    found = read_samples([calls, tokens, up, other])
    assert (found.agents["a"].calls, found.agents["a"].errors) == (5, 1)
    assert (found.agents["a"].tokens_in, found.models["gpt"].tokens["input"]) == (100, 200)
    assert (found.agents["b"].tokens_in, found.agents["b"].tokens_out) == (142, 5), "no token is there twice"
    assert found.downstreams == {"files": {"a": False, "b": True}}


def health(*servers: dict[str, Any]) -> dict[str, Any]:
    """A health document of as many agents, each with one server."""
    return {"agents": {f"a{n}": {"downstreams": [one], "provider": None} for n, one in enumerate(servers)}}


def server(up: bool, minute: int, error: str | None = None) -> dict[str, Any]:
    moment = f"2026-03-12T12:{minute:02d}:00.000Z"
    return {"name": "files", "up": up, "since": moment, "checked": moment, "latency": 0.0142, "error": error}


def test_of_several_agents_the_server_that_is_down_is_told_of() -> None:
    look = looks_of(health(server(True, 1), server(False, 3, "HTTP 503"), server(False, 2)))[
        "server", "files"
    ]
    assert (look.up, look.since.minute, look.error) == (False, 2, "HTTP 503")
    assert looks_of(health(server(True, 1), server(True, 2)))["server", "files"].since.minute == 2
    assert looks_of(health()) == {}
    unknown = server(True, 1) | {"since": None}
    assert looks_of(health(unknown)) == {}


def test_servers_have_since_latency_and_error() -> None:
    found = Samples()
    found.downstreams["files"] = {"a": False}
    found.downstreams["<search>"] = {"a": True, "b": True}
    found.providers["openai"] = True
    looks = looks_of(health(server(False, 3, "<HTTP 503>")))
    fleet = FleetFacts(name="x", health="degraded", agents=(), trend=together(()), samples=found, looks=looks)
    read = Read(str(servers(fleet)))
    assert "files MCP server down for a since 12:03:00 UTC · 14 ms · <HTTP 503>" in " ".join(
        read.said.split()
    )
    assert "<search> MCP server up for 2 agents" in read.said
    assert [attributes["datetime"] for name, attributes in read.tags if name == "time"] == [
        "2026-03-12T12:03:00Z"
    ]
    looks["server", "files"] = replace(looks["server", "files"], up=True)
    assert "since" not in Read(str(servers(fleet))).said, "what the gauge does not say yet"


# --- the graph ------------------------------------------------------------------------------------------

NAMES = [f"n{number}" for number in range(9)]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Acyclic: everybody needs only those that come later."""
    size = draw(st.integers(0, len(NAMES)))
    return {
        name: draw(st.lists(st.sampled_from(NAMES[index + 1 : size]), unique=True))
        if index + 1 < size
        else []
        for index, name in enumerate(NAMES[:size])
    }


@given(graphs())
def test_who_is_needed_stands_to_the_right_and_nobody_stands_on_another(needs: dict[str, list[str]]) -> None:
    layout = lay_out(needs)
    stops = [stop for line in layout.lines for stop in line.through]
    spots = [*layout.places.values(), *stops]
    assert len(set(spots)) == len(spots)
    assert set(layout.places) | set(layout.alone) == set(needs)
    assert not set(layout.places) & set(layout.alone)
    assert {(line.source, line.target) for line in layout.lines} == {
        (name, need) for name in needs for need in needs[name]
    }
    for line in layout.lines:
        source, target = layout.places[line.source].column, layout.places[line.target].column
        assert [stop.column for stop in line.through] == list(range(source + 1, target))
    assert all(0 <= spot.row <= layout.rows - 1 and spot.column < layout.columns for spot in spots)


def test_lines_that_need_not_cross_do_not() -> None:
    layout = lay_out({"a": ["x"], "b": ["y"], "c": ["z"], "z": [], "y": [], "x": []})
    order = sorted("xyz", key=lambda name: layout.places[name].row)
    assert [layout.places[name].row for name in ("a", "b", "c")] == [0.0, 1.0, 2.0]
    assert order == ["x", "y", "z"]


# --- charts ---------------------------------------------------------------------------------------------


def numbers(markup: str) -> list[float]:
    drawn = " ".join(re.findall(r' d="([^"]*)"', markup))
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", drawn)]


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=POINTS))
def test_no_chart_draws_outside_of_itself(values: list[float | None]) -> None:
    known = tuple(value or 0.0 for value in values)
    for drawn in (bars(known, known, floor=1.0, label="x"), area(tuple(values), floor=1.0, label="x")):
        assert all(-HEIGHT <= number <= max(WIDTH, HEIGHT) for number in numbers(drawn))


def test_a_restart_of_milliseconds_is_seen() -> None:
    states = (Stretch(0.0, 0.5, "ready"), Stretch(0.5, 0.50001, "starting"), Stretch(0.50001, 1.0, "ready"))
    drawn = strip(states, label="x")
    (width,) = re.findall(r'class="state-starting" x="[^"]*" width="([^"]*)"', drawn)
    assert float(width) >= 1.5
    assert drawn.index("state-starting") > drawn.rindex("state-ready"), "nothing lies over it"


# --- figures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (text.rate(0), "0"),
        (text.rate(0.01), "<0.1"),
        (text.rate(4.21), "4.2"),
        (text.rate(1240.4), "1\u202f240"),
        (text.compact(999), "999"),
        (text.compact(12_345), "12.3\u202fk"),
        (text.compact(999_999), "1\u202fM"),
        (text.memory(None), "–"),
        (text.memory(87_031_808), "83 MiB"),
        (text.memory(1_331_439_862), "1.24 GiB"),
        (text.several(1, "agent"), "1 agent"),
        (text.several(2, "agent"), "2 agents"),
    ],
)
def test_figures_read_as_people_write_them(shown: str, wanted: str) -> None:
    assert shown == wanted


# --- colours --------------------------------------------------------------------------------------------


def palettes() -> dict[str, Mapping[str, str]]:
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
    )
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("palette", ["light", "dark"])
def test_words_stand_out_from_every_ground(palette: str) -> None:
    colours = palettes()[palette]
    for word in ("ink", "soft", "accent", "good", "warn", "bad", "idle", "busy"):
        for ground in ("ground", "surface", "faint"):
            light, dark = sorted((luminance(colours[word]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (word, ground)
