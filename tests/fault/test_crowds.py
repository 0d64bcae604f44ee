"""Crowds of clients that want nothing, at every kind of port, of a fleet that has few descriptors.

Whatever they keep waiting for, operators, deaths of workers and other clients' calls must not notice. There is one
fleet for all of it, whose processes may have `DESCRIPTORS` open; a crowd is larger than that.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import PATIENCE, Fleet
from support.load.steady_clients import Question, SteadyClients

if TYPE_CHECKING:
    from collections.abc import Iterator

DESCRIPTORS = 256
CROWD = 400

FEW_DESCRIPTORS = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh")

ACCEPT = b"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
SILENT = b""
HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
NO_BODY = b"POST %s HTTP/1.1\r\nHost: localhost\r\n" + ACCEPT + b"Content-Length: 9\r\n\r\n"
IDLE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

CASES = {
    "registry, silent": ("registry", SILENT),
    "registry, idle": ("registry", IDLE),
    "control socket, silent": ("control socket", HALF_A_HEAD),
    "control socket, without a body": ("control socket", NO_BODY.replace(b"%s", b"/v1/wait")),
    "worker, silent": ("worker", SILENT),
    "worker, without a body": ("worker", NO_BODY.replace(b"%s", b"/mcp")),
    "worker, idle": ("worker", IDLE),
    "nobody, silent": ("nobody", SILENT),
    "nobody, idle": ("nobody", IDLE),
}
"""At which port a crowd connects, and what each of it sends; nobody reads an answer."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("crowds") / "fleet", "busy", "down")
    deployment.add("quiet", max_failures=100, reset_after=0.1)  # it is killed again and again
    fleet = Fleet(deployment)
    fleet.wrapper = FEW_DESCRIPTORS
    with fleet:
        fleet.wait()
        assert fleet.ctl("stop", "down").returncode == 0
        yield fleet


def address(fleet: Fleet, door: str) -> tuple[str, int] | str:
    agents = fleet.deployment.agents
    ports = {
        "registry": fleet.deployment.document["registry_port"],
        "worker": agents["busy"]["port"],
        "nobody": agents["down"]["port"],
    }
    return ("127.0.0.1", ports[door]) if door in ports else str(fleet.runtime / "control.sock")


@contextmanager
def crowd(where: tuple[str, int] | str, said: bytes) -> Iterator[list[socket.socket]]:
    """Many connections, each of which has sent the same and reads nothing."""
    family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
    with ExitStack() as stack:
        sockets = []
        for _ in range(CROWD):
            one = stack.enter_context(socket.socket(family))
            one.connect(where)
            one.settimeout(PATIENCE)  # only now: otherwise a full backlog of a unix socket would be an error
            with contextlib.suppress(ConnectionError):  # it has been closed for a later one
                one.sendall(said)
            sockets.append(one)
        yield sockets


def open_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def is_closed(one: socket.socket) -> bool:
    """Whether the other side has closed it; what it has answered is read."""
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def test_the_limit_is_the_one_that_is_meant(fleet: Fleet) -> None:
    for process in fleet.processes():
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] == DESCRIPTORS


@pytest.mark.parametrize("case", CASES)
def test_a_crowd_keeps_nobody_from_anything(fleet: Fleet, case: str) -> None:
    door, said = CASES[case]
    deployment = fleet.deployment
    busy, quiet = (deployment.agents[name]["port"] for name in ("busy", "quiet"))
    registry = deployment.document["registry_port"]
    where = address(fleet, door)
    before = fleet.pids()
    questions = [
        Question.to_agent(busy),
        Question(busy),
        Question(registry),
        Question(registry, path="/metrics", expected="pallas_"),
    ]
    # A connection that is kept without a request goes with a crowd of idle ones, if it has been idle for longer.
    manners = (False,) if said == IDLE else (False, True)
    with SteadyClients(questions, manners) as clients:
        clients.until_more(2)
        with crowd(where, said) as sockets:
            clients.until_more(2)
            status = fleet.ctl("status")
            assert status.returncode in (0, 1), status.stderr
            assert "busy" in status.stdout
            refusal = httpx.post(deployment.url("down"), json={}, timeout=PATIENCE)
            assert refusal.status_code == 503
            assert before["quiet"] is not None
            os.kill(before["quiet"], signal.SIGKILL)
            fleet.wait("quiet")
            assert open_descriptors(fleet.pid) < DESCRIPTORS * 3 / 4
            assert open_descriptors(fleet.pids()["busy"] or 0) < DESCRIPTORS
            assert is_closed(sockets[0]), "the oldest one has gone"
        clients.until_more(2)
        with SteadyClients([Question.to_agent(quiet)]) as others:
            others.until_more(2)
    assert clients.failures == []
    after = fleet.pids()
    assert after["quiet"] != before["quiet"]
    assert after["busy"] == before["busy"]
