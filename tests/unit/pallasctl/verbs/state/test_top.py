"""`pallasctl top`: shares of CPU, the table at two widths, its order, one table and a live one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pallasctl import text
from pallasctl.verbs.state import top as module
from pallasctl.verbs.state.top_table import ORDERS, Shares, shares, table_lines
from support.fleet.terminal import terminal

if TYPE_CHECKING:
    from fakes.control_server import FakeControl

GOLDEN = Path(__file__).parent / "golden"


def agent(name: str, cpu: float, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": "ready",
        "desired": "up",
        "health": "ok",
        "since": "2026-01-31T11:00:00Z",
        "restarts": 0,
        "memory": 104857600,
        "cpu_seconds": cpu,
        "running": 0,
        "waiting": 0,
        "calls": 10.0,
        "errors": 0.0,
        "calls_per_minute": 0.0,
        "errors_per_minute": 0.0,
        "p50": None,
        "p95": None,
    } | changes


def document(clock: float = 100.0, *agents: dict[str, Any]) -> dict[str, Any]:
    return {
        "deployment": "demo",
        "time": "2026-01-31T12:00:00Z",
        "clock": clock,
        "supervisor": {
            "pid": 99,
            "version": "0.4.0",
            "since": "2026-01-31T11:00:00Z",
            "memory": 52428800,
            "cpu_seconds": clock / 100,
        },
        "agents": list(agents),
    }


BUSY = agent(
    "engineering",
    3.0,
    health="degraded",
    running=4,
    waiting=2,
    calls_per_minute=123.4,
    errors_per_minute=1.5,
    p50=0.042,
    p95=12.34,
    restarts=2,
    memory=524288000,
)
DOWN = agent("a-name-that-is-rather-long", 0.0, state="failed", health="error", memory=None)
BEFORE = document(100.0, agent("idle", 1.0), agent("engineering", 2.0), DOWN)
NEWEST = document(102.0, agent("idle", 1.0), BUSY, DOWN)


def lines(columns: int | None, order: str = "cpu") -> list[str]:
    head, rows = table_lines(NEWEST, shares(BEFORE, NEWEST), order, columns)
    return [*head, *rows]


def test_shares_are_of_the_time_between_two_looks() -> None:
    found = shares(BEFORE, NEWEST)
    assert found == Shares(1.0, {"idle": 0.0, "engineering": 50.0, "a-name-that-is-rather-long": 0.0})


def test_nothing_is_compared_with_another_supervisor_or_an_agent_that_is_new() -> None:
    other = {**BEFORE, "supervisor": {**BEFORE["supervisor"], "pid": 1}}
    assert shares(other, NEWEST) == shares(None, NEWEST) == Shares(None, {})
    assert shares(document(100.0), NEWEST).agents["idle"] is None


@pytest.mark.parametrize("columns", [80, 140])
def test_the_table_is_as_it_was_looked_at(columns: int) -> None:
    shown = lines(columns)
    assert max(map(len, shown)) <= columns
    assert "\n".join(shown) + "\n" == (GOLDEN / f"top-{columns}.txt").read_text()


@pytest.mark.parametrize("columns", [1, 10, 40, 79])
def test_any_width_is_kept_and_colours_take_no_room(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    plain = lines(columns)
    assert max(map(len, plain)) <= columns
    monkeypatch.setattr(text, "colour_wanted", lambda: True)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines(columns)] == plain


@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order: str) -> None:
    names = [line.split()[0] for line in lines(None, order)[4:]]
    assert names[0] == ("a-name-that-is-rather-long" if order == "name" else "engineering")


def test_one_table_where_there_is_no_terminal(fake: FakeControl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_LOOK", 0.0)
    fake.answer("/v1/top", NEWEST)
    result = fake.run("top", "--sort", "name")
    assert [line.split()[0] for line in result.stdout.splitlines()[4:]] == sorted(
        ["idle", "engineering", "a-name-that-is-rather-long"]
    )
    assert [path for _, path, _ in fake.requests] == ["/v1/top"] * 2
    printed = json.loads(fake.run("top", "-o", "json").stdout)
    assert printed["supervisor"]["cpu_percent"] is None, "no time has passed"
    assert [one["name"] for one in printed["agents"]] == [one["name"] for one in NEWEST["agents"]]


def test_an_order_that_is_none(fake: FakeControl) -> None:
    assert fake.run("top", "--sort", "size").exit_code == 2


def test_live_keys_sort_and_end(fake: FakeControl) -> None:
    fake.answer("/v1/top", NEWEST)
    command = [sys.executable, "-m", "pallasctl", "--socket", str(fake.socket), "top", "--interval", "0.5"]
    with terminal(command, columns=100) as running:
        # The second look has something to compare the first with.
        picture = running.until(lambda shown: any(line.endswith("q quit") for line in shown.lines))
        assert picture.lines[0].startswith("demo: 2 of 3 ready; calls: 4 running, 2 waiting")
        running.type("n")
        running.until(lambda shown: len(shown.lines) > 4 and shown.lines[4].startswith("a-name"))
        running.type("m")
        running.until(lambda shown: shown.lines[4].startswith("engineering"))
        running.type("q")
        assert running.end() == 0
        assert running.echoes()


def test_live_goes_on_while_nobody_answers(fake: FakeControl) -> None:
    fake.answer("/v1/top", NEWEST)
    command = [sys.executable, "-m", "pallasctl", "--socket", str(fake.socket), "top", "--interval", "0.5"]
    with terminal(command, columns=100) as running:
        running.until(lambda shown: any(line.endswith("q quit") for line in shown.lines))
        fake.answer("/v1/top", {"error": "not now"}, 409)
        running.until(lambda shown: "not now" in shown.lines)
        fake.answer("/v1/top", NEWEST)
        running.until(lambda shown: "not now" not in shown.lines)
        running.type("\x03")
        assert running.end() == 130
