"""The gateway's health where operators look: what is wrong with it, in words, until it is well again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import Door, await_gateway, door, with_gateway
from support.gateway.postgres import new_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(with_gateway(make_deployment(tmp_path_factory.mktemp("health") / "fleet"))) as running:
        await_gateway(running)
        await_health(running, "ok")
        yield running


def await_health(fleet: Fleet, health: str) -> str:
    """What its entry says once that is its health."""
    fleet.await_that(lambda: fleet.status()["gateway"]["health"] == health, f"the gateway is {health}")
    return str(fleet.status()["gateway"]["message"])


def everywhere(fleet: Fleet) -> tuple[str, str, str]:
    """The words of its own port, of the deployment's health and of `pallasctl gateway status`."""
    deployment = fleet.deployment
    own = httpx.get(f"{door(fleet).url}/health").json()
    assert set(own) == {"status"}, "who brings no token learns no more"
    whole = httpx.get(f"{deployment.registry}/health").json()
    shown = fleet.ctl("gateway", "status").stdout
    return own["status"], whole["gateway"]["status"], shown


def failed_lines(fleet: Fleet) -> float:
    """Lines of the audit that could not be written."""
    name = 'pallas_gateway_audit_lines_total{outcome="failed"} '
    lines = httpx.get(f"{fleet.deployment.registry}/metrics").text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_an_audit_that_cannot_be_written(fleet: Fleet) -> None:
    audit = fleet.state / "audit.jsonl"
    audit.rename(fleet.state / "moved")
    audit.mkdir()
    said = await_health(fleet, "degraded")
    assert f"the audit {audit} cannot be written (Is a directory)" in said
    assert "make room on its disk" in said
    own, whole, shown = everywhere(fleet)
    assert (own, whole) == ("degraded", "degraded")
    assert f"the audit {audit} cannot be written" in shown
    assert httpx.get(f"{fleet.deployment.registry}/health").json()["gateway"]["message"] == said
    assert failed_lines(fleet) == 0, "who looks refuses nothing"
    audit.rmdir()
    assert await_health(fleet, "ok") == ""
    assert everywhere(fleet)[:2] == ("ok", "ok")


def test_a_store_that_is_gone(fleet: Fleet) -> None:
    store = fleet.state / "gateway.db"
    store.rename(fleet.state / "moved.db")
    said = await_health(fleet, "degraded")
    assert f"the store's file {store} is not there any more" in said
    assert "pallasctl gateway restore" in said
    (fleet.state / "moved.db").rename(store)
    assert await_health(fleet, "ok") == ""
    events = [
        (event["previous"], event["health"])
        for line in fleet.ctl("events", "--kind", "gateway", "-o", "json").stdout.splitlines()
        if (event := json.loads(line))["event"] == "health"
    ]
    assert ("ok", "degraded") in events
    assert ("degraded", "ok") in events


def test_it_waits_for_a_database_that_boots_later(tmp_path: Path) -> None:
    postgres = new_postgres()
    url = postgres.url("postgres").replace("@", ":geheim42@")
    deployment = with_gateway(make_deployment(tmp_path / "fleet"), max_failures=1)
    with Fleet(deployment, env={"PALLAS_GATEWAY_STORE": url}) as fleet:
        fleet.await_that(lambda: fleet.status()["gateway"]["health"] == "error", "the store is missed")
        entry = fleet.status()["gateway"]
        said = entry["message"]
        assert entry["state"] == "ready"
        assert said == (
            f'the store is not available, nothing was changed: connection to server at "127.0.0.1", port '
            f"{postgres.port} failed: Connection refused; it is tried again until it is there"
        )
        shown = fleet.ctl("gateway", "status")
        assert (shown.returncode, said in shown.stdout) == (3, True)
        assert httpx.get(f"{deployment.registry}/readyz").status_code == 503
        own = httpx.get(f"{entry['url']}/health")
        assert (own.status_code, own.json()) == (503, {"status": "error"})
        refused = Door(entry["url"], None).ask("tools/list")
        assert (refused.status, refused.headers["retry-after"], refused.code) == (503, "5", -32603)
        assert "store is not available" in refused.message["error"]["message"]
        rest = Door(entry["url"], None).rest("GET", "/tokens")
        assert (rest.status_code, rest.json()["error"]["type"]) == (503, "unavailable")
        failed = fleet.ctl("gateway", "restart")
        assert failed.returncode == 0, failed.stderr
        postgres.start()
        fleet.await_that(lambda: fleet.status()["gateway"]["health"] == "ok", "it has been found again")
        assert fleet.status()["gateway"]["message"] == ""
        assert door(fleet).names("tools")
        assert fleet.ctl("gateway", "status").returncode == 0
        assert httpx.get(f"{deployment.registry}/readyz").status_code == 200
        assert fleet.status()["gateway"]["restarts"] == 1
        assert "the gateway serves at" in fleet.stderr
        assert "geheim42" not in fleet.stderr


def test_the_last_use_of_a_token_outlives_an_end(tmp_path: Path) -> None:
    with Fleet(with_gateway(make_deployment(tmp_path / "fleet"))) as fleet:
        await_gateway(fleet)
        assert door(fleet).names("tools")
        assert fleet.ctl("gateway", "restart").returncode == 0
        listed = json.loads(fleet.ctl("token", "list", "-o", "json").stdout)["tokens"]
        assert [each["last_used"] is None for each in listed] == [False]
