"""What a worker says of itself when nobody calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from fakes.llm_stub import Turn, run_llm_stub
from pallas_common.protocol.reports import IdleReport
from support.worker.conversation.llm import config
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project

if TYPE_CHECKING:
    from pathlib import Path


def idle(worker: RunningWorker) -> int:
    return sum(isinstance(report, IdleReport) for report in worker.reports)


def test_an_agent_on_demand_says_again_and_again_that_nobody_calls_whoever_looks_at_it(
    tmp_path: Path,
) -> None:
    with run_worker(project(tmp_path), start="on-demand", idle_timeout=0.2) as worker:
        for seen in range(1, 4):
            for path in ("/livez", "/metrics", "/v1/models"):
                httpx.get(f"{worker.origin}{path}")
            call(worker.url, "auto", "get_health")
            worker.wait_until(lambda it, seen=seen: idle(it) >= seen)


def test_a_call_that_runs_is_none_of_it_until_its_stream_has_ended(tmp_path: Path) -> None:
    with run_llm_stub() as stub:
        folder = project(tmp_path, config=config(stub))
        with run_worker(folder, start="on-demand", idle_timeout=0.3) as worker:
            worker.wait_until(lambda it: idle(it) >= 1)
            stub.script(Turn(text="one two three four five six seven eight", delay=0.2))
            body = {"model": "demo", "messages": [{"role": "user", "content": "x"}], "stream": True}
            url = f"{worker.origin}/v1/chat/completions"
            with httpx.stream("POST", url, json=body, timeout=60) as answer:
                chunks = answer.iter_lines()
                next(chunks)
                before = idle(worker)
                assert "eight" in "".join(chunks)
                assert idle(worker) == before
            worker.wait_until(lambda it: idle(it) > before)


def test_an_agent_that_is_always_there_says_nothing_of_it(tmp_path: Path) -> None:
    with run_worker(project(tmp_path), idle_timeout=0.1, liveness_interval=0.2) as worker:
        beats = len(worker.reports)
        worker.wait_until(lambda it: len(it.reports) >= beats + 3)  # heartbeats, in the meantime
        assert idle(worker) == 0
