"""What a terminal says of a history of agents and records, at two widths; and what it does not say."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import pytest

from pallas_supervisor.logs.console.layout import Layout
from pallas_supervisor.logs.console.lines import AgentView, DeploymentView, Say, view_of
from pallas_supervisor.logs.console.story import Story

if TYPE_CHECKING:
    from collections.abc import Sequence

DEPLOYMENT = DeploymentView(
    name="demo",
    version="1.2.3",
    file="/srv/demo/agents.yaml",
    page="http://localhost:24200/",
    agents=("research", "jarvis"),
)
OFFLINE = "search is not reachable: connection refused; start it, or correct its url in fastagent.config.yaml"
NO_MODULE = "agents/jarvis.py:1: ModuleNotFoundError: No module named 'nothing_that_exists'"


def test_the_gateways_address_is_said_where_there_is_one() -> None:
    with_gateway = dataclasses.replace(
        DEPLOYMENT, gateway="https://agents.example.com", token="/state/operator.token"
    )
    said = [say.text for say in Story().open(with_gateway, 0.0)]
    assert said[1:4] == [
        "Status page: http://localhost:24200/",
        "Gateway: https://agents.example.com/mcp; in a browser https://agents.example.com/",
        "Its token for pallasctl and you: /state/operator.token",
    ]


def test_of_a_deployment_without_agents_there_is_nothing_to_wait_for() -> None:
    story = Story(way_out="`pallas down` stops it.")
    *_, last = story.open(dataclasses.replace(DEPLOYMENT, agents=()), 0.0)
    assert story.summarised
    assert last.text == (
        "No agents yet: write one below `agents:` and `pallasctl reload`, or declare one: "
        "`pallasctl create agent NAME`. `pallas down` stops it."
    )
    assert not Story().summarised


def test_the_gateways_failures_are_told_and_that_it_serves_again() -> None:
    told = Told()
    before = len(told.said)

    def moved(state: str, why: str = "") -> None:
        message = f"gateway: starting -> {state}{why}"
        told.log(
            message, "gateway", logging.INFO, logger="pallas.supervisor.fleet", state=state, previous="x"
        )

    moved("ready")
    moved("killing")
    moved("backoff", " (killed by SIGKILL; restarting in 1 s, failure 1/5)")
    moved("starting")
    moved("ready")
    moved("failed", " (the store (gateway.db) is damaged)")
    assert [(say.about, say.word, say.text) for say in told.said[before:]] == [
        ("gateway", "crashed", "killed by SIGKILL; restarting in 1 s, failure 1/5"),
        ("gateway", "ready", "serves again"),
        ("gateway", "failed", "the store (gateway.db) is damaged"),
    ]


def agent(name: str, state: str, **fields: Any) -> AgentView:
    port = {"research": 24201, "jarvis": 24202}[name]
    needs = ("research",) if name == "jarvis" else ()
    return AgentView(name=name, state=state, url=f"http://localhost:{port}/mcp", needs=needs, **fields)


def test_of_agents_that_become_ready_at_once_those_come_first_that_others_need() -> None:
    story = Story()
    story.open(DEPLOYMENT, 0.0)
    said = story.look([agent("jarvis", "ready"), agent("research", "ready")], 1.0)
    assert [say.about for say in said if say.word == "ready"] == ["research", "jarvis"]


class Told:
    """A story, and all that it has said so far."""

    def __init__(self, output: Sequence[str] = ()) -> None:
        self.story = Story(lambda _name: output)
        self.said = self.story.open(DEPLOYMENT, 0.0)
        self.now = 0.0

    def at(self, now: float, *views: AgentView) -> None:
        self.now = now
        self.said += self.story.look(views, now) if views else self.story.tick(now)

    def log(self, message: str, name: str = "research", level: int = logging.WARNING, **fields: str) -> None:
        record = {"logger": "shop", "message": message, **fields}
        self.said += self.story.record(name, record, level, self.now)

    def drawn(self, width: int, *, quiet: bool = False) -> str:
        layout = Layout(width, colours=False, names=8)
        return "".join(layout.draw(say) for say in self.said if say.problem or not quiet)

    def new(self) -> str:
        """What has been said since the last call."""
        drawn, self.said = self.drawn(140), []
        return drawn


def start() -> Told:
    """Both agents ready and well."""
    told = Told()
    told.at(1.0, agent("research", "starting", generation=1), agent("jarvis", "waiting"))
    ready = agent("research", "ready", generation=1, health="ok")
    told.at(1.5, ready, agent("jarvis", "starting", generation=1))
    told.at(2.1, ready, agent("jarvis", "ready", generation=1, health="ok"))
    return told


GOOD = """\
Pallas 1.2.3: demo, 2 agents of /srv/demo/agents.yaml
Status page: http://localhost:24200/

research  ready     http://localhost:24201/mcp  (in 0.5 s)
jarvis    ready     http://localhost:24202/mcp  (in 1.1 s)

2 of 2 ready in 2.1 s
Ctrl-C stops all. Ask an agent: pallasctl ask jarvis "Hello"
"""


@pytest.mark.parametrize("width", [80, 140])
def test_a_start_without_trouble(width: int) -> None:
    assert start().drawn(width) == GOOD


def trouble() -> Told:
    told = Told(["loading the index", "cannot open /var/index"])
    told.at(1.0, agent("research", "starting", generation=1), agent("jarvis", "starting", generation=1))
    unwell = agent("research", "ready", generation=1, health="degraded", message=OFFLINE)
    told.at(1.5, unwell, agent("jarvis", "starting", generation=1))
    message = "exit status 9; restarting in 2 s, failure 1/5"
    told.at(2.0, unwell, agent("jarvis", "backoff", generation=1, failures=1, message=message))
    told.at(4.0, unwell, agent("jarvis", "starting", generation=2, failures=1))
    told.at(4.5, unwell, agent("jarvis", "failed", generation=2, failures=2, message=NO_MODULE))
    return told


TROUBLE_80 = """\
research  degraded  search is not reachable: connection refused; start it, or
                    correct its url in fastagent.config.yaml
jarvis    crashed   exit status 9; restarting in 2 s, failure 1/5
                    | loading the index
                    | cannot open /var/index
jarvis    failed    agents/jarvis.py:1: ModuleNotFoundError: No module named
                    'nothing_that_exists'
                    once it is mended: pallasctl start jarvis
                    more: pallasctl logs jarvis
"""
TROUBLE_140 = """\
Pallas 1.2.3: demo, 2 agents of /srv/demo/agents.yaml
Status page: http://localhost:24200/

research  ready     http://localhost:24201/mcp  (in 0.5 s)
research  degraded  search is not reachable: connection refused; start it, or correct its url in fastagent.config.yaml
jarvis    crashed   exit status 9; restarting in 2 s, failure 1/5
                    | loading the index
                    | cannot open /var/index

1 of 2 ready in 2.0 s, 1 of them not well; `pallasctl status` shows the rest
Ctrl-C stops all. Ask an agent: pallasctl ask research "Hello"
jarvis    failed    agents/jarvis.py:1: ModuleNotFoundError: No module named 'nothing_that_exists'
                    once it is mended: pallasctl start jarvis
                    more: pallasctl logs jarvis
"""


def test_a_start_with_trouble_says_why_and_what_to_do() -> None:
    assert trouble().drawn(140) == TROUBLE_140
    assert trouble().drawn(80, quiet=True) == TROUBLE_80


def test_who_waits_for_one_that_has_failed_is_told_once_and_the_start_is_over() -> None:
    told = Told()
    told.new()
    told.at(1.0, agent("research", "starting", generation=1), agent("jarvis", "waiting"))
    failed = agent("research", "failed", generation=1, failures=1, message="exit status 1")
    waiting = agent("jarvis", "waiting", message="waiting for research (failed: exit status 1)")
    told.at(2.0, failed, waiting)
    assert "jarvis    waiting   waiting for research (failed: exit status 1)\n" in told.new()
    assert told.story.summarised
    told.at(500.0)
    assert told.new() == ""


def test_the_summary_waits_a_moment_for_what_ready_agents_say_of_their_health() -> None:
    told = Told()
    told.at(1.0, agent("research", "ready", generation=1))
    told.new()
    assert told.story.due == 2.5
    told.at(2.5)
    assert "1 of 1 ready\n" in told.new()
    told.at(3.0, agent("research", "ready", generation=1, health="degraded", message=OFFLINE))
    assert told.said[-1] == Say(OFFLINE, "degraded", "warn", "research", problem=True)


def test_a_slow_start_is_worth_a_line_after_a_while_and_then_less_and_less_often() -> None:
    told = Told()
    told.at(0.0, agent("research", "starting", generation=1))
    told.new()
    assert told.story.due == 10.0
    told.at(10.0)
    assert told.new() == (
        "research  starting  not ready after 10 s; `pallasctl logs research` shows what it does\n"
    )
    assert told.story.due == 20.0
    told.at(20.0)
    assert "after 20 s" in told.new()
    assert told.story.due == 40.0


def test_what_happens_later_is_an_event_each() -> None:
    told = start()
    told.new()
    well = agent("jarvis", "ready", generation=1, health="ok")
    crashed = agent(
        "research", "backoff", generation=1, failures=1, message="killed by SIGSEGV; restarting now"
    )
    told.at(100.0, crashed, well)
    told.at(100.1, agent("research", "starting", generation=2, failures=1), well)
    told.at(102.0, agent("research", "ready", generation=2, health="ok"), well)
    told.at(103.0, agent("research", "ready", generation=3, health="ok", pid=77), well)
    told.at(104.0, agent("research", "ready", generation=3, health="error", message="no API key"), well)
    told.at(105.0, agent("research", "ready", generation=3, health="ok"), well)
    told.at(106.0, agent("research", "stopping", generation=3, desired="down"), well)
    told.at(107.5, agent("research", "stopped", generation=3, desired="down"), well)
    told.at(108.0, well)
    assert told.new() == (
        "research  crashed   killed by SIGSEGV; restarting now\n"
        "research  ready     http://localhost:24201/mcp  (again after 2.0 s)\n"
        "research  replaced  a new worker serves, process 77\n"
        "research  error     no API key\n"
        "research  ok        is well again\n"
        "research  stopped   (after 1.5 s)\n"
        "research  removed   is not deployed any more\n"
    )


def test_a_crash_that_was_over_before_anybody_looked_is_told() -> None:
    told = start()
    told.new()
    well = agent("jarvis", "ready", generation=1, health="ok")
    told.at(9.0, agent("research", "starting", generation=2, failures=1, last_exit="exit status 3"), well)
    assert told.new() == "research  crashed   exit status 3\n"


def test_the_end_names_only_what_is_slow() -> None:
    told = start()
    told.new()
    told.said += told.story.stop(50.0)
    slow = agent("research", "stopping", generation=1, desired="down")
    told.at(50.0, slow, agent("jarvis", "stopping", generation=1, desired="down"))
    told.at(50.2, slow, agent("jarvis", "stopped", generation=1, desired="down"))
    told.at(53.0)
    down = agent("jarvis", "stopped", generation=1, desired="down")
    told.at(54.0, agent("research", "stopped", generation=1, desired="down"), down)
    told.said += told.story.stopped(54.0)
    assert told.new() == (
        "Stopping 2 agents (Ctrl-C again kills what is left)\n"
        "research  stopping  finishes its calls, 3 s so far\n"
        "research  stopped   (after 4.0 s)\n"
        "Stopped\n"
    )


def test_records_that_matter_are_one_line_each() -> None:
    told = start()
    told.new()
    told.log("order 7 is late")
    told.log("chatter", level=logging.INFO)
    told.log(
        "research: cannot divide", level=logging.ERROR, exception="Traceback …\nZeroDivisionError: by zero\n"
    )
    told.log("two\nlines", name="")
    told.log("restart of jarvis, asked for by root", "", logging.INFO, logger="pallas.supervisor.control")
    told.log("supervising 2 agents", "", logging.INFO, logger="pallas.supervisor")
    told.log("x: ready -> backoff", logger="pallas.supervisor.fleet", previous="ready")
    assert told.new() == (
        "research  warning   order 7 is late\n"
        "research  error     cannot divide: ZeroDivisionError: by zero\n"
        "pallas    warning   two lines\n"
        "pallas              restart of jarvis, asked for by root\n"
    )


def test_a_traceback_that_its_failure_repeats_is_left_out_at_the_start_alone() -> None:
    told = Told()
    told.new()
    told.at(1.0, agent("research", "starting", generation=1))
    told.log("cannot serve", logger="pallas.worker", exception="Traceback\nValueError", level=logging.ERROR)
    assert told.new() == ""
    told.at(2.0, agent("research", "ready", generation=1, health="ok"))
    told.new()
    told.log("cannot serve", logger="pallas.worker", exception="Traceback\nValueError", level=logging.ERROR)
    assert told.new() == "research  error     cannot serve: ValueError\n"


def test_an_entry_of_the_status_document_is_a_view() -> None:
    entry = {
        "name": "research",
        "state": "ready",
        "desired": "up",
        "url": "http://localhost:24201/mcp",
        "health": "ok",
        "message": "",
        "generation": 2,
        "failures": 0,
        "pid": 12,
        "last_exit": None,
        "depends_on": [],
        "of_a_newer_version": 1,
    }
    assert view_of(entry) == agent("research", "ready", generation=2, health="ok", pid=12)


def on_demand(name: str, state: str, **fields: Any) -> AgentView:
    return AgentView(name=name, state=state, url="", on_demand=True, **fields)


def test_agents_that_start_on_demand_come_and_go() -> None:
    told = Told()
    told.new()
    told.at(0.1, agent("research", "starting"), on_demand("deployer", "idle", health="ok"))
    told.at(
        0.5, agent("research", "ready", generation=1, health="ok"), on_demand("deployer", "idle", health="ok")
    )
    assert "2 of 2 ready in 0.5 s, 1 of them idle" in told.new()
    research = agent("research", "ready", generation=1, health="ok")
    told.at(9.0, research, on_demand("deployer", "starting", generation=1))
    told.at(9.3, research, on_demand("deployer", "ready", generation=1, pid=7, health="ok"))
    assert "deployer  ready" in (said := told.new())
    assert "0.3 s" in said
    told.at(60.0, research, on_demand("deployer", "idle", generation=1, health="ok"))
    assert "starts when somebody connects" in told.new()
    assert told.story.failing == []


def test_with_many_of_them_only_what_goes_wrong_is_said() -> None:
    told = Told()
    many = [on_demand(f"a{number}", "idle", health="ok") for number in range(500)]
    told.at(0.1, *many)
    assert "500 of 500 ready, 500 of them idle" in told.new()
    woken = on_demand("a7", "starting", generation=1)
    told.at(1.0, *many[:7], woken, *many[8:])
    told.at(1.3, *many[:7], on_demand("a7", "ready", generation=1, pid=7, health="ok"), *many[8:])
    told.at(9.0, *many[:7], on_demand("a7", "idle", generation=1, health="ok"), *many[8:])
    assert told.new() == ""
    crashed = on_demand("a7", "backoff", generation=2, failures=1, message="exit status 1")
    told.at(20.0, *many[:7], crashed, *many[8:])
    assert "exit status 1" in told.new()
