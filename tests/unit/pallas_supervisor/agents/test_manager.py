"""The agents as clients see them: a 503 by state, reports of the right process only, health, metrics, catalogue."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_common.protocol.reports import (
    FailedReport,
    HealthReport,
    ReadyReport,
    Report,
    StageReport,
)
from pallas_supervisor.agents import manager as module
from pallas_supervisor.lifecycle.events import Stop
from pallas_supervisor.lifecycle.states import Exit, WorkerId
from pallas_supervisor.sockets.listeners import open_listeners
from support.ports import free_ports
from support.supervisor.processes import PATIENCE
from support.supervisor.rig import Rig, rig, two_agents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

READY = ReadyReport(model="openai.gpt-5", capabilities=None)


def on_rig(directory: Path, do: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        async with rig(directory, two_agents()) as made:
            await do(made)

    asyncio.run(run())


class Probes:
    """Stands for the probe of a worker's port: it is answered when the test says so."""

    def __init__(self) -> None:
        self.running = 0
        self.answer = asyncio.Event()

    async def __call__(self, _address: object, _question: object) -> None:
        self.running += 1
        try:
            await self.answer.wait()
        finally:
            self.running -= 1


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Probes:
    made = Probes()
    monkeypatch.setattr(module, "until_answered", made)
    return made


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def report(rig: Rig, said: Report, *, name: str = "library", generation: int | None = None) -> None:
    rig.report(name, said, generation=generation)


def degraded(message: str = "no library") -> HealthReport:
    return HealthReport(status="degraded", timestamp="now", message=message)


# --- who answers ----------------------------------------------------------------------------------------


def test_the_supervisor_answers_while_no_worker_does(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        def on() -> bool:
            return "library" in rig.manager.responders.answering

        seen = [on()]
        rig.operations.start(["library"])
        seen.append(on())  # starting
        rig.come_up("library")
        seen.append(on())
        rig.manager.engine.post("library", Stop())
        seen.append(on())  # stopping: the worker still drains
        rig.end("library")
        seen.append(on())
        assert seen == [True, False, False, False, True]

    on_rig(tmp_path, do)


@pytest.mark.parametrize(
    ("prepare", "message", "retry_after"),
    [
        (lambda rig: None, "agent library is stopped", 30),
        (lambda rig: fail(rig), "agent library is failed: exit status 78", 30),
        (
            lambda rig: crash(rig),
            "agent library is backoff: killed by SIGKILL; restarting in 0.5 s, failure 1/5",
            1,
        ),
    ],
    ids=["stopped", "failed", "backoff"],
)
def test_clients_learn_why_nobody_serves(
    prepare: Callable[[Rig], None],
    message: str,
    retry_after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def do(rig: Rig) -> None:
        monkeypatch.setattr(rig.manager.engine._rng, "random", lambda: 0.5)
        monkeypatch.setattr(rig.manager.engine, "now", lambda: 50.0)
        prepare(rig)
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            answer = await client.post(f"http://127.0.0.1:{rig.manager.facts.ports['library']}/mcp", json={})
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == message
        assert answer.headers["retry-after"] == str(retry_after)

    on_rig(tmp_path, do)


def fail(rig: Rig) -> None:
    rig.operations.start(["library"])
    rig.appear("library")
    rig.end("library", Exit(status=78))


def crash(rig: Rig) -> None:
    rig.operations.start(["library"])
    rig.appear("library")
    rig.end("library", Exit(signal=9))


# --- reports --------------------------------------------------------------------------------------------


def test_a_worker_is_ready_once_it_says_so_and_a_probe_agrees(tmp_path: Path, probes: Probes) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.appear("library")
        report(rig, StageReport(stage="importing"))
        report(rig, READY)
        await settled()
        assert rig.states()["library"] == "starting"
        assert probes.running == 1
        probes.answer.set()
        await settled()
        assert rig.states()["library"] == "ready"
        assert probes.running == 0

    on_rig(tmp_path, do)


def test_a_worker_that_repeats_itself_is_probed_once(tmp_path: Path, probes: Probes) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.appear("library")
        for _ in range(3):
            report(rig, READY)
        await settled()
        assert probes.running == 1
        rig.manager.engine.post("library", Stop())
        await settled()
        assert probes.running == 0

    on_rig(tmp_path, do)


def test_a_worker_that_is_ready_too_late_is_not_probed(tmp_path: Path, probes: Probes) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.appear("library")
        rig.manager.engine.post("library", Stop())
        report(rig, READY)
        await settled()
        assert probes.running == 0
        rig.end("library")
        report(rig, READY)
        await settled()
        assert probes.running == 0

    on_rig(tmp_path, do)


def test_reports_of_another_generation_or_agent_count_for_nothing(tmp_path: Path, probes: Probes) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.appear("library")
        for generation in (0, 2):
            report(rig, READY, generation=generation)
            report(rig, degraded(), generation=generation)
        rig.manager.reports_in.take(WorkerId("nobody", 1), READY)
        await settled()
        assert probes.running == 0
        assert rig.manager.status.reports.health(rig.manager.engine.agents["library"]) is None
        assert rig.manager.status.reports.model(rig.manager.engine.agents["library"]) is None

    on_rig(tmp_path, do)


def test_why_a_worker_gave_up_is_said_on_one_line(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.appear("library")
        report(rig, FailedReport(message="ImportError: no module\n  named x\n", permanent=True))
        rig.end("library", Exit(status=78))
        assert rig.manager.status.why("library") == "ImportError: no module named x"
        assert rig.manager.status.summary() == "0/1 agents ready; library: ImportError: no module named x"

    on_rig(tmp_path, do)


def test_health_is_that_of_the_present_process(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.appear("library")
        report(rig, degraded("while starting"))
        rig.come_up("library")
        assert rig.manager.facts.health.get("library") == "degraded"
        rig.manager.engine.post("library", Stop())
        report(rig, degraded("while stopping"))
        rig.end("library")
        rig.operations.start(["library"])
        rig.come_up("library")
        assert rig.manager.facts.health["library"] == "ok"
        rig.end("library", Exit(signal=9))

    on_rig(tmp_path, do)


def test_health_said_before_a_failed_start_is_not_the_next_ones(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.appear("library")
        report(rig, degraded())
        rig.end("library", Exit(signal=9))
        rig.operations.start(["library"])
        rig.come_up("library")
        assert rig.manager.facts.health["library"] == "ok"

    on_rig(tmp_path, do)


def test_observers_hear_of_news_only(tmp_path: Path) -> None:
    """A report every few seconds from every agent must not make everything anew each time."""

    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        await asyncio.sleep(0)
        heard: list[int] = []
        rig.manager.observers.changed.add(lambda: heard.append(1))
        for message in ("no library", "no library", "no model", "no model"):
            report(rig, degraded(message))
            await asyncio.sleep(0)
        assert len(heard) == 2

    on_rig(tmp_path, do)


def test_an_exit_is_logged_with_the_process_that_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        rig.end("library", Exit(signal=9))
        rig.operations.start(["library"])
        rig.come_up("library")
        rig.manager.engine.post("library", Stop())
        timer = rig.manager.engine._timers["library"]
        timer._run()
        timer.cancel()
        assert rig.states()["library"] == "killing"
        exits = [
            getattr(record, "exit", None) for record in caplog.records if " -> killing" in record.message
        ]
        assert exits == ["killed by SIGKILL", None]

    with caplog.at_level(logging.INFO):
        on_rig(tmp_path, do)


# --- the public port ------------------------------------------------------------------------------------


async def ask(rig: Rig, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(rig.public_api())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:24200") as client:
        return await client.get(path)


def test_health_readiness_and_liveness(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        assert (await ask(rig, "/health")).status_code == 200, "nothing is wanted"
        rig.operations.start([])
        answer = await ask(rig, "/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "error")
        answer = await ask(rig, "/readyz")
        assert answer.status_code == 503
        assert answer.text == "0/2 agents ready; library: starting; research: waiting for library (starting)"
        rig.come_up("library")
        answer = await ask(rig, "/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        rig.come_up("research")
        assert (await ask(rig, "/readyz")).text == "ok"
        assert (await ask(rig, "/health")).json()["status"] == "ok"
        assert (await ask(rig, "/livez")).text == "ok"

    on_rig(tmp_path, do)


def test_the_catalogue_follows_the_fleet(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        directory = rig.catalogue()

        def listed() -> list[str]:
            return rig.manager.status.listed()

        assert listed() == []
        rig.operations.start([])
        assert listed() == ["library", "research"], "one that starts is listed"
        rig.come_up("library")
        rig.end("library", Exit(signal=9))
        assert listed() == ["library", "research"], "one that restarts stays"
        rig.manager.engine.post("research", Stop())
        rig.end("research")
        assert listed() == ["library"]
        answer = await ask(rig, "/.well-known/mcp/server.json")
        assert len(answer.json()["servers"]) == 1
        assert directory.view() is directory.view()

    on_rig(tmp_path, do)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_of_the_supervisor(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        rig.end("library", Exit(signal=9))
        rig.operations.start(["library"])
        rig.come_up("library")
        found = samples((await ask(rig, "/metrics")).text)
        library = ("agent", "library")
        assert found["pallas_up", ()] == 1
        assert found["pallas_worker_state", (library, ("state", "ready"))] == 1
        assert found["pallas_worker_state", (library, ("state", "backoff"))] == 0
        assert found["pallas_worker_restarts_total", (library, ("reason", "crash"))] == 1
        assert found["pallas_worker_start_seconds_count", (library,)] == 2
        assert found["pallas_agent_health_status", (library,)] == 1
        assert found["pallas_agent_info", (library, ("port", str(rig.manager.facts.ports["library"])))] == 1

    on_rig(tmp_path, do)


def test_nothing_is_left_of_a_removed_agent_in_the_metrics(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.operations.restart_now(["research"])
        rig.end("research")
        rig.come_up("research")
        rig.write({"library": {"port": rig.manager.facts.ports["library"]}})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await rig.manager.engine.until(lambda: rig.states()["research"] == "stopping")
        rig.end("research")
        await reloading
        assert "research" not in (await ask(rig, "/metrics")).text

    on_rig(tmp_path, do)


def test_a_scrape_beside_a_reload_leaves_out_what_is_half_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do(rig: Rig) -> None:
        ports = dict(rig.manager.facts.ports)
        del ports["research"]
        monkeypatch.setattr(type(rig.manager.facts), "ports", ports)
        text = (await ask(rig, "/metrics")).text
        assert 'pallas_agent_info{agent="library"' in text
        assert "research" not in text

    on_rig(tmp_path, do)


# --- the HTTP server ------------------------------------------------------------------------------------


def test_the_server_serves_on_a_given_socket_and_ends_promptly(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        listener = open_listeners("127.0.0.1", {"registry": free_ports(1)[0]})["registry"]
        port = listener.getsockname()[1]
        api = rig.public_api()
        server = HttpServer(api, listener, Connections("tests", 10), dates=False)
        server.start()
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/livez")).text == "ok"
            assert "server" not in (await client.get(f"http://127.0.0.1:{port}/livez")).headers
            await server.drain(PATIENCE)
        assert server.connections == 0
        listener.close()

    on_rig(tmp_path, do)


def test_records_of_transitions_can_be_read_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])

    with caplog.at_level(logging.INFO):
        on_rig(tmp_path, do)
    told = [tuple(vars(record)[key] for key in ("agent", "previous", "state")) for record in caplog.records]
    assert told == [("library", "stopped", "waiting"), ("library", "waiting", "starting")]
    assert json.dumps([record.message for record in caplog.records])


def test_the_new_workers_word_is_enough_beside_the_old_one_and_counts_from_then_on(
    tmp_path: Path, probes: Probes
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        report(rig, degraded(), generation=1)
        rig.operations.restart(["library"])
        rig.appear("library")
        report(rig, HealthReport(status="ok", timestamp="2026-01-01T00:00:00Z"), generation=2)
        assert rig.manager.facts.health.get("library") == "degraded"
        [entry] = rig.manager.status.entries(["library"])
        assert entry["replacement"] == {"generation": 2, "state": "starting", "pid": 4000}
        assert entry["replacing"]
        assert entry["message"] == "being replaced (operator): a new worker is starting"
        report(rig, READY, generation=2)
        assert probes.running == 0, "a probe of the port might meet the old worker"
        assert rig.manager.facts.health["library"] == "ok"
        [entry] = rig.manager.status.entries(["library"])
        assert (entry["state"], entry["generation"], entry["restarts"]) == ("ready", 2, 1)
        assert entry["replacement"]["state"] == "draining"
        assert not entry["replacing"]
        assert entry["message"] == "replaced; process 4000 is draining"

    on_rig(tmp_path, do)


def test_what_is_read_of_a_worker_after_its_end_counts_for_nothing(tmp_path: Path) -> None:
    """The rest of a flood is taken in when nobody forgets the worker any more."""

    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        rig.manager.observers.process_gone(WorkerId("library", 1))
        rig.end("library", Exit(status=1))
        before = rig.manager.status.why("library")
        report(rig, FailedReport(message="too late", permanent=True), generation=1)
        assert rig.states()["library"] == "backoff"
        assert rig.manager.status.why("library") == before

    on_rig(tmp_path, do)


def test_what_a_worker_says_is_believed_within_bounds(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        rig.manager.log_router.secrets.add(["hunter2-hunter2"])
        rig.report("library", FailedReport(message="hunter2-hunter2 " * 10_000, permanent=False))
        rig.end("library", Exit(status=1))
        assert "hunter2" not in rig.manager.status.why("library")
        assert len(rig.manager.status.why("library")) < 3_000
        assert "[redacted]" in rig.manager.status.why("library")

    on_rig(tmp_path, do)
