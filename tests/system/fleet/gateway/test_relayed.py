"""What goes on to other servers through the gateway: the caller's trace, and of the environment what is declared."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from fakes.downstream import run_downstream
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, await_gateway, door, make_token, with_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.downstream import RunningDownstream
    from support.gateway.door import Era

SECRETS = {"PGPASSWORD": "secret-1", "OPENAI_API_KEY": "secret-2", "SOMETHING_ELSE": "secret-3"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
TELLS_ITS_ENVIRONMENT = """
import json, os, sys
TOOL = {"name": "environment", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            result = {**said, "serverInfo": {"name": "tells", "version": "1"}}
        case "tools/list":
            result = {"tools": [TOOL]}
        case _:
            result = {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture(scope="module")
def search() -> Iterator[RunningDownstream]:
    with run_downstream(name="search") as running:
        yield running


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, search: RunningDownstream) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("relayed") / "fleet")
    program = deployment.directory / "tells.py"
    program.write_text(TELLS_ITS_ENVIRONMENT)
    deployment.servers = {
        "search": {"transport": "http", "url": search.url},
        "tells": {"command": sys.executable, "args": ["-IS", "tells.py"], "env": {"MINE": "declared"}},
    }
    deployment.add("talker", servers=("search", "tells"))
    store = f"sqlite:{deployment.directory / 'own.db'}"
    with Fleet(with_gateway(deployment), env={**SECRETS, "PALLAS_GATEWAY_STORE": store}) as running:
        await_gateway(running)
        running.wait("talker")
        yield running


@pytest.mark.parametrize("era", ERAS)
def test_a_server_is_told_of_the_callers_trace(fleet: Fleet, search: RunningDownstream, era: Era) -> None:
    caller = door(fleet, make_token(fleet, f"trace-{era}", agent="talker"), era)
    inside = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "baggage": "who=somebody"}
    params = {"name": "search__echo", "arguments": {"text": era}}
    message = caller.message("tools/call", params)
    message["params"].setdefault("_meta", {}).update(inside)
    if era == "sessions":
        caller.open_session()
    headers = caller.headers("tools/call", params)
    assert httpx.post(f"{caller.url}/mcp", json=message, headers=headers, timeout=60).status_code == 200
    called = (each for each in search.requests if each.rpc_method == "tools/call")
    (asked,) = (each for each in called if each.json["params"]["arguments"] == {"text": era})
    meta = asked.json["params"]["_meta"]
    assert asked.headers["traceparent"] == meta["traceparent"] == inside["traceparent"]
    assert "baggage" not in meta
    assert "authorization" not in asked.headers


def test_by_its_header_as_well_and_an_agent_is_told(fleet: Fleet) -> None:
    caller = door(fleet)
    params = {"name": "ask_agent", "arguments": {"name": "talker", "prompt": "hello"}}
    headers = caller.headers("tools/call", params)
    headers["traceparent"] = f"00-{TRACE[::-1]}-b7ad6b7169203331-01"
    message = caller.message("tools/call", params)
    answer = httpx.post(f"{caller.url}/mcp", json=message, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    of_talker = [r for r in fleet.records() if r.get("agent") == "talker"]
    assert any(r.get("trace_id") == TRACE[::-1] for r in of_talker)
    audited = (json.loads(line) for line in (fleet.state / "audit.jsonl").read_text().splitlines())
    assert any(line["trace_id"] == TRACE[::-1] for line in audited)


def test_a_child_gets_what_is_declared_and_no_secret(fleet: Fleet) -> None:
    caller = door(fleet, make_token(fleet, "env", agent="talker"))
    said = json.loads(caller.tool("tells__environment").text)
    assert (said["MINE"], said["PATH"]) == ("declared", os.environ["PATH"])
    assert not {*SECRETS, "PALLAS_GATEWAY_STORE"} & set(said)
    assert said["PALLAS_WORKER"].startswith("@gateway/"), (
        "by which the supervisor finds what a gateway leaves behind"
    )
    assert not set(SECRETS.values()) & set(said.values())


def test_open_connections_to_servers_are_counted(fleet: Fleet, search: RunningDownstream) -> None:
    def counted() -> float:
        name = "pallas_gateway_upstream_connections "
        lines = httpx.get(f"{fleet.deployment.registry}/metrics").text.splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    door(fleet, make_token(fleet, "count", agent="talker")).tool("search__echo", text="again")
    assert search.connections >= 1
    fleet.await_that(lambda: counted() >= 2, "one to a child, one to a port at least")
