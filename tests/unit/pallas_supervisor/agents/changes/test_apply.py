"""Resources that are applied to a real fleet without processes: what moves, what is kept, what is refused."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from pallas_common.logs.own_loggers import own_logger
from pallas_common.problems import ConfigurationError
from pallas_registry.resources.files import ResourceFiles, file_of
from pallas_registry.resources.model import ResourceId
from pallas_registry.source import Configuration
from pallas_supervisor.agents.changes import writing
from pallas_supervisor.agents.errors import NotKeptError, RefusedError
from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.sockets.listeners import PortsTakenError
from support.ports import free_ports
from support.supervisor.declared import VALUE, agent, file, llm, open_llm, secret
from support.supervisor.rig import Rig, on_rig, two_agents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pallas_registry.resources.changes import Changes

DEPLOYER, SMALL, KEYS = (
    ResourceId("agent", "deployer"),
    ResourceId("llm", "small"),
    ResourceId("secret", "keys"),
)
ALWAYS: dict[str, Any] = {"run": {"start": "always"}}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory; a reload finds it by the environment."""
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


async def apply(rig: Rig, *documents: str, **options: Any) -> Changes:
    return await rig.applying.apply([file("a.yaml", *documents)], "ada", **options)


def words(changes: Changes) -> list[str]:
    return [f"{each.resource} {each.word}" for each in changes.outcomes]


def kept(state: Path) -> set[str]:
    return set(map(str, ResourceFiles().read(state).resources))


def marks(state: Path) -> dict[Path, tuple[int, int]]:
    """All that is there, and what changes with each change of it."""
    return {
        path: (path.stat().st_ino, path.stat().st_ctime_ns)
        for path in [state, *state.rglob("*")]
        if path.exists()
    }


def hinder(state: Path) -> None:
    """Let nothing be written there."""
    state.touch()


def configurations() -> int:
    """How many there are in this process."""
    gc.collect()
    return sum(isinstance(each, Configuration) for each in gc.get_objects())


def test_an_agent_is_there_at_once_and_no_other_moves(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        before = dict(rig.manager.engine.agents)
        done = await apply(rig, secret(), llm(), agent(), agent("other", **ALWAYS))
        assert words(done) == [
            "secret/keys created",
            "llm/small created",
            "agent/deployer created",
            "agent/other created",
        ]
        assert rig.states(["deployer", "other"]) == {"deployer": "idle", "other": "starting"}
        assert all(rig.manager.engine.agents[name] is agent for name, agent in before.items())
        assert {"deployer", "other"} < set(rig.manager.responders.listeners)
        assert kept(state) == {"secret/keys", "llm/small", "agent/deployer", "agent/other"}

    on_rig(tmp_path, two_agents(), do)


def test_what_changes_nothing_writes_and_moves_nothing(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent(**ALWAYS))
        agents, taken = dict(rig.manager.engine.agents), rig.manager.drift.taken
        files = marks(state)
        with patch.object(writing, "_write_all") as writes:
            assert words(await apply(rig, agent(**ALWAYS), secret(), llm())) == [
                "agent/deployer unchanged",
                "secret/keys unchanged",
                "llm/small unchanged",
            ]
        assert not writes.called
        assert rig.manager.drift.taken is taken
        assert all(rig.manager.engine.agents[name] is each for name, each in agents.items())
        assert marks(state) == files

    on_rig(tmp_path, two_agents(), do)


def test_a_dry_run_says_and_does_nothing(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        assert words(await apply(rig, secret(), llm(), agent(), dry_run=True))[2] == "agent/deployer created"
        assert set(rig.manager.engine.agents) == {"library", "research"}
        assert not marks(state)

    on_rig(tmp_path, two_agents(), do)


def test_a_changed_value_of_a_secret_replaces_those_that_use_it(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        await apply(
            rig,
            secret(),
            llm(),
            agent(**ALWAYS),
            agent("without", llm="open", **ALWAYS),
            open_llm(),
        )
        rig.come_up("deployer", "without")
        await apply(rig, secret(API_KEY="another-value-of-it"))
        assert rig.manager.engine.agents["deployer"].is_replacing
        assert not rig.manager.engine.agents["without"].is_replacing
        spec = await rig.manager.preparation.prepare(WorkerId("deployer", 2))
        assert spec.secrets == {"keys/API_KEY": "another-value-of-it"}
        assert "another-value" not in repr(spec)
        assert (await rig.manager.preparation.prepare(WorkerId("without", 1))).secrets == {}

    on_rig(tmp_path, two_agents(), do)


def test_a_value_is_known_before_anything_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def do(rig: Rig) -> None:
        secrets = rig.manager.log_router.secrets
        assert not secrets.may_be_in(VALUE)
        await apply(rig, secret())
        assert secrets.strike(f"got {VALUE}") == "got ***" or VALUE not in secrets.strike(f"got {VALUE}")

    caplog.set_level(logging.DEBUG, own_logger().name)
    on_rig(tmp_path, two_agents(), do)
    assert VALUE not in caplog.text


def test_an_agent_that_is_deleted_is_stopped_first(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent(**ALWAYS))
        rig.come_up("deployer")
        deleting = asyncio.create_task(rig.applying.delete([DEPLOYER], "ada"))
        await rig.manager.engine.until(lambda: rig.states(["deployer"]) == {"deployer": "stopping"})
        rig.end("deployer")
        assert words(await deleting) == ["agent/deployer deleted"]
        assert "deployer" not in rig.manager.engine.agents
        assert "deployer" not in rig.manager.responders.listeners
        assert kept(state) == {"secret/keys", "llm/small"}

    on_rig(tmp_path, two_agents(), do)


def test_what_cannot_be_written_changes_nothing(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        taken, listeners = rig.manager.drift.taken, set(rig.manager.responders.listeners)
        hinder(state)
        with pytest.raises(NotKeptError, match=r"is not a directory.*nothing was changed"):
            await apply(rig, secret(), llm(), agent())
        assert rig.manager.drift.taken is taken
        assert set(rig.manager.engine.agents) == {"library", "research"}
        assert set(rig.manager.responders.listeners) == listeners

    on_rig(tmp_path, two_agents(), do)


def test_a_port_that_somebody_has_changes_nothing(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(PortsTakenError):
                await apply(rig, secret(), llm(), agent(run={"port": taken.getsockname()[1]}))
        assert not marks(state)
        assert "deployer" not in rig.manager.engine.agents

    on_rig(tmp_path, two_agents(), do)


def test_two_at_once_follow_each_other(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent())
        both: Sequence[Changes] = await asyncio.gather(
            *(apply(rig, agent(description=f"The {number}.")) for number in range(5))
        )
        assert [words(each) for each in both] == [["agent/deployer configured"]] * 5
        resource = ResourceFiles().read(state).resources[DEPLOYER]
        assert resource.metadata is not None
        assert resource.metadata.version == 6
        assert resource == rig.manager.drift.taken.resources[DEPLOYER]

    on_rig(tmp_path, two_agents(), do)


def test_a_reload_takes_over_what_was_changed_by_hand(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent(), agent("gone"))
        assert rig.manager.drift.document() == {"changed": [], "problems": 0}
        path = file_of(state, DEPLOYER)
        path.write_text(path.read_text().replace("It deploys", "It does more"))
        file_of(state, ResourceId("agent", "gone")).unlink()
        await rig.manager.drift.look()
        assert rig.manager.drift.document()["changed"] == ["agent/deployer", "agent/gone"]
        plan = await rig.reloading.reload(dry_run=False)
        assert plan.removed == ("gone",)
        assert {name: change.fields for name, change in plan.changed.items()} == {
            "deployer": ("description",)
        }
        assert rig.manager.drift.deployment.agents["deployer"].description == "It does more"

    on_rig(tmp_path, two_agents(), do)


def test_a_reload_without_a_change_moves_nothing_that_is_declared(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent(**ALWAYS))
        await rig.manager.preparation.prepare(WorkerId("deployer", 1))
        rig.come_up("deployer")
        plan = await rig.reloading.reload(dry_run=False)
        assert (plan.added, plan.removed, plan.changed) == ((), (), {})
        assert {entry["name"]: entry["outdated"] for entry in rig.manager.status.entries()}["deployer"] == []

    on_rig(tmp_path, two_agents(), do)


def test_a_bad_file_leaves_out_its_resource_alone(
    tmp_path: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent(), open_llm(), agent("other", llm="open"))
        file_of(state, SMALL).write_text("kind: [")
        await rig.reloading.reload(dry_run=False)
        assert set(rig.manager.engine.agents) == {"library", "research", "other"}
        assert set(rig.manager.drift.taken.disabled) == {SMALL, DEPLOYER}
        assert words(await apply(rig, llm())) == ["llm/small configured"]
        assert "deployer" in rig.manager.engine.agents

    caplog.set_level(logging.ERROR, own_logger().name)
    on_rig(tmp_path, two_agents(), do)
    assert "llm/small is left out: " in caplog.text
    assert "small.yaml:" in caplog.text
    assert "agent/deployer is left out: " in caplog.text


def test_a_name_that_is_in_both_refuses_the_reload_with_both_places(tmp_path: Path, state: Path) -> None:
    two = two_agents()

    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent())
        taken = rig.manager.drift.taken
        rig.write({**two, "deployer": {"port": free_ports(1)[0]}})
        with pytest.raises(ConfigurationError) as caught:
            await rig.reloading.reload(dry_run=False)
        said = str(caught.value)
        assert str(file_of(state, DEPLOYER)) in said
        assert f"{rig.directory / 'agents.yaml'}:" in said
        assert rig.manager.drift.taken is taken

    on_rig(tmp_path, two, do)


def test_configurations_that_nobody_goes_by_are_not_kept(tmp_path: Path) -> None:
    """A worker goes on while hundreds of resources beside it change."""

    async def do(rig: Rig) -> None:
        await apply(rig, secret(), llm(), agent(**ALWAYS))
        await rig.manager.preparation.prepare(WorkerId("deployer", 1))
        rig.come_up("deployer")
        before = configurations()
        for number in range(3):
            await apply(rig, secret(f"other{number}", A="12345678"))
        assert configurations() == before

    on_rig(tmp_path, two_agents(), do)


def test_while_one_agent_runs_alone_nothing_is_applied(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.manager.drift.source = replace(rig.manager.drift.source, only="library")
        with pytest.raises(RefusedError, match="runs alone here"):
            await apply(rig, secret())

    on_rig(tmp_path, two_agents(), do)


def test_a_supervisor_that_stops_applies_nothing(tmp_path: Path, state: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.manager.engine.shutting_down = True
        with pytest.raises(RefusedError, match="the supervisor is stopping"):
            await apply(rig, secret())
        assert not marks(state)

    on_rig(tmp_path, two_agents(), do)
