"""An agent's token: shown to the gateway by its worker, and to be found nowhere else. Agents behind the gateway."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from fakes.downstream import run_downstream
from pallas_common.secrets.tokens import is_token
from support.clients import send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.downstream import RunningDownstream


@pytest.fixture(scope="module")
def door() -> Iterator[RunningDownstream]:
    """What stands at the gateway's public URL."""
    with run_downstream() as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Iterator[RunningDownstream]:
    with run_downstream() as running:
        yield running


@pytest.fixture(scope="module")
def fleet(
    door: RunningDownstream, other: RunningDownstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    (port,) = free_ports(1)
    deployment = make_deployment(
        tmp_path_factory.mktemp("tokens") / "fleet",
        gateway={"port": port, "public_url": door.url.removesuffix("/mcp"), "workers": "behind"},
        bind="0.0.0.0",
    )
    deployment.servers = {"door": {"url": door.url}, "other": {"url": other.url}}
    for name, python in (("forked", {}), ("executed", {"python": sys.executable})):
        deployment.add(name, servers=("door", "other"), **python)
    with Fleet(deployment) as running:
        running.wait()
        yield running


def tokens(server: RunningDownstream) -> set[str]:
    shown = {request.headers.get("authorization", "") for request in server.requests}
    return {value.removeprefix("Bearer ") for value in shown}


def test_each_agent_shows_its_own_to_the_gateway_alone(
    fleet: Fleet, door: RunningDownstream, other: RunningDownstream
) -> None:
    assert fleet.ctl("ask", "forked", "hello").returncode == 0
    shown = tokens(door)
    assert len(shown) == 2, "calls and probes show the same"
    assert all(map(is_token, shown))
    assert all(token.startswith("plls_agent_") for token in shown)
    assert tokens(other) == {""}


def test_it_is_in_no_environment_argument_or_log(fleet: Fleet, door: RunningDownstream) -> None:
    fleet.records()
    logged = b"".join(fleet._lines())
    files = [path for path in fleet.deployment.directory.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files)
    for process in psutil.Process(fleet.process.pid if fleet.process else 0).children(recursive=True):
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        for token in tokens(door):
            for text in (environment, arguments, logged, written, fleet.stderr.encode()):
                assert token.encode() not in text


def test_a_new_worker_has_a_new_one(fleet: Fleet, door: RunningDownstream) -> None:
    before = tokens(door)
    assert fleet.ctl("restart", "forked").returncode == 0
    assert len(tokens(door) - before) == 1


def test_behind_the_gateway_ports_are_for_this_machine(fleet: Fleet) -> None:
    port = fleet.deployment.agents["forked"]["port"]
    worker = fleet.pids()["forked"]
    assert worker is not None
    listening = {
        connection.laddr.ip
        for connection in psutil.Process(worker).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    }
    assert listening == {"127.0.0.1"}
    with socket.create_connection(("127.0.0.1", fleet.deployment.document["registry_port"])):
        pass
    assert asyncio.run(send_message(fleet.deployment.url("forked"), "hello"))
    entry = fleet.agent("forked")
    assert entry["url"].endswith("/mcp/agents/forked")
