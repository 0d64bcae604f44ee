"""What a worker says of itself when nobody calls it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx

from fakes.llm_stub import Turn, run_llm_stub
from pallas_common.protocol.reports import Heartbeat, IdleReport
from support.worker.conversation.llm import config
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.llm_stub import Asked, LlmStub

BEAT = Heartbeat(interval=0.1)


def idle(worker: RunningWorker) -> int:
    return sum(isinstance(report, IdleReport) for report in worker.reports)


def test_an_agent_on_demand_says_again_and_again_that_nobody_calls_whoever_looks_at_it(
    tmp_path: Path,
) -> None:
    with run_worker(project(tmp_path), start="on-demand", idle_timeout=0.2) as worker:
        for seen in range(3):
            for path in ("/livez", "/metrics", "/v1/models"):
                httpx.get(f"{worker.origin}{path}")
            call(worker.url, "auto", "get_health")
            worker.wait_until(partial(_is_idler, seen))


def test_a_call_that_runs_is_none_of_it_on_either_surface(tmp_path: Path) -> None:
    answered = threading.Event()

    def answer(_: Asked) -> Turn:
        answered.wait(60)
        return Turn(text="done")

    def stream() -> str:
        body = {"model": "demo", "messages": [{"role": "user", "content": "x"}], "stream": True}
        return httpx.post(f"{worker.origin}/v1/chat/completions", json=body, timeout=60).text

    def send() -> str:
        return text(call(worker.url, "auto", "demo", message="x"))

    with run_llm_stub(answer=answer) as stub, ThreadPoolExecutor() as threads:
        folder = project(tmp_path, config=config(stub))
        changes: dict[str, Any] = {"start": "on-demand", "idle_timeout": 0.3, "liveness_interval": 0.1}
        with run_worker(folder, **changes) as worker:
            for number, ask in enumerate((stream, send), start=1):
                seen = idle(worker)
                worker.wait_until(partial(_is_idler, seen))
                answered.clear()
                asking = threads.submit(ask)
                stub.loopback.wait_for(partial(_has_been_asked, stub, number))
                begun = _after_beats(worker, 1)  # what was reported before the call is in
                ended = _after_beats(worker, 8)
                reports = worker.reports[begun:ended]
                answered.set()
                assert "done" in asking.result()
                assert IdleReport() not in reports


def _is_idler(seen: int, worker: RunningWorker) -> bool:
    return idle(worker) > seen


def _has_been_asked(stub: LlmStub, times: int, _: object) -> bool:
    return len(stub.asked) == times


def _after_beats(worker: RunningWorker, beats: int) -> int:
    """How many reports there are after so many further heartbeats."""
    now = worker.reports.count(BEAT)
    worker.wait_until(lambda it: it.reports.count(BEAT) >= now + beats)
    return len(worker.reports)


def test_an_agent_that_is_always_there_says_nothing_of_it(tmp_path: Path) -> None:
    with run_worker(project(tmp_path), idle_timeout=0.1, liveness_interval=0.2) as worker:
        beats = len(worker.reports)
        worker.wait_until(lambda it: len(it.reports) >= beats + 3)  # heartbeats, in the meantime
        assert idle(worker) == 0
