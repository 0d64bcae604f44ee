"""The agent's health: what outcomes mean, when rounds are made, and what is answered in between."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import Fault, run_downstream
from pallas_common.protocol.reports import (
    DownstreamHealth,
    HealthReport,
    ProviderHealth,
    decode_report,
    encode_report,
)
from pallas_worker.downstreams.facts import Downstream
from pallas_worker.health.assessment import assess, health_document
from pallas_worker.health.needs import Provider
from pallas_worker.health.report import Health
from pallas_worker.health.subjects import Subject
from pallas_worker.interface.providers.failures import ModelFailure
from pallas_worker.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LOGGER = "pallas.worker.health"
NOON = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)


def server(name: str) -> Downstream:
    return Downstream(name=name, transport="http", url="http://127.0.0.1:9/mcp")


def outcome(name: str, up: bool = True) -> DownstreamHealth:
    return DownstreamHealth(name=name, up=up, latency=0.01, error=None if up else "HTTP 500")


def looked_at[Outcome: (DownstreamHealth, ProviderHealth)](found: Outcome) -> Outcome:
    return replace(found, checked="2026-03-12T12:00:00.000Z")


OPENAI_UP = ProviderHealth(name="openai", up=True)
OPENAI_DOWN = ProviderHealth(name="openai", up=False, error="model 'bad-model' not found")
OPENAI_SLOW = ProviderHealth(name="openai", up=True, latency=2.34)
SLOW = DownstreamHealth(name="neo4j", up=True, latency=1.25)


@pytest.mark.parametrize(
    ("downstreams", "provider", "failure", "expected"),
    [
        ([], None, None, ("ok", None)),
        ([SLOW, outcome("argos")], OPENAI_UP, None, ("degraded", "Slow: neo4j (1.2 s)")),
        (
            [replace(outcome("a"), incomplete="only 9 of its tools are used: …"), SLOW],
            None,
            None,
            ("degraded", "Slow: neo4j (1.2 s); Incomplete: a (only 9 of its tools are used: …)"),
        ),
        ([], OPENAI_SLOW, None, ("degraded", "LLM: openai: slow (2.3 s)")),
        ([outcome("a", False), SLOW], None, None, ("degraded", "Unreachable: a; Slow: neo4j (1.2 s)")),
        ([], OPENAI_DOWN, "no API key", ("error", "no API key")),
        ([outcome("a"), outcome("b")], OPENAI_UP, None, ("ok", None)),
        (
            [outcome("argos"), outcome("neo4j_cypher", False)],
            OPENAI_DOWN,
            None,
            ("degraded", "Unreachable: neo4j_cypher; LLM: openai: model 'bad-model' not found"),
        ),
        ([outcome("b", False), outcome("a", False)], None, None, ("degraded", "Unreachable: b, a")),
        (
            [replace(outcome("b", False), error="HTTP 401: wants credentials"), outcome("a", False)],
            None,
            None,
            ("degraded", "Unreachable: a; Refused: b (HTTP 401)"),
        ),
        ([], OPENAI_DOWN, None, ("degraded", "LLM: openai: model 'bad-model' not found")),
        (
            [],
            ProviderHealth(name="openai", up=False),
            None,
            ("degraded", "LLM: openai: failed its check"),
        ),
        ([outcome("a")], OPENAI_UP, "no instance can be made", ("error", "no instance can be made")),
        (
            [outcome("a", False)],
            None,
            "no instance can be made",
            ("error", "no instance can be made; Unreachable: a"),
        ),
    ],
)
def test_what_outcomes_mean(
    downstreams: list[DownstreamHealth],
    provider: ProviderHealth | None,
    failure: str | None,
    expected: tuple[str, str | None],
) -> None:
    assert assess(downstreams, provider, failure, (SLOW, OPENAI_SLOW)) == expected


def test_the_document_has_a_message_only_when_there_is_something_to_say() -> None:
    ok = HealthReport(status="ok", timestamp="2026-03-12T12:00:00Z", downstreams=(outcome("a"),))
    assert health_document(ok) == {"status": "ok", "timestamp": "2026-03-12T12:00:00Z"}
    bad = HealthReport(status="degraded", timestamp="2026-03-12T12:00:00Z", message="Unreachable: a")
    assert health_document(bad)["message"] == "Unreachable: a"


class Outcomes:
    """All that a round asks, and where its reports go."""

    def __init__(self) -> None:
        self.up = {"argos": True, "neo4j": True}
        self.latency = 0.01
        self.provider = OPENAI_UP
        self.gate = asyncio.Event()
        self.gate.set()
        self.reports: asyncio.Queue[Any] = asyncio.Queue()
        self.under_way = 0
        self.most_at_once = 0
        self.errors: list[Exception] = []

    async def probe(self, downstream: Downstream) -> DownstreamHealth:
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        await asyncio.sleep(0)
        await self.gate.wait()
        self.under_way -= 1
        return replace(outcome(downstream.name, self.up[downstream.name]), latency=self.latency)

    async def check(self) -> ProviderHealth:
        if self.errors:
            raise self.errors.pop()
        return self.provider

    def health(self, **fields: Any) -> Health:
        servers = [server(name) for name in self.up]
        defaults: dict[str, Any] = {"now": lambda: NOON, "probe": self.probe, "interval": 0.0}
        providers = [Provider("openai", self.check)]
        return Health("research", servers, providers, self.reports.put_nowait, **defaults | fields)


@asynccontextmanager
async def running(health: Health) -> AsyncIterator[None]:
    task = asyncio.create_task(health.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_rounds_are_parallel_published_and_answered_from(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        outcomes = Outcomes()
        health = outcomes.health()
        async with running(health):
            report = await outcomes.reports.get()
            assert report == HealthReport(
                status="ok",
                timestamp="2026-03-12T12:00:00Z",
                downstreams=(looked_at(outcome("argos")), looked_at(outcome("neo4j"))),
                provider=looked_at(OPENAI_UP),
            )
            assert outcomes.most_at_once == 2
            assert decode_report(encode_report(report)) == report
            outcomes.up["neo4j"] = False
            outcomes.provider = OPENAI_DOWN
            while (report := await outcomes.reports.get()).status == "ok":
                pass
            assert report.message == "Unreachable: neo4j; LLM: openai: model 'bad-model' not found"
            assert (await health.newest()).status == "degraded"
            outcomes.up["neo4j"] = True
            outcomes.provider = OPENAI_UP
            while (await outcomes.reports.get()).status != "ok":
                pass

    asyncio.run(run())
    told = [
        re.sub(r"failed: \d+$", "failed: N", record.getMessage())
        for record in caplog.records
        if record.name == LOGGER
    ]
    assert told == [
        "downstream server neo4j is down: HTTP 500",
        "LLM provider openai is down: model 'bad-model' not found",
        "downstream server neo4j is up again; attempts that failed: N",
        "LLM provider openai is up again; attempts that failed: N",
    ]


def test_who_waits_for_the_first_round_is_answered_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_worker.health.report.FIRST_ROUND_TIMEOUT", 3600.0)

    async def run() -> None:
        outcomes = Outcomes()
        outcomes.gate.clear()
        health = outcomes.health(interval=3600)
        async with running(health):
            waiting = asyncio.create_task(health.newest())
            await asyncio.sleep(0)
            outcomes.gate.set()
            async with asyncio.timeout(60):
                assert (await waiting).status == "ok"

    asyncio.run(run())


def test_an_agent_that_needs_nothing_says_so_again_and_again() -> None:
    async def run() -> None:
        reports: asyncio.Queue[Any] = asyncio.Queue()
        async with running(Health("research", (), (), reports.put_nowait, interval=0.01)):
            for _ in range(3):
                report = await reports.get()
                assert (report.status, report.downstreams, report.provider) == ("ok", (), None)

    asyncio.run(run())


def test_what_is_slow_twice_in_a_row_degrades_with_the_time_that_it_took(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        outcomes = Outcomes()
        outcomes.latency = 1.25
        # Nothing is due for an hour, except what was slow for the first time.
        async with running(outcomes.health(interval=3600, slow_after=1.2)):
            assert (await outcomes.reports.get()).status == "ok"
            report = await outcomes.reports.get()
            assert (report.status, report.message) == ("degraded", "Slow: argos (1.2 s), neo4j (1.2 s)")
            assert all(server.up for server in report.downstreams)
        async with running(outcomes.health(interval=0, slow_after=1.2)):
            while (await outcomes.reports.get()).status == "ok":
                pass
            outcomes.latency = 1.2
            while (await outcomes.reports.get()).status != "ok":
                pass

    asyncio.run(run())
    told = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    slow = [f"downstream server {name} is slow: it answers after 1.2 s" for name in ("argos", "neo4j")]
    assert told == [
        *slow,
        *slow,
        *(f"downstream server {name} is not slow any more" for name in ("argos", "neo4j")),
    ]


def test_a_server_that_calls_cannot_use_is_down_whatever_probes_find(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gauges: dict[str, bool] = {}
    monkeypatch.setattr(metrics, "set_downstream_up", lambda _, name, up: gauges.update({name: up}))

    async def run() -> None:
        outcomes = Outcomes()
        tried = asyncio.Event()
        why = "ended before it answered: KeyError"
        health = outcomes.health(unattached={"argos": why}, attach_again=tried.set)
        async with running(health):
            report = await outcomes.reports.get()
            assert (report.status, report.message) == ("degraded", "Unreachable: argos")
            assert [(server.up, server.error) for server in report.downstreams] == [
                (False, why),
                (True, None),
            ]
            assert gauges == {"argos": False, "neo4j": True}
            await tried.wait()
            health.attachment("argos", why)
            health.attachment("nobody's", why)
            health.attachment("argos", None)
            while (report := await outcomes.reports.get()).status != "ok":
                pass
            assert gauges["argos"]
            tried.clear()
            for _ in range(3):
                await outcomes.reports.get()
            assert not tried.is_set(), "there is nothing to try again"

    asyncio.run(run())
    told = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert told == [
        "downstream server argos is down: ended before it answered: KeyError",
        "downstream server argos is up again; attempts that failed: 2",
    ]


def test_what_starts_on_demand_is_up_unasked_and_down_for_a_while_where_a_call_found_it_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pallas_worker.health.report.PASSING_FAILURE", 0.01)
    probed: list[str] = []

    async def run() -> None:
        outcomes = Outcomes()

        async def probe(downstream: Downstream) -> DownstreamHealth:
            probed.append(downstream.name)
            return outcome(downstream.name)

        def attach_again() -> None:
            raise AssertionError("only a call may wake it")

        health = outcomes.health(probe=probe, attach_again=attach_again, on_demand={"argos"}, interval=3600)
        async with running(health), asyncio.timeout(60):
            report = await outcomes.reports.get()
            asleep = looked_at(DownstreamHealth(name="argos", up=True, latency=None))
            assert report.downstreams == (asleep, looked_at(outcome("neo4j")))
            health.attachment("argos", "refused")
            assert (await outcomes.reports.get()).message == "Unreachable: argos"
            assert (await outcomes.reports.get()).status == "ok"

    asyncio.run(run())
    assert probed == ["neo4j"]


REFUSED = ModelFailure("key_refused", 401, "openai")


def test_an_llm_that_refuses_calls_is_down_until_one_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its list of models says."""
    gauges: dict[str, bool] = {}
    monkeypatch.setattr(metrics, "set_llm_provider_up", lambda name, up: gauges.update({name: up}))

    async def run() -> None:
        outcomes = Outcomes()
        health = outcomes.health()
        async with running(health):
            assert (await outcomes.reports.get()).status == "ok"
            health.model_called(REFUSED)
            report = await health.newest()
            assert (report.status, report.message) == (
                "degraded",
                "LLM: openai: calls fail: HTTP 401: the API key is not accepted",
            )
            while not outcomes.reports.empty():
                outcomes.reports.get_nowait()
            for _ in range(3):
                assert (await outcomes.reports.get()).status == "degraded"
            assert gauges == {"openai": False}
            health.model_called(None)
            assert (await health.newest()).status == "ok"
            assert gauges == {"openai": True}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("bound", "failure"),
    [
        ("PASSING_FAILURE", ModelFailure("overloaded", 503, "openai")),
        ("LASTING_FAILURE", REFUSED),
    ],
    ids=["may-pass", "lasts"],
)
def test_a_failure_is_forgotten_after_a_while(
    monkeypatch: pytest.MonkeyPatch, bound: str, failure: ModelFailure
) -> None:
    monkeypatch.setattr(f"pallas_worker.health.report.{bound}", 0.01)

    async def run() -> None:
        outcomes = Outcomes()
        health = outcomes.health(interval=3600)  # and nothing else is due
        async with running(health), asyncio.timeout(60):
            assert (await outcomes.reports.get()).status == "ok"
            health.model_called(failure)
            assert (await outcomes.reports.get()).message == f"LLM: openai: calls fail: {failure.reason}"
            assert (await outcomes.reports.get()).status == "ok"

    asyncio.run(run())


def test_a_failure_of_calls_is_over_when_the_providers_check_succeeds_again() -> None:
    """Nobody may call an agent that is degraded; the check alone says that the key is accepted again."""

    async def run() -> None:
        up = True

        async def check() -> ProviderHealth:
            return ProviderHealth(name="openai", up=up, error=None if up else "HTTP 401")

        reports: asyncio.Queue[Any] = asyncio.Queue()
        health = Health("research", (), [Provider("openai", check)], reports.put_nowait, interval=0)
        async with running(health), asyncio.timeout(60):
            assert (await reports.get()).status == "ok"
            health.model_called(REFUSED)
            up = False
            while (await reports.get()).message != "LLM: openai: HTTP 401":
                pass
            up = True
            while (await reports.get()).status != "ok":
                pass
            assert (await health.newest()).provider is not None

    asyncio.run(run())


def test_a_provider_that_cannot_be_asked_is_known_by_its_calls() -> None:
    async def run() -> None:
        reports: asyncio.Queue[Any] = asyncio.Queue()
        health = Health("research", (), [Provider("google", None)], reports.put_nowait, interval=3600)
        async with running(health), asyncio.timeout(60):
            report = await reports.get()
            assert (report.status, report.provider) == ("ok", None)
            health.model_called(REFUSED._replace(provider="google"))
            report = await reports.get()
            assert report.message == "LLM: google: calls fail: HTTP 401: the API key is not accepted"
            health.model_called(None)
            report = await reports.get()
            assert report.status == "ok"
            assert report.provider is not None
            assert (report.provider.name, report.provider.up, report.provider.error) == ("google", True, None)
            assert report.provider.checked is not None

    asyncio.run(run())


@pytest.mark.parametrize(
    "wrong", ["model 'alias' not found", "HTTP 404 for the list of models: is base_url right?"]
)
def test_a_model_that_is_not_listed_is_degraded_until_a_call_is_answered(wrong: str) -> None:
    """Calls are the evidence; a probe that finds the provider itself broken counts after that as well."""

    async def run() -> None:
        error = wrong

        async def check() -> ProviderHealth:
            return ProviderHealth(name="openai", up=False, error=error)

        reports: asyncio.Queue[Any] = asyncio.Queue()
        health = Health("research", (), [Provider("openai", check)], reports.put_nowait, interval=0)
        async with running(health), asyncio.timeout(60):
            assert (await reports.get()).message == f"LLM: openai: {wrong}"
            assert health.is_model_down()
            health.model_called(None)
            while not reports.empty():
                reports.get_nowait()
            for _ in range(3):
                assert (await reports.get()).status == "ok"
            assert not health.is_model_down()
            error = "HTTP 500"
            while (await reports.get()).message != "LLM: openai: HTTP 500":
                pass

    asyncio.run(run())


def test_an_answered_call_stands_in_for_the_check() -> None:
    async def check() -> ProviderHealth:
        raise AssertionError

    subject = Subject(kind=ProviderHealth, name="openai", look=check, interval=60)
    assert subject.answered("2026-01-01T00:00:00Z", 100.0)
    assert (subject.due, subject.condition) == (160.0, "up")
    assert not subject.answered("2026-01-01T00:00:50Z", 150.0)
    assert subject.due == 210.0


@pytest.mark.parametrize("other", ["anthropic", None])
def test_the_failure_of_anothers_llm_says_nothing_of_the_active_provider(other: str | None) -> None:
    """A chain's second agent may have an LLM of another provider."""

    async def run() -> None:
        outcomes = Outcomes()
        health = outcomes.health(interval=3600)
        async with running(health):
            assert (await outcomes.reports.get()).status == "ok"
            health.model_called(REFUSED._replace(provider=other))
            assert (await health.newest()).status == "ok"
            health.model_called(REFUSED)
            assert (await health.newest()).status == "degraded"

    asyncio.run(run())


def test_an_answered_call_ends_that_the_agent_cannot_answer() -> None:
    async def run() -> None:
        outcomes = Outcomes()
        health = outcomes.health(interval=3600, failure="no API key")
        async with running(health):
            assert (await outcomes.reports.get()).status == "error"
            health.model_called(None)
            assert (await outcomes.reports.get()).status == "ok"

    asyncio.run(run())


def test_a_provider_that_the_agent_itself_does_not_ask_is_only_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gauges: dict[str, bool] = {}
    monkeypatch.setattr(metrics, "set_llm_provider_up", lambda name, up: gauges.update({name: up}))

    async def child() -> ProviderHealth:
        return ProviderHealth(name="anthropic", up=False, error="HTTP 500")

    async def run() -> None:
        outcomes = Outcomes()
        providers = [Provider("openai", outcomes.check), Provider("anthropic", child, counts=False)]
        health = Health("research", (), providers, outcomes.reports.put_nowait, interval=60)
        async with running(health):
            report = await outcomes.reports.get()
            assert report.provider is not None
            assert (report.status, report.provider.name) == ("ok", "openai")

    asyncio.run(run())
    assert gauges == {"openai": True}
    assert caplog.messages == ["LLM provider anthropic is down: HTTP 500"]


def test_the_gauges_follow_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    gauges: dict[tuple[str, ...], bool] = {}
    monkeypatch.setattr(
        metrics, "set_downstream_up", lambda agent, name, up: gauges.update({(agent, name): up})
    )
    monkeypatch.setattr(metrics, "set_llm_provider_up", lambda name, up: gauges.update({(name,): up}))

    async def run() -> None:
        outcomes = Outcomes()
        outcomes.up["argos"] = False
        async with running(outcomes.health(interval=60)):
            await outcomes.reports.get()

    asyncio.run(run())
    assert gauges == {("research", "argos"): False, ("research", "neo4j"): True, ("openai",): True}


def test_before_the_first_round_newest_waits_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        outcomes = Outcomes()
        outcomes.gate.clear()
        health = outcomes.health(interval=60)
        async with running(health):
            monkeypatch.setattr("pallas_worker.health.report.FIRST_ROUND_TIMEOUT", 0.05)
            report = await health.newest()
            assert (report.status, report.message) == (
                "degraded",
                "The first health probes are still under way",
            )
            assert report.timestamp == "2026-03-12T12:00:00Z"

    asyncio.run(run())


def test_a_round_that_fails_is_logged_and_the_next_one_is_made(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        outcomes = Outcomes()
        outcomes.errors = [OSError("no descriptors left")]
        async with running(outcomes.health()):
            assert (await outcomes.reports.get()).status == "ok"

    asyncio.run(run())
    assert "a round of health probes failed" in caplog.text


def test_an_agent_that_cannot_answer_says_so_at_once() -> None:
    async def run() -> None:
        outcomes = Outcomes()
        health = outcomes.health(interval=60, failure="no instance can be made")
        async with running(health):
            assert (await outcomes.reports.get()).message == "no instance can be made"
            assert (await health.newest()).status == "error"
            health.fail(None)
            assert (await outcomes.reports.get()).status == "ok"
            health.fail(None)
            health.fail("again")
            assert (await health.newest()).message == "again"
            assert outcomes.reports.qsize() == 1

    asyncio.run(run())


def test_timestamps_are_utc() -> None:
    async def run() -> None:
        outcomes = Outcomes()
        here = timezone(timedelta(hours=2))
        async with running(outcomes.health(now=lambda: NOON.astimezone(here), interval=60)):
            assert (await outcomes.reports.get()).timestamp == "2026-03-12T12:00:00Z"

    asyncio.run(run())


def test_against_real_servers() -> None:
    async def run() -> None:
        reports: asyncio.Queue[Any] = asyncio.Queue()
        with run_downstream(era="modern") as modern, run_downstream(era="legacy") as legacy:
            servers = [
                Downstream(name="modern", transport="http", url=modern.url),
                Downstream(name="legacy", transport="http", url=legacy.url),
                Downstream(name="tool", transport="stdio", command="sh"),
            ]
            health = Health("research", servers, (), reports.put_nowait, interval=0.05)
            async with running(health):
                while (
                    await reports.get()
                ).status != "ok":  # a probe may take as long as the machine stands still
                    pass
                legacy.fault = Fault(status=503)
                while health_document(report := await reports.get()).get("message") != "Unreachable: legacy":
                    pass
                assert {entry.name: entry.error for entry in report.downstreams} == {
                    "modern": None,
                    "legacy": "HTTP 503",
                    "tool": None,
                }
                legacy.fault = None
                while (await reports.get()).status != "ok":
                    pass

    asyncio.run(run())
