"""Resources are applied while the supervisor is killed or its disk is full: each is as it was, or as it is to be."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.resources.assembly import Assembly, assemble
from pallas_registry.resources.files import ResourceFiles, folder_of
from support.faults.small_disk import small_disk
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.supervisor.declared import agent, document, secret

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = 100
ROUNDS = 3


def generation(number: int) -> list[dict[str, str]]:
    """Agents that are always there, and a model and a key that only this generation has."""
    keys, model = f"keys{number}", f"model{number}"
    documents = [agent(f"agent{each}", llm=model, description=f"Of {number}.") for each in range(AGENTS)]
    documents += [
        document(
            "llm", model, type="openai", model="m", url="http://127.0.0.1:9/v1", apiKeyRef=f"{keys}/API_KEY"
        ),
        secret(keys),
    ]
    return [{"file": f"{each}.yaml", "text": text} for each, text in enumerate(documents)]


def assembled(fleet: Fleet) -> Assembly:
    """What the files say."""
    base = read_deployment(fleet.deployment.directory / "agents.yaml")
    return assemble(base, ResourceFiles().read(fleet.state))


def leftovers(fleet: Fleet) -> list[Path]:
    return [path for path in folder_of(fleet.state).rglob(".*") if path.name != ".key"]


def inodes(fleet: Fleet) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_ino) for path in folder_of(fleet.state).rglob("*.yaml")}


def kill_during_apply(fleet: Fleet, number: int, changes: int) -> None:
    """SIGKILL as soon as so many files are others, or are gone, than before."""

    def apply() -> None:
        with suppress(httpx.TransportError):
            fleet.post("/v1/resources", files=generation(number), prune=True)

    before = inodes(fleet)
    applying = threading.Thread(target=apply)
    applying.start()
    while applying.is_alive():
        with suppress(FileNotFoundError):
            if len(before - inodes(fleet)) >= changes:
                break
    assert fleet.process is not None
    fleet.process.kill()
    fleet.process.wait()
    applying.join()


def test_killed_while_it_applies_a_supervisor_leaves_each_resource_old_or_new(tmp_path: Path) -> None:
    drawn = random.Random(20)
    fleet = Fleet(make_deployment(tmp_path / "fleet"))
    fleet.start()
    assert fleet.post("/v1/resources", files=generation(0)).status_code == 200
    for number in range(1, ROUNDS + 1):
        kill_during_apply(fleet, number, drawn.randint(0, AGENTS + 1))
        found = assembled(fleet)
        assert found.disabled == {}
        descriptions = {each.description for each in found.deployment.agents.values()}
        assert len(found.deployment.agents) == AGENTS
        assert descriptions <= {f"Of {each}." for each in range(number + 1)}
        fleet.start()
        assert leftovers(fleet) == []
        assert fleet.status()["configuration"] == {"changed": [], "problems": 0}
        assert len(fleet.status()["agents"]) == AGENTS
    done = fleet.post("/v1/resources", files=generation(0), prune=True).json()
    assert {each["outcome"] for each in done["results"]} <= {"created", "configured", "unchanged", "pruned"}
    assert {each.description for each in assembled(fleet).deployment.agents.values()} == {"Of 0."}
    assert fleet.stop() == 0
    assert [record for record in fleet.written() if record["level"] in ("ERROR", "CRITICAL")] == []


def test_a_full_disk_changes_nothing_and_is_said(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    try:
        disk = small_disk(tmp_path / "disk", 1)
        with (
            disk as mounted,
            Fleet(deployment, env={"PALLAS_STATE_DIR": str(mounted.path / "state")}) as fleet,
        ):
            fleet.state = mounted.path / "state"
            assert fleet.post("/v1/resources", files=generation(0)).status_code == 200
            before = inodes(fleet)
            with mounted.full():
                answer = fleet.post("/v1/resources", files=generation(1), prune=True)
                assert answer.status_code == 507
                assert "No space left on device; nothing was changed" in answer.json()["error"]
                assert (inodes(fleet), leftovers(fleet)) == (before, [])
                assert fleet.agent("agent7")["state"] == "idle"
                assert fleet.get("/v1/resources/agent/agent7").json()["spec"]["llm"] == "model0"
            assert fleet.post("/v1/resources", files=generation(1), prune=True).status_code == 200
            assert fleet.get("/v1/resources/agent/agent7").json()["spec"]["llm"] == "model1"
    except RuntimeError as error:
        pytest.skip(f"not run: {error}")
