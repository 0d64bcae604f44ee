"""By which names the ports of a deployment are reached, and pages of which origins may read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from pallas_common.protocol.readiness_request import readiness_request
from support.fleet.deployment import make_deployment
from support.fleet.fleet import PATIENCE, Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = ("/", "/page/view", "/.well-known/mcp/server.json", "/v0.1/servers", "/metrics", "/health", "/readyz")
"""What the registry port tells those who may ask."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("hosts") / "fleet"
    with Fleet(make_deployment(directory, "one", hosts=["agents.lan"])) as fleet:
        fleet.wait()
        yield fleet


def registry(fleet: Fleet, path: str, **headers: str) -> int:
    url = fleet.deployment.registry + path
    return httpx.get(url, headers=headers, timeout=PATIENCE).status_code


def worker(fleet: Fleet, **headers: str) -> int:
    """The status of an `initialize` that is sent with these headers."""
    _, _, body = readiness_request("localhost", 0, "tests").partition(b"\r\n\r\n")
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    url = fleet.deployment.url("one")
    return httpx.post(url, content=body, headers=usual | headers, timeout=PATIENCE).status_code


@pytest.mark.parametrize("path", PATHS)
def test_the_registry_port_is_read_by_names_of_the_deployment_and_by_addresses(
    fleet: Fleet, path: str
) -> None:
    for host in ("localhost:1", "agents.lan", "AGENTS.LAN.:8443", "192.0.2.7:24200", "[2001:db8::7]:80"):
        assert registry(fleet, path, Host=host) == 200, host
    for host in ("evil.example", "agents.lan.evil.example:24200"):
        assert registry(fleet, path, Host=host) == 421, host


@pytest.mark.parametrize("path", PATHS)
def test_the_registry_port_is_read_by_pages_of_the_deployment(fleet: Fleet, path: str) -> None:
    for origin in ("http://localhost:3000", "https://agents.lan"):
        assert registry(fleet, path, Origin=origin) == 200, origin
    for origin in ("https://evil.example", "null", "http://192.0.2.7"):
        assert registry(fleet, path, Origin=origin) == 403, origin
    same = {"Host": "192.0.2.7:24200", "Origin": "http://192.0.2.7:24200"}
    assert registry(fleet, path, **same) == 200


def test_a_sign_of_life_is_given_to_everybody(fleet: Fleet) -> None:
    assert registry(fleet, "/livez", Host="evil.example", Origin="http://evil.example") == 200


def test_workers_are_reached_by_the_same_names(fleet: Fleet) -> None:
    assert worker(fleet, Host="agents.lan:24201", Origin="https://agents.lan") == 200
    assert worker(fleet, Host="192.0.2.7") == 200
    assert worker(fleet, Host="evil.example") == 421
    assert worker(fleet, Origin="http://evil.example") == 403


def test_a_reload_takes_over_the_names(fleet: Fleet) -> None:
    before = fleet.pids()
    old = psutil.Process(before["one"])
    fleet.deployment.document["hosts"] = ["other.lan"]
    fleet.deployment.write()
    dry = fleet.ctl("reload", "--dry-run")
    assert "hosts" in dry.stdout, dry.stdout
    with fleet.follow() as log:
        assert fleet.ctl("reload").returncode == 0
        log.until(lambda record: record.get("agent") == "one" and "replaced" in record["message"])
    fleet.wait()
    assert fleet.pids() != before
    # Until it has left the port, it takes connections too.
    _, left = psutil.wait_procs([old], timeout=PATIENCE)
    assert not left
    for name, status in (("agents.lan", 421), ("other.lan", 200)):
        assert registry(fleet, "/metrics", Host=name) == status
        assert worker(fleet, Host=name) == status
