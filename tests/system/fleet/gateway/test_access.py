"""Who gets in at a deployment's gateway, what is written down about it, and where a token can be found afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import jwt
import pytest

from pallas_common.secrets.tokens import new_token
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import Door, await_gateway, door, with_gateway
from support.gateway.issuer import AUDIENCE, Issuer, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def fleet(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("f") / "fleet", "jarvis", "friday")
    oidc = {"issuer": issuer.url, "audience": AUDIENCE, "groups": {"ops": ["view:agents:jarvis"]}}
    with_gateway(deployment, oidc=oidc, limits={"requests_per_minute": 100_000})
    with Fleet(deployment) as fleet:
        fleet.wait()
        await_gateway(fleet)
        yield fleet


def token(fleet: Fleet, name: str, *grants: str, **more: Any) -> dict[str, Any]:
    body = {"name": name, "role": "human", "grants": list(grants), **more}
    answer = door(fleet).rest("POST", "/tokens", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def caller(fleet: Fleet, text: str | None) -> Door:
    return Door(door(fleet).url, text)


def audit(fleet: Fleet, **query: Any) -> list[dict[str, Any]]:
    answer = door(fleet).rest("GET", "/audit", params=query)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_health_and_metadata_need_no_token(fleet: Fleet) -> None:
    url = door(fleet).url
    # It is degraded until it follows the supervisor.
    fleet.await_that(lambda: httpx.get(f"{url}/health").json() == {"status": "ok"}, "the gateway is well")
    answer = httpx.post(f"{url}/mcp", json={})
    assert answer.status_code == 401
    where = answer.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
    assert httpx.get(where).json()["resource"].endswith("/mcp")


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)],
)
def test_pages_of_others_and_other_names_are_refused(
    fleet: Fleet, headers: dict[str, str], status: int
) -> None:
    own = door(fleet)
    answer = httpx.get(
        f"{own.url}/api/v1/tokens", headers={"Authorization": f"Bearer {own.token}", **headers}
    )
    assert answer.status_code == status


def test_a_token_sees_what_its_grants_say_until_it_is_revoked(fleet: Fleet) -> None:
    made = token(fleet, "ada", "view:agents:jarvis")
    ada = caller(fleet, made["token"])
    listed = ada.read("resource://agents/list").text
    assert "jarvis" in listed
    assert "friday" not in listed
    assert ada.rest("GET", "/tokens").status_code == ada.rest("GET", "/audit").status_code == 403
    assert door(fleet).rest("DELETE", f"/tokens/{made['id']}").status_code == 200
    assert ada.ask("tools/list").status == 401
    (line,) = audit(fleet, action="token.revoke", n=1)
    assert (line["target"], line["outcome"], line["role"]) == (f"token/{made['id']}", "ok", "human")


def test_signed_tokens_of_the_issuer_count(fleet: Fleet, issuer: Issuer) -> None:
    listed = caller(fleet, issuer.sign(groups=["ops"])).read("resource://agents/list").text
    assert "jarvis" in listed
    assert "friday" not in listed
    wrong = (
        issuer.sign(aud="another"),
        issuer.sign(exp=1),
        jwt.encode({"sub": "ada", "iss": issuer.url, "aud": AUDIENCE}, make_key("ES256"), "ES256"),
    )
    for text in wrong:
        assert caller(fleet, text).ask("tools/list").status == 401


def test_calls_are_written_down_and_refused_ones_as_well(fleet: Fleet) -> None:
    made = token(fleet, "grace", "view:agents")
    grace = caller(fleet, made["token"])
    grace.tool("agents_list")
    grace.ask("tools/call", name="agents_delete", arguments={"name": "jarvis"})
    lines = audit(fleet, principal=made["id"])
    assert [(line["action"], line["outcome"]) for line in lines] == [
        ("tools/call", "ok"),
        ("tools/call", "denied"),
    ]
    assert lines[1]["target"] == "agents_delete agent/jarvis"
    assert all(line["request_id"] and line["tenant"] == "default" for line in lines)


def test_tokens_are_nowhere_but_where_they_belong(fleet: Fleet) -> None:
    made = token(fleet, "hopper", "view:agents")
    hopper, unknown = caller(fleet, made["token"]), new_token("human")
    hopper.tool(made["token"])
    hopper.read(f"resource://agents/{made['token']}/info")
    caller(fleet, unknown).ask("tools/list")
    # What the audit says is written before the answer: so all is there now.
    for path in fleet.state.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert made["token"].encode() not in content, path
            assert unknown.encode() not in content, path


def test_what_is_counted_is_on_the_page_of_the_deployment(fleet: Fleet) -> None:
    made = token(fleet, "curie", "view:agents")
    curie = caller(fleet, made["token"])
    curie.tool("agents_list")
    curie.tool("made_up")
    caller(fleet, new_token("human")).ask("tools/list")
    page = metrics(fleet)
    samples = samples_of(page)
    assert samples['pallas_gateway_requests_total{outcome="ok",role="human",surface="management"}'] >= 1
    assert samples['pallas_gateway_access_denied_total{reason="invalid"}'] >= 1
    assert samples['pallas_gateway_tool_duration_seconds_count{surface="management",tool="agents_list"}'] >= 1
    assert samples['pallas_gateway_audit_lines_total{outcome="written"}'] >= 1
    assert samples["pallas_gateway_requests_in_flight"] == 0
    assert "made_up" not in page


def test_a_handshake_counts_as_it_ended_and_not_as_http_says(fleet: Fleet) -> None:
    series = 'pallas_gateway_requests_total{outcome="error",role="human",surface="management"}'
    hopper = door(fleet, era="sessions")
    before = samples_of(metrics(fleet)).get(series, 0.0)
    for method, params in (("initialize", {}), ("resources/subscribe", {"uri": "resource://no/such"})):
        refused = hopper.ask(method, **params)
        assert (refused.status, refused.code) == (200, -32602)
    assert samples_of(metrics(fleet))[series] == before + 2


def metrics(fleet: Fleet) -> str:
    """The page of the deployment."""
    return httpx.get(f"{fleet.deployment.registry}/metrics").text


def samples_of(page: str) -> dict[str, float]:
    """The values by series."""
    lines = (line.rpartition(" ") for line in page.splitlines() if line[0] != "#")
    return {series: float(value) for series, _, value in lines}


def test_the_audit_is_read_by_the_verb(fleet: Fleet) -> None:
    made = token(fleet, "noether", "view:agents")
    caller(fleet, made["token"]).tool("agents_list")
    shown = fleet.ctl("audit", "--principal", "noether", "--since", "10m")
    assert shown.returncode == 0, shown.stderr
    assert f"noether [{made['id']}]  tools/call agents_list  ok" in shown.stdout
    listed = fleet.ctl("audit", "-n", "1", "--action", "token.create", "-o", "json")
    (line,) = map(json.loads, listed.stdout.splitlines())
    assert (line["target"], line["outcome"]) == (f"token/{made['id']}", "ok")
    wrong = fleet.ctl("audit", "--since", "soon")
    assert wrong.returncode == 2


def test_the_audit_is_followed_until_the_token_is_revoked(fleet: Fleet) -> None:
    watcher = token(fleet, "watcher", "*")
    headers = {"Authorization": f"Bearer {watcher['token']}"}
    url = f"{door(fleet).url}/api/v1/audit?follow=1&n=1"
    with httpx.stream("GET", url, headers=headers, timeout=60) as stream:
        lines = stream.iter_lines()
        assert json.loads(next(lines))["action"] == "token.create"
        caller(fleet, watcher["token"]).tool("agents_list")
        assert json.loads(next(lines))["target"] == "agents_list"
        assert door(fleet).rest("DELETE", f"/tokens/{watcher['id']}").status_code == 200
        for line in lines:
            assert json.loads(line)["action"] == "token.revoke"
