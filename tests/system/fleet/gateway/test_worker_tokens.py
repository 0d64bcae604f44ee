"""An agent's token: shown to the gateway by its worker, and to be found nowhere else. Agents behind the gateway."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from fakes.downstream import run_downstream
from pallas_common.secrets.tokens import is_token
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import door as gateway_door
from support.gateway.door import make_token
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
        gateway={"port": port, "public_url": door.url.removesuffix("/mcp")},
        bind="0.0.0.0",
    )
    (of_sibling,) = free_ports(1)
    deployment.servers = {
        "door": {"url": door.url},
        "other": {"url": other.url},
        "sibling": {"url": f"http://localhost:{of_sibling}/mcp"},
    }
    for name, python in (("forked", {}), ("executed", {"python": sys.executable})):
        deployment.add(name, servers=("door", "other"), **python)
    deployment.add("asked", port=of_sibling)
    deployment.add("asking", servers=("sibling",))
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
    entry = fleet.agent("forked")
    assert entry["url"].endswith("/mcp/agents/forked")


@pytest.mark.parametrize("path", ["/mcp", "/v1/chat/completions", "/v1/models"])
def test_behind_the_gateway_a_port_wants_a_key_and_names_the_gateway(
    fleet: Fleet, door: RunningDownstream, path: str
) -> None:
    origin = fleet.deployment.url("asked").removesuffix("/mcp")
    refused = httpx.post(f"{origin}{path}", json={})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Pallas-Key")
    assert door.url.removesuffix("/mcp") in refused.text
    assert "`pallasctl connect`" in refused.text
    wrong = httpx.post(f"{origin}{path}", json={}, headers={"Pallas-Key": "guessed"})
    assert wrong.status_code == 403
    assert httpx.get(f"{origin}/livez").status_code == 200


def test_siblings_the_operator_and_the_gateway_have_one(fleet: Fleet) -> None:
    call = '***CALL_TOOL sibling__send_message {"message": "there?"}'
    said = fleet.ctl("ask", "asking", call)
    assert "there?" in said.stdout, said.stderr
    downstreams = fleet.get("/v1/health").json()["agents"]["asking"]["downstreams"]
    assert [(each["name"], each["up"]) for each in downstreams] == [("sibling", True)]
    human = gateway_door(fleet)
    assert human.tool("ask_agent", name="asked", prompt="by the gateway").text.count("by the gateway") == 1
    one = gateway_door(fleet, path="/mcp/agents/asked")
    assert "by its server" in one.tool("chat", message="by its server").text
    composed = gateway_door(fleet, make_token(fleet, "of-asking", agent="asking"))
    assert "composed" in composed.tool("sibling__send_message", message="composed").text


def test_the_siblings_key_is_in_no_environment_argument_file_or_log(fleet: Fleet) -> None:
    key = fleet.post("/v1/siblings-key").json()["key"]
    fleet.records()
    files = [path for path in fleet.deployment.directory.rglob("*") if path.is_file()]
    seen = [path.read_bytes() for path in files]
    for process in fleet.processes():
        seen += [Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("environ", "cmdline")]
    assert key.encode() not in b"".join(seen)
