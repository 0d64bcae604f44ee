"""An agent that has another one among its servers which starts on demand: only a call of its tools wakes that one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from support.clients import send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

PROBES = 3


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """`asking` and `trusting` have `asked` among their servers; `trusting` hands its caller's token on."""
    deployment = make_deployment(tmp_path_factory.mktemp("siblings") / "fleet")
    deployment.add("asked", start="on-demand", idle_timeout=60.0)
    address = deployment.url("asked")
    deployment.servers = {
        "asked": {"url": address},
        "trusted": {"url": address.replace("127.0.0.1", "localhost"), "forward_inbound_auth": True},
    }
    deployment.add("asking", servers=("asked",), depends_on=["asked"])
    deployment.add("trusting", servers=("trusted",))
    with Fleet(deployment, env={"PALLAS_PROBE_INTERVAL": "0.2"}) as fleet:
        fleet.wait()
        yield fleet


def server_of(fleet: Fleet, name: str) -> dict[str, Any] | None:
    """What the agent's health says of its server."""
    downstreams = fleet.get("/v1/health").json()["agents"][name].get("downstreams")
    return downstreams[0] if downstreams else None


def test_only_a_call_of_its_tools_wakes_it(fleet: Fleet) -> None:
    for name in ("asking", "trusting"):
        seen: set[str] = set()
        for message in ("one", "two", "three"):  # each takes an instance that was made ahead
            assert asyncio.run(send_message(fleet.deployment.url(name), message)) == message

        def probed(name: str = name, seen: set[str] = seen) -> bool:
            server = server_of(fleet, name)
            seen.update({server["checked"]} if server is not None else ())
            return len(seen) >= PROBES

        fleet.await_that(probed, "so many looks at health")
        server = server_of(fleet, name)
        assert server is not None
        assert (server["up"], server["latency"], server["error"]) == (True, None, None)
        assert fleet.get("/v1/health").json()["agents"][name]["status"] == "ok"
    assert (fleet.agent("asked")["state"], fleet.agent("asked")["generation"]) == ("idle", 0)
    described = fleet.get("/v1/agents/asking").text
    assert all(
        f'"{tool}"' in described for tool in ("asked__send_message", "asked__asked", "asked__get_health")
    )

    for number, (name, server_name) in enumerate((("asking", "asked"), ("trusting", "trusted")), start=1):
        call = f'***CALL_TOOL {server_name}__send_message {{"message": "there?"}}'
        assert "there?" in asyncio.run(send_message(fleet.deployment.url(name), call))
        assert (fleet.agent("asked")["state"], fleet.agent("asked")["generation"]) == ("ready", 1), number
