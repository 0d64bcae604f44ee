"""What happens to declared resources as events: each change once, with its cause, and nothing that they say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pallas_registry.resources.files import file_of
from pallas_registry.resources.model import ResourceId
from support.supervisor.declared import VALUE, agent, file, llm, secret
from support.supervisor.rig import on_rig, two_agents

if TYPE_CHECKING:
    from pathlib import Path

    from support.supervisor.rig import Rig


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def told(rig: Rig) -> list[dict[str, Any]]:
    """The events of resources so far."""
    lines = rig.manager.events.newest(10_000).take(1 << 30).splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == "resource"]


def short(rig: Rig) -> list[str]:
    return [f"{event['name']} {event['event']} {event['cause']}" for event in told(rig)]


def test_each_change_is_told_once_with_its_cause(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        await rig.applying.apply([file("a.yaml", secret(), llm(), agent())], "ada")
        assert short(rig) == [
            "agent/deployer created request",
            "llm/small created request",
            "secret/keys created request",
        ]
        assert isinstance(told(rig)[1]["uid"], str)
        assert VALUE not in json.dumps(told(rig))
        await rig.applying.apply([file("a.yaml", llm(model="larger"), agent())], "ada")
        assert short(rig)[3:] == ["llm/small changed request"]
        await rig.applying.delete([ResourceId("agent", "deployer")], "ada")
        assert short(rig)[4:] == ["agent/deployer deleted request"]
        file_of(state, ResourceId("llm", "small")).unlink()
        await rig.reloading.reload(dry_run=False)
        assert short(rig)[5:] == ["llm/small deleted reload"]
        await rig.reloading.reload(dry_run=False)
        assert len(told(rig)) == 6

    on_rig(tmp_path, two_agents(), do)


def test_a_file_that_cannot_be_used_is_no_deletion(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        await rig.applying.apply([file("a.yaml", secret(), llm(), agent())], "ada")
        file_of(state, ResourceId("agent", "deployer")).write_text("kind: [")
        await rig.reloading.reload(dry_run=False)
        assert short(rig)[3:] == ["agent/deployer changed reload"]

    on_rig(tmp_path, two_agents(), do)
