"""Workers that follow each other on one listening socket, under load: no request is lost."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.worker.process import START_TIMEOUT, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = 4
HANDOVERS = 3
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "send_message", "arguments": {"message": "still there?"}},
}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.mark.parametrize("kept", [True, False], ids=["kept-connections", "new-connections"])
def test_no_request_is_lost_when_workers_follow_each_other(tmp_path: Path, kept: bool) -> None:
    failures: list[str] = []
    answered = [0] * CLIENTS
    done = threading.Event()

    def ask(number: int, url: str) -> None:
        limits = httpx.Limits(max_keepalive_connections=None if kept else 0)
        with httpx.Client(timeout=60, limits=limits) as client:
            while not done.is_set():
                try:
                    response = client.post(url, json=CALL, headers=HEADERS)
                    if response.status_code != 200 or "still there?" not in response.text:
                        failures.append(f"{response.status_code} {response.text}")
                except httpx.HTTPError as error:
                    failures.append(repr(error))
                answered[number] += 1

    def until_all_have_asked_again() -> None:
        goal = [count + 1 for count in answered]
        deadline = time.monotonic() + START_TIMEOUT
        while any(now < count for now, count in zip(answered, goal, strict=True)):
            assert time.monotonic() < deadline, (answered, goal)
            time.sleep(0.01)  # the clients' threads need the processor

    directory = project(tmp_path)
    patient: dict[str, Any] = {"stop_timeout": 60.0}
    with ExitStack() as stack:
        current = stack.enter_context(run_worker(directory, **patient, metrics_slot="demo0"))
        clients = [threading.Thread(target=ask, args=(n, current.url)) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            for number in range(1, HANDOVERS + 1):
                following = stack.enter_context(
                    run_worker(directory, listener=current.listener, **patient, metrics_slot=f"demo{number}")
                )
                until_all_have_asked_again()
                assert current.stop() == 0
                current = following
            until_all_have_asked_again()
        finally:
            done.set()
            for client in clients:
                client.join(60)
    assert failures == []
