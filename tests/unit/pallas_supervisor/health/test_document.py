"""The health document: the status of each agent and of all, and since when each thing is so."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_common.protocol.reports import DownstreamHealth, HealthReport, ProviderHealth, Status
from pallas_supervisor.health.document import agent_health, roll_up, with_gateway
from pallas_supervisor.health.history import HealthHistory
from pallas_supervisor.lifecycle.states import After, Desired, Policy, State
from support.supervisor.fakes import agent


def report(status: Status, message: str | None = None) -> HealthReport:
    return HealthReport(status=status, timestamp="now", message=message)


def silent(_name: str) -> str:
    return ""


UP = {"desired": Desired.UP}
ON_DEMAND = {**UP, "policy": Policy(start="on-demand")}


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
    ("state", "after", "health"),
    [
        (State.IDLE, After.EXIT, "ok"),
        (State.STARTING, After.EXIT, "ok"),
        (State.STOPPING, After.IDLE, "ok"),
        (State.KILLING, After.IDLE, "ok"),
        (State.KILLING, After.FAILURE, "error"),
        (State.BACKOFF, After.EXIT, "error"),
    ],
)
def test_waking_and_going_idle_is_no_change_of_health(state: State, after: After, health: str) -> None:
    assert agent_health(agent(state=state, after=after, **ON_DEMAND), None) == health


def test_the_entry_of_an_idle_agent_is_small() -> None:
    agents = {"research": agent(state=State.IDLE, **ON_DEMAND)}
    history = HealthHistory()
    history.note("research", "ok", NOON)
    document = roll_up(agents, {}, silent, history, LATER)
    assert document["status"] == "ok"
    assert document["agents"] == {"research": {"status": "ok", "state": "idle", "since": NOON}}


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
def test_health_of_all(healths: tuple[Status, ...], overall: str) -> None:
    agents = {f"a{index}": agent(state=State.READY, **UP) for index in range(len(healths))}
    reports = {f"a{index}": report(health, "why") for index, health in enumerate(healths)}
    assert roll_up(agents, reports, silent, HealthHistory(), "now")["status"] == overall


def test_an_agent_that_should_not_run_is_shown_and_does_not_count() -> None:
    agents = {"research": agent(state=State.READY, **UP), "jarvis": agent(state=State.STOPPED)}
    history = HealthHistory()
    history.note("research", "ok", NOON)
    nothing: dict[str, Any] = {"since": None, "checked": None, "downstreams": [], "provider": None}
    assert roll_up(agents, {}, silent, history, "2026-01-31T12:00:00Z") == {
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
    entries = roll_up(agents, reports, messages.__getitem__, HealthHistory(), "now")["agents"]
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
        entry: dict[str, Any] = roll_up(agents, {"research": report}, silent, history, "now")["agents"][
            "research"
        ]
        return entry

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
        [{"name": "library", "latency": 0.25, "incomplete": None, **look}] for look in looks
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
    shown = roll_up(agents, {"research": found(NOON)}, silent, HealthHistory(), "now")["agents"]["research"]
    assert (shown["downstreams"], shown["provider"], shown["checked"]) == ([], None, None)


def test_an_agents_health_has_its_own_since() -> None:
    history = HealthHistory()
    for status, moment in (("ok", NOON), ("ok", LATER), ("degraded", LATEST)):
        history.note("research", status, moment)  # type: ignore[arg-type]  # these words are statuses
        assert history.since("research") == {NOON: NOON, LATER: NOON, LATEST: LATEST}[moment]


@pytest.mark.parametrize(
    ("agents", "gateway", "closed", "overall"),
    [
        ("ok", "ok", False, "ok"),
        ("ok", "degraded", False, "degraded"),
        ("ok", "error", False, "degraded"),
        ("ok", "error", True, "error"),
        ("degraded", "error", True, "error"),
        ("error", "ok", False, "error"),
        ("degraded", "ok", False, "degraded"),
    ],
)
def test_the_gateway_counts_with_the_agents(
    agents: Status, gateway: Status, closed: bool, overall: Status
) -> None:
    assert with_gateway(agents, gateway, closed=closed) == overall
