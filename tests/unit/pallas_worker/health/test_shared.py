"""Health of agents that share a downstream server: who probes it, who hears of it, and who does not wait in vain."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.notices import Notice, ProbeResult, encode_notice
from pallas_common.protocol.reports import (
    DownstreamHealth,
    HealthReport,
    ProbedReport,
    ProviderHealth,
    WatchReport,
)
from pallas_supervisor.health.shared_probes import SharedProbes
from pallas_supervisor.lifecycle.states import WorkerId
from pallas_worker.agent.models.providers import ProviderSettings
from pallas_worker.downstreams.facts import Downstream
from pallas_worker.health import subjects
from pallas_worker.health.needs import Provider
from pallas_worker.health.report import Health
from pallas_worker.health.subjects import Subject
from pallas_worker.health.targets import downstream_target, provider_target
from pallas_worker.link.notice_reader import NoticeReader
from pallas_worker.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest

KEY = "key"


def server(name: str = "library", token: str = "one", **fields: Any) -> Downstream:
    facts: dict[str, Any] = {
        "transport": "http",
        "url": "http://library/mcp",
        "headers": {"Authorization": f"Bearer {token}"},
    }
    return Downstream(name=name, **{**facts, **fields})


def test_what_is_shared() -> None:
    target = downstream_target(KEY, server())
    assert target is not None
    assert target == downstream_target(KEY, server("another name", headers={"authorization": "Bearer one"}))
    different = [server(token="two"), server(url="http://archive/mcp"), server(transport="sse")]
    assert len({target, *(downstream_target(KEY, one) for one in different)}) == 4
    for own in (server(forward_inbound_auth=True), Downstream(name="tool", transport="stdio", command="sh")):
        assert downstream_target(KEY, own) is None
    assert downstream_target(None, server()) is None


def test_checks_of_providers_are_shared_by_address_key_and_model() -> None:
    def target(key: str | None = "sk-1", url: str = "http://llm/v1", model: str = "good") -> str | None:
        return provider_target(KEY, ProviderSettings(name="openai", api_key=key, base_url=url), model)

    assert target() == target()
    assert len({target(), target("sk-2"), target(url="http://other/v1"), target(model="bad")}) == 4
    assert target(None) is None
    assert provider_target(KEY, None, None) is None


class Supervisor:
    """The supervisor's part, and the downstream server's: all workers, without processes."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.shared = SharedProbes(lambda worker_id, notice: self.workers[worker_id.name].hear(notice))
        self.probes: list[str] = []
        self.up = True
        self.probed = asyncio.Event()

    def published(self, name: str, report: HealthReport | WatchReport | ProbedReport) -> None:
        match report:
            case WatchReport(targets=targets):
                self.shared.watch(WorkerId(name, 1), targets)
            case ProbedReport(results=results):
                self.shared.take(WorkerId(name, 1), results)
            case HealthReport():
                self.workers[name].reports.put_nowait(report)


class Worker:
    """One worker's health, with the notices that it hears."""

    def __init__(
        self,
        supervisor: Supervisor,
        name: str,
        interval: float,
        *servers: Downstream,
        provider: str | None = None,
    ) -> None:
        self.supervisor, self.name = supervisor, name
        self.reports: asyncio.Queue[HealthReport] = asyncio.Queue()
        self.deaf = False
        self._tell: Callable[[Notice], None] | None = None
        supervisor.workers[name] = self
        self.health = Health(
            name,
            servers or (server(),),
            [Provider(provider, self.check, "the provider")] if provider else (),
            lambda report: supervisor.published(name, report),
            probe=self.probe,
            interval=interval,
            notices=self,
            key=KEY,
        )

    async def check(self) -> ProviderHealth:
        self.supervisor.probes.append(self.name)
        await asyncio.sleep(0)
        return ProviderHealth(name="openai", up=self.supervisor.up, latency=0.02, error="model 'x' not found")

    async def probe(self, downstream: Downstream) -> DownstreamHealth:
        self.supervisor.probes.append(self.name)
        self.supervisor.probed.set()
        await asyncio.sleep(0)
        up = self.supervisor.up
        return DownstreamHealth(name=downstream.name, up=up, latency=0.02, error=None if up else "HTTP 503")

    def hear(self, notice: Notice) -> None:
        if self._tell is not None and not self.deaf:
            asyncio.get_running_loop().call_soon(self._tell, notice)

    def listen(self, hear: Callable[[Notice], None], alone: Callable[[], None]) -> None:
        self._tell, self.alone = hear, alone

    def close(self) -> None:
        self._tell = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.health.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def says(self, status: str) -> HealthReport:
        while (report := await self.reports.get()).status != status:
            pass
        return report


def test_workers_with_the_same_server_make_one_probe_and_all_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "SILENCE", 3600.0)  # a machine that stands still is no silence

    async def run() -> None:
        supervisor = Supervisor()
        workers = [Worker(supervisor, f"a{index}", 0.05) for index in range(10)]
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(contextlib.suppress(TimeoutError))
            await stack.enter_async_context(asyncio.timeout(30))
            for worker in workers:
                await stack.enter_async_context(worker.running())
            for worker in workers:
                await worker.says("ok")
            supervisor.up = False
            for worker in workers:
                report = await worker.says("degraded")
                assert [(entry.name, entry.error) for entry in report.downstreams] == [
                    ("library", "HTTP 503")
                ]
                assert report.downstreams[0].latency == 0.02
                assert report.downstreams[0].checked is not None
            assert set(supervisor.probes) == {"a0"}
            supervisor.shared.leave(WorkerId("a0", 1))
            supervisor.probes.clear()
            supervisor.up = True
            for worker in workers[1:]:
                await worker.says("ok")
            assert "a1" in supervisor.probes
            assert set(supervisor.probes) <= {"a0", "a1"}
            return
        raise AssertionError("not within 30 s")

    asyncio.run(run())


def test_whoever_hears_of_a_provider_calls_it_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also once those before it have gone and the check is its own."""
    monkeypatch.setattr(subjects, "SILENCE", 3600.0)
    gauges: dict[str, bool] = {}
    monkeypatch.setattr(metrics, "set_llm_provider_up", lambda name, up: gauges.update({name: up}))

    async def run() -> None:
        supervisor = Supervisor()
        supervisor.up = False
        first, second = (Worker(supervisor, name, 0.05, provider="openai") for name in ("first", "second"))
        async with asyncio.timeout(60), second.running():
            async with first.running():
                for worker in (first, second):
                    report = await worker.says("degraded")
                    assert report.provider is not None
                    assert (report.provider.name, report.provider.up) == ("openai", False)
                    assert "LLM: openai: model 'x' not found" in (report.message or "")
                assert gauges == {"openai": False}
                assert set(supervisor.probes) == {"second"}
            supervisor.shared.leave(WorkerId("first", 1))
            supervisor.up = True
            await second.says("ok")
        assert gauges == {"openai": True}

    asyncio.run(run())


def test_different_credentials_are_probed_apart_and_two_names_for_the_same_together() -> None:
    async def run() -> None:
        supervisor = Supervisor()
        one = Worker(supervisor, "one", 60, server("a"), server("b"))
        other = Worker(supervisor, "other", 60, server(token="two"))
        async with one.running(), other.running():
            assert [entry.name for entry in (await one.says("ok")).downstreams] == ["a", "b"]
            await other.says("ok")
        assert sorted(supervisor.probes) == ["one", "other"]

    asyncio.run(run())


def test_a_worker_that_hears_nothing_probes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "SILENCE", 0.02)
    monkeypatch.setattr(subjects, "SPREAD", 0.01)

    async def run() -> None:
        supervisor = Supervisor()
        first, second = Worker(supervisor, "first", 60), Worker(supervisor, "second", 0.05)
        async with first.running(), second.running():
            await first.says("ok")
            await second.says("ok")
            supervisor.probes.clear()
            supervisor.up = False  # and the one whose turn it is does not look for a minute
            await second.says("degraded")
            assert set(supervisor.probes) == {"second"}
            assert (await first.says("degraded")).message == "Unreachable: library"
            second.deaf = True  # not even that it has the turn
            supervisor.up = True
            await second.says("ok")

    asyncio.run(run())


def test_without_a_supervisor_each_worker_probes_at_once() -> None:
    async def run() -> None:
        reading, writing = os.pipe()
        os.close(writing)
        reports: asyncio.Queue[object] = asyncio.Queue()
        supervisor = Supervisor()
        worker = Worker(supervisor, "one", 60)
        health = Health(
            "one",
            [server()],
            (),
            reports.put_nowait,
            probe=worker.probe,
            interval=60,
            notices=NoticeReader(reading),
            key=KEY,
        )
        task = asyncio.create_task(health.run())
        async with asyncio.timeout(30):
            assert isinstance(await reports.get(), WatchReport)
            assert isinstance(await reports.get(), ProbedReport)
            assert isinstance(await reports.get(), HealthReport)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_the_reader_takes_lines_as_they_come_and_passes_over_what_it_does_not_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        reading, writing = os.pipe()
        reader = NoticeReader(reading)
        assert not os.get_inheritable(reading)
        heard: asyncio.Queue[Notice | None] = asyncio.Queue()
        reader.listen(heard.put_nowait, lambda: heard.put_nowait(None))
        first, second = Notice(turns=("a",)), Notice(turns=("b",))
        async with asyncio.timeout(30):
            os.write(writing, encode_notice(first) + encode_notice(second)[:9])
            assert await heard.get() == first
            os.write(writing, encode_notice(second)[9:] + b"nonsense\n" + encode_notice(first))
            assert [await heard.get(), await heard.get()] == [second, first]
            os.close(writing)
            assert await heard.get() is None
        reader.close()

    asyncio.run(run())
    assert len(caplog.records) == 1


def subject(**fields: Any) -> Subject:
    async def look() -> DownstreamHealth:
        raise NotImplementedError

    return Subject(kind=DownstreamHealth, name="library", look=look, interval=15.0, target="t", **fields)


def result(at: float, up: bool = True) -> ProbeResult:
    return ProbeResult(target="t", up=up, latency=0.01, at=at, checked="2026-03-12T12:00:00Z")


def test_what_is_heard_too_late_is_no_news_and_old_results_never_replace_newer_ones() -> None:
    now = time.monotonic()
    it = subject()
    assert not it.heard(result(now - 15 - subjects.SILENCE - 1), now)
    assert [it.outcome] == [None]
    assert it.due <= now, "it has nothing and must look"
    assert it.heard(result(now - 1, up=False), now)
    assert not it.heard(result(now - 2), now)
    assert it.outcome is not None
    assert not it.outcome.up
    assert now - 1 + 15 + subjects.SILENCE <= it.due <= now - 1 + 15 + subjects.SILENCE + subjects.SPREAD
    it.found(DownstreamHealth(name="library", up=True, latency=0.01), now - 3)
    assert it.outcome is not None
    it.take_turn()
    assert (it.mine, it.due) == (True, now - 1 + 15)
