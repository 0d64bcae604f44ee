"""The supervisor's small pure parts: dependencies, back-off, reload plans, health, status, wording."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.protocol.reports import DownstreamHealth, HealthReport, ProviderHealth
from pallas_registry.deployment.model import Agent as Facts
from pallas_registry.deployment.model import Deployment
from pallas_supervisor.agents.status import agent_status, say_why, timestamp
from pallas_supervisor.health.document import agent_health, roll_up
from pallas_supervisor.health.history import HealthHistory
from pallas_supervisor.lifecycle.backoff import JITTER, LONGEST, backoff_seconds, budget_spent
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.exits import describe_exit, describe_seconds
from pallas_supervisor.lifecycle.states import Desired, Exit, Policy, State
from pallas_supervisor.reload.plan import ACTIONS, DEPLOYMENT_ACTIONS, FIXED, Plan, plan_reload
from support.supervisor.fakes import agent

# --- graph ----------------------------------------------------------------------------------------------

DIAMOND = {
    "jarvis": ("research", "engineering"),
    "research": ("library",),
    "engineering": ("library",),
    "library": (),
}


def test_start_order_puts_dependencies_first_and_stop_order_last() -> None:
    graph = Graph(DIAMOND)
    assert graph.start_order[0] == "library"
    assert graph.start_order[-1] == "jarvis"
    assert graph.stop_order == graph.start_order[::-1]


def test_neighbours_and_closures() -> None:
    graph = Graph(DIAMOND)
    assert graph.dependencies("jarvis") == ("research", "engineering")
    assert set(graph.dependents("library")) == {"research", "engineering"}
    assert graph.needed_by(["research"]) == ("library", "research")
    assert set(graph.needing(["research"])) == {"research", "jarvis"}
    assert graph.needed_by([]) == ()


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = [f"a{number}" for number in range(draw(st.integers(1, 9)))]
    edges = {
        name: tuple(draw(st.sets(st.sampled_from(names[:index])))) if index else ()
        for index, name in enumerate(names)
    }
    return {name: edges[name] for name in draw(st.permutations(names))}


@given(acyclic())
def test_every_order_respects_every_edge(dependencies: dict[str, tuple[str, ...]]) -> None:
    graph = Graph(dependencies)
    assert sorted(graph.start_order) == sorted(dependencies)
    position = {name: index for index, name in enumerate(graph.start_order)}
    for name, needs in dependencies.items():
        assert all(position[need] < position[name] for need in needs)
        assert all(name in graph.dependents(need) for need in needs)
        assert set(needs) <= set(graph.needed_by([name]))
        assert all(name in graph.needing([need]) for need in needs)


# --- back-off -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "was_ready", "seconds"),
    [(1, False, 0.5), (2, False, 1.0), (3, False, 2.0), (7, False, 30.0), (1, True, 0.0), (2, True, 0.5)],
)
def test_the_wait_doubles_from_half_a_second(failures: int, was_ready: bool, seconds: float) -> None:
    assert backoff_seconds(failures, 0.5, was_ready=was_ready) == pytest.approx(seconds)


@given(st.integers(1, 10_000), st.floats(0.0, 1.0, exclude_max=True), st.booleans())
def test_the_wait_is_bounded_and_spread(failures: int, draw: float, was_ready: bool) -> None:
    wait = backoff_seconds(failures, draw, was_ready=was_ready)
    middle = backoff_seconds(failures, 0.5, was_ready=was_ready)
    assert 0.0 <= wait <= LONGEST * (1 + JITTER)
    assert middle * (1 - JITTER) <= wait <= middle * (1 + JITTER)
    assert backoff_seconds(failures + 1, 0.5, was_ready=was_ready) >= middle


def test_there_is_no_wait_without_a_failure() -> None:
    with pytest.raises(ValueError, match="no back-off without a failure"):
        backoff_seconds(0, 0.5, was_ready=False)


def test_the_budget_is_the_number_of_failures_that_are_answered() -> None:
    assert [budget_spent(failures, 3) for failures in (1, 2, 3, 4)] == [False, False, True, True]


# --- plan -----------------------------------------------------------------------------------------------


def facts(name: str, **changes: object) -> Facts:
    made = Facts(name=name, module=f"agents.{name}", port=24201, title=name, description=name)
    return replace(made, **changes)  # type: ignore[arg-type]


def deployment(*agents: Facts, **changes: object) -> Deployment:
    made = Deployment(
        name="demo",
        agents={agent.name: agent for agent in agents},
        namespace="local.demo",
        bind="127.0.0.1",
        path=Path("agents.yaml"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def planned(old: Deployment, new: Deployment, **outdated: tuple[str, ...]) -> Plan:
    return plan_reload(old, new, outdated)


def test_every_field_has_its_action() -> None:
    assert set(ACTIONS) == {field.name for field in fields(Facts)} - {"name"}
    asked = {*DEPLOYMENT_ACTIONS, *FIXED}
    assert asked == {field.name for field in fields(Deployment)} - {"agents", "path"}
    assert not set(DEPLOYMENT_ACTIONS) & set(FIXED)


def test_nothing_changed() -> None:
    old = deployment(facts("research"), facts("jarvis", port=24202))
    plan = planned(old, replace(old, path=Path("elsewhere.yaml")))
    assert plan.unchanged == ("research", "jarvis")
    assert (plan.added, plan.removed, plan.changed, plan.fixed) == ((), (), {}, ())


def test_another_order_is_no_change() -> None:
    one, other = facts("research"), facts("jarvis", port=24202)
    assert set(planned(deployment(one, other), deployment(other, one)).unchanged) == {"research", "jarvis"}


def test_added_removed_and_changed_agents() -> None:
    old = deployment(facts("research"), facts("library", port=24202), facts("jarvis", port=24203))
    new = deployment(
        facts("research", title="Research"), facts("jarvis", port=24203), facts("engineering", port=24204)
    )
    assert planned(old, new).to_json(dry_run=True) == {
        "dry_run": True,
        "added": ["engineering"],
        "removed": ["library"],
        "changed": [{"agent": "research", "fields": ["title"], "action": "respawn"}],
        "unchanged": ["jarvis"],
    }


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({"icon": "https://example.com/i.png"}, "live"),
        ({"max_failures": 9, "depends_on": ("library",)}, "live"),
        ({"max_failures": 9, "env": {"A": "1"}}, "respawn"),
        ({"max_concurrency": 4, "max_queue": 8, "max_request_bytes": 4096}, "respawn"),
        ({"liveness_misses": 0}, "live"),
        ({"liveness_interval": 1.0, "memory_limit": 2**30, "slow_after": 2.0}, "respawn"),
        ({"module": "agents.other", "port": 24299}, "rebind"),
    ],
)
def test_the_strongest_action_counts(changes: dict[str, object], action: str) -> None:
    change = planned(deployment(facts("research")), deployment(facts("research", **changes))).changed[
        "research"
    ]
    assert change.action == action
    assert set(change.fields) == set(changes)


def test_an_older_version_of_a_file_asks_for_a_new_process() -> None:
    old = deployment(facts("research"), facts("jarvis", port=24202))
    changed = planned(old, old, jarvis=("fastagent.config.yaml", ".env", "agents.yaml")).changed
    assert list(changed) == ["jarvis"]
    assert changed["jarvis"].action == "respawn"
    assert changed["jarvis"].fields == (".env", "agents.yaml", "fastagent.config.yaml")


def test_the_file_is_not_named_beside_its_fields() -> None:
    old, new = deployment(facts("jarvis")), deployment(facts("jarvis", title="Jarvis", icon="j.svg"))
    files = ("agents.yaml", ".env")
    assert planned(old, new, jarvis=files).changed["jarvis"].fields == ("title", "icon", ".env")
    live = deployment(facts("jarvis", icon="j.svg"))
    assert planned(old, live, jarvis=files).changed["jarvis"].fields == ("icon", ".env", "agents.yaml"), (
        "its worker is older than the present definition"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "other"), ("registry_port", 24299), ("bind", "0.0.0.0")],
)
def test_what_only_a_restart_changes(field: str, value: object) -> None:
    old = deployment(facts("research"))
    assert planned(old, replace(old, **{field: value})).fixed == (field,)  # type: ignore[arg-type]


# --- health ---------------------------------------------------------------------------------------------


def report(status: str, message: str | None = None) -> HealthReport:
    return HealthReport(status=status, timestamp="now", message=message)  # type: ignore[arg-type]


UP = {"desired": Desired.UP}


@pytest.mark.parametrize(
    ("state", "said", "health"),
    [
        (State.READY, None, "ok"),
        (State.READY, report("ok"), "ok"),
        (State.READY, report("degraded", "no library"), "degraded"),
        (State.READY, report("error", "no model"), "error"),
        (State.STARTING, report("ok"), "error"),
        (State.STOPPED, None, "error"),
    ],
)
def test_health_of_one_agent(state: State, said: HealthReport | None, health: str) -> None:
    assert agent_health(agent(state=state), said) == health


@pytest.mark.parametrize(
    ("healths", "overall"),
    [
        ((), "ok"),
        (("ok", "ok"), "ok"),
        (("ok", "degraded"), "degraded"),
        (("ok", "error"), "degraded"),
        (("degraded", "error"), "degraded"),
        (("error", "error"), "error"),
    ],
)
def test_health_of_all(healths: tuple[str, ...], overall: str) -> None:
    agents = {f"a{index}": agent(state=State.READY, **UP) for index in range(len(healths))}
    reports = {f"a{index}": report(health, "why") for index, health in enumerate(healths)}
    assert roll_up(agents, reports, {}, HealthHistory(), "now")["status"] == overall


def test_an_agent_that_should_not_run_is_shown_and_does_not_count() -> None:
    agents = {"research": agent(state=State.READY, **UP), "jarvis": agent(state=State.STOPPED)}
    history = HealthHistory()
    history.note("research", "ok", NOON)
    nothing = {"since": None, "checked": None, "downstreams": [], "provider": None}
    assert roll_up(agents, {}, {"jarvis": ""}, history, "2026-01-31T12:00:00Z") == {
        "status": "ok",
        "timestamp": "2026-01-31T12:00:00Z",
        "agents": {
            "research": nothing | {"status": "ok", "state": "ready", "since": NOON},
            "jarvis": nothing | {"status": "error", "state": "stopped", "message": "the agent is stopped"},
        },
    }


def test_the_message_is_the_agents_own_while_it_is_ready() -> None:
    agents = {"research": agent(state=State.READY, **UP), "jarvis": agent(state=State.WAITING, **UP)}
    reports = {"research": report("degraded", "library is down"), "jarvis": report("degraded", "old news")}
    messages = {"research": "", "jarvis": "waiting for research (ready)"}
    entries = roll_up(agents, reports, messages, HealthHistory(), "now")["agents"]
    assert entries["research"]["message"] == "library is down"
    assert entries["jarvis"]["message"] == "waiting for research (ready)"


NOON, LATER, LATEST = "2026-03-12T12:00:00Z", "2026-03-12T12:00:15Z", "2026-03-12T12:00:30Z"


def found(checked: str, error: str | None = None) -> HealthReport:
    """A report on the server `library` and the provider `openai`, both up or both down."""
    up = error is None
    return HealthReport(
        status="ok" if up else "degraded",
        timestamp=checked,
        message=None if up else "Unreachable: library",
        downstreams=(DownstreamHealth(name="library", up=up, latency=0.25, error=error, checked=checked),),
        provider=ProviderHealth(name="openai", up=up, latency=0.5, error=error, checked=checked),
    )


def test_since_when_and_the_last_error_outlive_what_comes_after() -> None:
    history = HealthHistory()
    agents = {"research": agent(state=State.READY, **UP)}

    def entry(report: HealthReport) -> dict[str, Any]:
        history.take("research", report)
        return roll_up(agents, {"research": report}, {}, history, "now")["agents"]["research"]  # type: ignore[no-any-return]

    seen = [entry(found(NOON)), entry(found(LATER)), entry(found(LATEST, "HTTP 503"))]
    looks = [
        {
            "up": True,
            "since": NOON,
            "checked": NOON,
            "error": None,
            "last_error": None,
            "last_error_at": None,
        },
        {
            "up": True,
            "since": NOON,
            "checked": LATER,
            "error": None,
            "last_error": None,
            "last_error_at": None,
        },
        {
            "up": False,
            "since": LATEST,
            "checked": LATEST,
            "error": "HTTP 503",
            "last_error": "HTTP 503",
            "last_error_at": LATEST,
        },
    ]
    assert [look["downstreams"] for look in seen] == [
        [{"name": "library", "latency": 0.25, **look}] for look in looks
    ]
    assert [look["provider"] for look in seen] == [
        {"name": "openai", "latency": 0.5, **look} for look in looks
    ]
    (back,) = entry(found("2026-03-12T12:00:45Z"))["downstreams"]
    assert (back["up"], back["since"], back["error"]) == (True, "2026-03-12T12:00:45Z", None)
    assert (back["last_error"], back["last_error_at"]) == ("HTTP 503", LATEST)
    gone = HealthReport(status="ok", timestamp=NOON)
    assert entry(gone)["downstreams"] == []
    assert history.downstream("research", "library") is None
    history.forget("research")
    assert history.since("research") is None


def test_what_a_worker_found_is_not_shown_while_nobody_looks() -> None:
    agents = {"research": agent(state=State.BACKOFF, **UP)}
    shown = roll_up(agents, {"research": found(NOON)}, {}, HealthHistory(), "now")["agents"]["research"]
    assert (shown["downstreams"], shown["provider"], shown["checked"]) == ([], None, None)


def test_an_agents_health_has_its_own_since() -> None:
    history = HealthHistory()
    for status, moment in (("ok", NOON), ("ok", LATER), ("degraded", LATEST)):
        history.note("research", status, moment)  # type: ignore[arg-type]
        assert history.since("research") == {NOON: NOON, LATER: NOON, LATEST: LATEST}[moment]


# --- status ---------------------------------------------------------------------------------------------


def test_why() -> None:
    failed = agent(name="library", state=State.FAILED, message="exit status 78")
    agents = {"library": failed, "research": agent(state=State.STARTING)}

    def why(waiting_for: tuple[str, ...] = (), **changes: object) -> str:
        return say_why(agent(**changes), waiting_for, agents, 100.0)

    assert (
        why(("library", "research"), state=State.WAITING)
        == "waiting for library (failed: exit status 78), research (starting)"
    )
    assert why(state=State.WAITING) == ""
    assert why(state=State.READY) == ""
    assert why(state=State.FAILED, message="ImportError: x") == "ImportError: x"
    died = {"state": State.BACKOFF, "message": "killed by SIGKILL", "failures": 2}
    assert why(**died, retry_at=102.2) == "killed by SIGKILL; restarting in 2 s, failure 2/5"
    assert why(**died, retry_at=100.4) == "killed by SIGKILL; restarting in 0.4 s, failure 2/5"
    assert why(**died, retry_at=99.0) == "killed by SIGKILL; restarting now, failure 2/5"


def test_status_of_one_agent() -> None:
    known = agent(
        state=State.BACKOFF,
        desired=Desired.UP,
        policy=Policy(max_failures=3),
        generation=4,
        failures=2,
        restarts=3,
        last_exit=Exit(status=70),
    )
    entry = agent_status(
        known,
        port=24201,
        depends_on=("library",),
        message="exit status 70",
        health="error",
        memory=None,
        age=0.0,
        outdated=(".env",),
    )
    since = datetime.fromisoformat(entry.pop("since"))
    assert since.tzinfo is not None
    assert entry == {
        "name": "research",
        "state": "backoff",
        "desired": "up",
        "pid": None,
        "port": 24201,
        "restarts": 3,
        "failures": 2,
        "max_failures": 3,
        "health": "error",
        "message": "exit status 70",
        "last_exit": "exit status 70",
        "generation": 4,
        "depends_on": ["library"],
        "resident_memory": None,
        "outdated": [".env"],
        "replacement": None,
    }


def test_timestamps_are_rfc_3339_in_utc() -> None:
    moment = timestamp(3600.0)
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-31T12:00:00.000Z")
    assert datetime.fromisoformat(moment) < datetime.now(UTC)


# --- wording --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit_", "text"),
    [
        (Exit(status=0), "exit status 0"),
        (Exit(status=78), "exit status 78"),
        (Exit(signal=9), "killed by SIGKILL"),
        (Exit(signal=50), "killed by signal 50"),
    ],
)
def test_exits(exit_: Exit, text: str) -> None:
    assert describe_exit(exit_) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (0.44, "0.4 s"), (0.97, "1.0 s"), (1.6, "2 s"), (29.7, "30 s")]
)
def test_waits(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text
