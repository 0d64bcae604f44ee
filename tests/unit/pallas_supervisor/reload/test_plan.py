"""What a reload has to do with each agent, from the two deployments alone."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.gateway import GatewaySettings, Limits
from pallas_registry.deployment.model import Agent as Facts
from pallas_registry.deployment.model import Deployment, Place
from pallas_supervisor.reload.plan import ACTIONS, DEPLOYMENT_ACTIONS, FIXED, Plan, plan_reload


def facts(name: str, **changes: Any) -> Facts:
    made = Facts(
        name=name, module=AgentSource("module", f"agents.{name}"), port=24201, title=name, description=name
    )
    return replace(made, **changes)


def deployment(*agents: Facts, **changes: Any) -> Deployment:
    made = Deployment(
        name="demo",
        agents={agent.name: agent for agent in agents},
        namespace="local.demo",
        bind="127.0.0.1",
        path=Path("agents.yaml"),
    )
    return replace(made, **changes)


def planned(old: Deployment, new: Deployment, **outdated: tuple[str, ...]) -> Plan:
    return plan_reload(old, new, outdated)


def test_every_field_has_its_action() -> None:
    assert set(ACTIONS) == {field.name for field in fields(Facts) if field.compare} - {"name"}
    asked = {*DEPLOYMENT_ACTIONS, *FIXED}
    apart = {"agents", "path", "gateway"}
    assert asked == {field.name for field in fields(Deployment) if field.compare} - apart
    assert not set(DEPLOYMENT_ACTIONS) & set(FIXED)


GATEWAY = GatewaySettings(bind="127.0.0.1", public_url="http://localhost:24199")


@pytest.mark.parametrize(
    ("before", "after", "moved", "fixed"),
    [
        (None, GATEWAY, True, ()),
        (GATEWAY, None, True, ()),
        (GATEWAY, replace(GATEWAY, public_url="https://x.example.com"), True, ()),
        (GATEWAY, replace(GATEWAY, port=1), True, ()),
        (GATEWAY, replace(GATEWAY, audit_content=True, limits=Limits(concurrent=1)), False, ()),
        (GATEWAY, replace(GATEWAY, workers="open"), True, ()),
        (GATEWAY, replace(GATEWAY, bind="10.9.9.9"), True, ()),
        (GATEWAY, replace(GATEWAY, bind="127.0.0.2"), True, ()),
        (GATEWAY, replace(GATEWAY, bind="0.0.0.0"), False, ("gateway.bind",)),
        (replace(GATEWAY, bind="::"), replace(GATEWAY, bind="::1"), False, ("gateway.bind",)),
        (GATEWAY, replace(GATEWAY, bind="0.0.0.0", port=1), True, ()),
    ],
)
def test_agents_move_only_where_the_gateway_is_reached_otherwise(
    before: GatewaySettings | None, after: GatewaySettings | None, moved: bool, fixed: tuple[str, ...]
) -> None:
    plan = planned(deployment(facts("a"), gateway=before), deployment(facts("a"), gateway=after))
    assert (
        plan.changed["a"].fields if moved else plan.changed,
        plan.fixed,
    ) == (("gateway",) if moved else {}, fixed)


@pytest.mark.parametrize(
    ("before", "after", "fixed"),
    [
        (None, GATEWAY, ("gateway (and with it gateway.workers, from open to behind)",)),
        (GATEWAY, None, ("gateway (and with it gateway.workers, from behind to open)",)),
        (replace(GATEWAY, workers="open"), GATEWAY, ("gateway.workers",)),
        (None, replace(GATEWAY, workers="open"), ()),
    ],
)
def test_agents_that_leave_an_address_need_a_restart(
    before: GatewaySettings | None, after: GatewaySettings | None, fixed: tuple[str, ...]
) -> None:
    old, new = (deployment(gateway=each, bind="0.0.0.0") for each in (before, after))
    assert planned(old, new).fixed == fixed


@pytest.mark.parametrize(
    ("before", "after", "places", "change"),
    [
        (None, None, (), None),
        (GATEWAY, GATEWAY, (), None),
        (None, GATEWAY, (), ("added", (), None)),
        (GATEWAY, None, (), ("removed", (), None)),
        (GATEWAY, replace(GATEWAY, limits=Limits(concurrent=1)), (), ("changed", ("limits",), "respawn")),
        (GATEWAY, replace(GATEWAY, max_failures=1), (), ("changed", ("max_failures",), "live")),
        (
            GATEWAY,
            replace(GATEWAY, port=1, public_url="http://x:1"),
            (),
            ("changed", ("port",), "rebind"),
        ),
        (
            GATEWAY,
            replace(GATEWAY, port=1, public_url="http://x:1"),
            ("gateway.public_url",),
            ("changed", ("port", "public_url"), "rebind"),
        ),
        (GATEWAY, replace(GATEWAY, public_url="http://x:1"), (), ("changed", ("public_url",), "respawn")),
    ],
)
def test_the_gateways_change(
    before: GatewaySettings | None,
    after: GatewaySettings | None,
    places: tuple[str, ...],
    change: tuple[str, tuple[str, ...], str | None] | None,
) -> None:
    new = deployment(gateway=after, places=dict.fromkeys(places, Place(3)))
    plan = planned(deployment(gateway=before), new)
    assert (plan.gateway and (plan.gateway.kind, plan.gateway.fields, plan.gateway.action)) == change


def test_the_gateways_change_as_json() -> None:
    moved = replace(GATEWAY, port=1, public_url="http://localhost:1")
    plan = planned(deployment(gateway=GATEWAY), deployment(gateway=moved))
    assert plan.to_json(dry_run=True)["gateway"] == {
        "change": "changed",
        "fields": ["port"],
        "action": "rebind",
        "before": {"bind": "127.0.0.1", "port": 24199, "public_url": "http://localhost:24199"},
        "after": {"bind": "127.0.0.1", "port": 1, "public_url": "http://localhost:1"},
    }


def test_nothing_changed() -> None:
    old = deployment(facts("research"), facts("jarvis", port=24202))
    plan = planned(old, replace(old, path=Path("elsewhere.yaml")))
    assert plan.unchanged == ("research", "jarvis")
    assert (plan.added, plan.removed, plan.changed, plan.fixed) == ((), (), {}, ())


def test_another_order_is_no_change() -> None:
    one, other = facts("research"), facts("jarvis", port=24202)
    assert set(planned(deployment(one, other), deployment(other, one)).unchanged) == {"research", "jarvis"}


def test_added_removed_and_changed_agents() -> None:
    old = deployment(facts("research"), facts("library", port=24202), facts("jarvis", port=24203))
    new = deployment(
        facts("research", title="Research"), facts("jarvis", port=24203), facts("engineering", port=24204)
    )
    assert planned(old, new).to_json(dry_run=True) == {
        "dry_run": True,
        "added": ["engineering"],
        "removed": ["library"],
        "changed": [{"agent": "research", "fields": ["title"], "action": "respawn"}],
        "unchanged": ["jarvis"],
        "older_code": {},
        "gateway": None,
    }


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({"icon": "https://example.com/i.png"}, "live"),
        ({"max_failures": 9, "depends_on": ("library",)}, "live"),
        ({"max_failures": 9, "env": {"A": "1"}}, "respawn"),
        ({"max_concurrency": 4, "max_queue": 8, "max_request_bytes": 4096}, "respawn"),
        ({"liveness_misses": 0}, "live"),
        ({"liveness_interval": 1.0, "memory_limit": 2**30, "slow_after": 2.0}, "respawn"),
        ({"module": AgentSource("module", "agents.other"), "port": 24299}, "rebind"),
    ],
)
def test_the_strongest_action_counts(changes: dict[str, object], action: str) -> None:
    change = planned(deployment(facts("research")), deployment(facts("research", **changes))).changed[
        "research"
    ]
    assert change.action == action
    assert set(change.fields) == set(changes)


def test_an_older_version_of_a_file_asks_for_a_new_process() -> None:
    old = deployment(facts("research"), facts("jarvis", port=24202))
    changed = planned(old, old, jarvis=("fastagent.config.yaml", ".env", "agents.yaml")).changed
    assert list(changed) == ["jarvis"]
    assert changed["jarvis"].action == "respawn"
    assert changed["jarvis"].fields == (".env", "agents.yaml", "fastagent.config.yaml")


def test_the_file_is_not_named_beside_its_fields() -> None:
    old, new = deployment(facts("jarvis")), deployment(facts("jarvis", title="Jarvis", icon="j.svg"))
    files = ("agents.yaml", ".env")
    assert planned(old, new, jarvis=files).changed["jarvis"].fields == ("title", "icon", ".env")
    live = deployment(facts("jarvis", icon="j.svg"))
    assert planned(old, live, jarvis=files).changed["jarvis"].fields == ("icon", ".env", "agents.yaml"), (
        "its worker is older than the present definition"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "other"), ("registry_port", 24299), ("bind", "0.0.0.0")],
)
def test_what_only_a_restart_changes(field: str, value: Any) -> None:
    old = deployment(facts("research"))
    assert planned(old, replace(old, **{field: value})).fixed == (field,)


def test_changed_code_is_no_reason_for_a_new_process() -> None:
    old = deployment(facts("library"), facts("research"))
    new = deployment(facts("library"), facts("research", title="Other"))
    code = {"library": ("agents/library.py",), "research": ("agents/research.py",), "gone": ("x.py",)}
    plan = plan_reload(old, new, changed_code=code)
    assert plan.unchanged == ("library",)
    assert plan.older_code == {"library": ("agents/library.py",)}
    assert plan.to_json(dry_run=False)["older_code"] == {"library": ["agents/library.py"]}
