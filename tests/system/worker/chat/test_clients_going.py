"""Clients of chat completions that go away or do not read, and a worker that ends: the turn ends with them."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.downstream import Fault, Recorded, RunningDownstream, run_downstream
from fakes.llm_stub import Turn, run_llm_stub
from support.worker.census import until
from support.worker.conversation.chat import PATH, answer_in, error_in, events, post, request
from support.worker.conversation.llm import config, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAMED = pytest.mark.parametrize("streamed", [False, True])
HELD = '***CALL_TOOL held__echo {"text": "x"}'


def is_call(recorded: Recorded) -> bool:
    return recorded.rpc_method == "tools/call"


@contextmanager
def holding(directory: Path, **bounds: Any) -> Iterator[tuple[RunningWorker, RunningDownstream]]:
    """A worker whose tool calls stand still until the downstream server lets them go."""
    with run_downstream(fault=lambda one: Fault(hold=True) if is_call(one) else None) as server:
        servers = {"held": {"transport": "http", "url": server.url}}
        with run_worker(project(directory, servers=servers), **bounds) as worker:
            yield worker, server


def opened(worker: RunningWorker, message: str, *, streamed: bool) -> socket.socket:
    """A connection on which a request was sent."""
    body = json.dumps(request(message, stream=streamed)).encode()
    connection = socket.create_connection(("127.0.0.1", worker.port))
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def calls(running: int, waiting: int) -> Iterator[str]:
    yield f'pallas_calls_running{{agent="demo"}} {running:.1f}'
    yield f'pallas_calls_waiting{{agent="demo"}} {waiting:.1f}'


@STREAMED
def test_a_client_that_goes_away_ends_the_turn(tmp_path: Path, streamed: bool) -> None:
    def is_turn(requests: list[Recorded]) -> bool:
        return any(one.path.endswith("/chat/completions") for one in requests)

    with (
        run_llm_stub(fault=lambda one: Fault(hold=True) if is_turn([one]) else None) as stub,
        run_worker(project(tmp_path, config=config(stub)), **spec()) as worker,
    ):
        with opened(worker, "x", streamed=streamed):
            stub.loopback.wait_for(is_turn)
        stub.loopback.wait_for_gone(is_turn)
        until(worker, lambda page: all(line in page for line in calls(0, 0)))
        assert worker.messages("ERROR") == []


@STREAMED
def test_a_client_that_goes_away_leaves_the_queue(tmp_path: Path, streamed: bool) -> None:
    with holding(tmp_path, max_concurrency=1, max_queue=1) as (worker, server):
        with opened(worker, HELD, streamed=False):
            server.wait_for(lambda requests: any(map(is_call, requests)))
            with opened(worker, "x", streamed=streamed):
                until(worker, lambda page: all(line in page for line in calls(1, 1)))
                refused = post(worker, "y", stream=streamed)
            until(worker, lambda page: all(line in page for line in calls(1, 0)))
        server.wait_for_gone(lambda requests: any(map(is_call, requests)))
    assert refused.status_code == 429
    assert error_in(refused)["code"] == "agent_busy"
    assert "retry-after" not in refused.headers, "no call has ended yet, so that nobody can say"


def test_a_busy_agent_says_when_to_try_again(tmp_path: Path) -> None:
    with holding(tmp_path, max_concurrency=1, max_queue=0) as (worker, server):
        post(worker, "one call has ended")
        with opened(worker, HELD, streamed=True):
            server.wait_for(lambda requests: any(map(is_call, requests)))
            assert int(post(worker, "y").headers["retry-after"]) >= 1


@STREAMED
def test_a_worker_that_ends_says_so(tmp_path: Path, streamed: bool) -> None:
    with (
        holding(tmp_path, stop_timeout=1) as (worker, server),
        opened(worker, HELD, streamed=streamed) as connection,
    ):
        server.wait_for(lambda requests: any(map(is_call, requests)))
        worker.process.terminate()
        with connection.makefile("rb") as answer:
            head, _, body = answer.read().decode().partition("\r\n\r\n")
        assert worker.process.wait(60) == 0
        if streamed:  # it has begun with the call
            assert head.startswith("HTTP/1.1 200")
            last = events(body.splitlines())[-1]
        else:
            assert head.startswith("HTTP/1.1 503")
            last = json.loads(body)
        assert last["error"]["code"] == "agent_stopping"
        assert worker.messages("ERROR") == []


def test_a_reader_who_does_not_read_holds_nobody(tmp_path: Path) -> None:
    long = f"{'w' * 1000} " * 500
    with (
        run_llm_stub(answer=lambda asked: Turn(text=long if asked.user == "long" else "short")) as stub,
        run_worker(project(tmp_path, config=config(stub)), **spec()) as worker,
        httpx.stream("POST", worker.origin + PATH, json=request("long", stream=True)) as response,
    ):
        assert post(worker, "x").json()["choices"][0]["message"]["content"] == "short"
        *chunks, last = events(response.iter_lines())
        assert last == "[DONE]"
        assert answer_in(chunks) == long
