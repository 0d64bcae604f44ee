"""A gateway whose PostgreSQL comes up later: it says so, is never given up, and serves by itself when it is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import Door, await_gateway, door, with_gateway
from support.gateway.postgres import new_postgres

if TYPE_CHECKING:
    from pathlib import Path


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
