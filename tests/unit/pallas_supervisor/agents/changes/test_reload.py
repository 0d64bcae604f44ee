"""Reloads of a real fleet without processes; its sockets are real."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from pallas_common.logs.own_loggers import own_logger
from pallas_common.problems import ConfigurationError
from pallas_registry.reading.files import read_file
from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.lifecycle.events import Elapsed
from pallas_supervisor.lifecycle.states import Exit, WorkerId
from pallas_supervisor.sockets.listeners import PortsTakenError
from support.ports import free_ports
from support.supervisor.rig import Rig, on_rig, two_agents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def two() -> dict[str, dict[str, object]]:
    return two_agents()


async def until(rig: Rig, **states: str) -> None:
    """Return as soon as the agents are in these states."""
    await rig.manager.engine.until(lambda: rig.states(states) == states)


async def serve(rig: Rig, *names: str) -> None:
    """Let the agents' workers come up, with what the configuration says at the moment."""
    for name in names:
        await rig.manager.preparation.prepare(WorkerId(name, rig.world.newest(name).generation))
    rig.come_up(*names)


def outdated(rig: Rig) -> dict[str, list[str]]:
    return {entry["name"]: entry["outdated"] for entry in rig.manager.status.entries() if entry["outdated"]}


def answering(port: int) -> bool:
    """Whether somebody listens on the port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_reload_that_changes_nothing_moves_nothing(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        agents = dict(rig.manager.engine.agents)
        plan = await rig.reloading.reload(dry_run=False)
        assert set(plan.unchanged) == set(two)
        assert all(rig.manager.engine.agents[name] is agent for name, agent in agents.items())

    on_rig(tmp_path, two, do)


def test_a_dry_run_only_says_what_would_be_done(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        deployment = rig.manager.drift.deployment
        rig.write({"library": {"port": free_ports(1)[0]}})
        plan = await rig.reloading.reload(dry_run=True)
        assert plan.removed == ("research",)
        assert plan.changed["library"].action == "rebind"
        assert rig.manager.drift.deployment is deployment
        assert set(rig.manager.responders.listeners) == set(two)

    on_rig(tmp_path, two, do)


def test_a_file_with_problems_changes_nothing(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        deployment = rig.manager.drift.deployment
        rig.write({**two, "jarvis": {"port": two["library"]["port"], "colour": "red"}})
        with pytest.raises(ConfigurationError) as caught:
            await rig.reloading.reload(dry_run=False)
        assert len(caught.value.problems) == 2
        assert rig.manager.drift.deployment is deployment

    on_rig(tmp_path, two, do)


@pytest.mark.parametrize("change", [{"registry_port": 24299}, {"name": "other"}, {"bind": "0.0.0.0"}])
def test_what_needs_a_restart_of_the_supervisor_is_refused(
    change: dict[str, object], tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.write(two, **change)
        with pytest.raises(
            RefusedError, match="restart of the supervisor; nothing was changed: `pallas check` says"
        ):
            await rig.reloading.reload(dry_run=False)

    on_rig(tmp_path, two, do)


def test_a_port_that_is_taken_is_said_at_once_and_changes_nothing(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            rig.write({**two, "jarvis": {"port": port}, "engineering": {"port": free_ports(1)[0]}})
            with pytest.raises(PortsTakenError, match=rf"port {port} \(jarvis\) is taken by .*{os.getpid()}"):
                await rig.reloading.reload(dry_run=False)
        assert list(rig.manager.engine.agents) == list(two)

    on_rig(tmp_path, two, do)


def test_added_and_removed_agents(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    port = free_ports(1)[0]

    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        await serve(rig, "research")
        for name in two:
            rig.manager.store.slot(name, 1)
        rig.write({"library": two["library"], "jarvis": {"port": port, "depends_on": ["library"]}})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await until(rig, library="ready", research="stopping")
        rig.end("research")
        await reloading
        assert rig.states() == {"library": "ready", "jarvis": "starting"}
        assert answering(port)
        assert not answering(int(str(two["research"]["port"])))
        counted = b"".join(family.lines for family in rig.manager.store.families())
        assert b"library" in counted
        assert b"research" not in counted
        assert "research" not in rig.manager.drift._origins

    on_rig(tmp_path, two, do)


def test_of_a_removed_agent_the_end_of_what_could_not_be_killed_is_logged_and_nothing_remembered(
    tmp_path: Path, two: dict[str, dict[str, object]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def do(rig: Rig) -> None:
        engine = rig.manager.engine
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.operations.stop(["research"])
        for _ in range(2):  # neither SIGTERM nor SIGKILL ends it
            engine.post("research", Elapsed(engine.agents["research"].timer_epoch))
        assert rig.states()["research"] == "failed"
        rig.write({"library": two["library"]})
        await rig.reloading.reload(dry_run=False)
        assert list(engine.unkillable) == ["research"]
        caplog.clear()
        rig.end("research")
        assert [record.getMessage() for record in caplog.records] == ["research: failed -> stopped"]
        assert rig.manager.status.health_history.since("research") is None

    on_rig(tmp_path, two, do)


def test_an_agent_that_is_started_while_it_leaves_is_stopped_again(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.write({"library": two["library"]})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await until(rig, research="stopping")
        rig.operations.start(["research"])
        rig.end("research")
        assert rig.states()["research"] == "starting"
        rig.appear("research")
        await until(rig, research="stopping")
        rig.end("research")
        await reloading
        assert rig.states() == {"library": "ready"}

    on_rig(tmp_path, two, do)


@pytest.mark.parametrize("renamed", [False, True])
def test_who_does_not_depend_on_it_any_more_does_not_notice_that_an_agent_leaves(
    tmp_path: Path, two: dict[str, dict[str, object]], renamed: bool
) -> None:
    strict = {**two["research"], "on_dependency_loss": "restart"}

    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        if renamed:
            rig.write({"archive": two["library"], "research": {**strict, "depends_on": ["archive"]}})
        else:
            rig.write({"research": {**strict, "depends_on": []}})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await until(rig, library="stopping")
        rig.end("library")
        await reloading
        assert rig.states()["research"] == "ready"
        assert rig.manager.engine.agents["research"].generation == 1

    on_rig(tmp_path, {**two, "research": strict}, do)


def test_a_new_name_may_take_over_the_port(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        port = int(str(two["research"]["port"]))
        rig.write({"library": two["library"], "investigation": {"port": port}})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await until(rig, research="stopping")
        assert answering(port)
        rig.end("research")
        await reloading
        assert rig.states() == {"library": "ready", "investigation": "starting"}
        assert answering(port), "nobody was refused meanwhile"
        assert rig.manager.responders.listeners["investigation"].getsockname()[1] == port

    on_rig(tmp_path, two, do)


def test_agents_may_swap_their_ports(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        ports = {name: int(str(agent["port"])) for name, agent in two.items()}
        rig.write(
            {
                "library": {"port": ports["research"]},
                "research": {**two["research"], "port": ports["library"]},
            }
        )
        await rig.reloading.reload(dry_run=False)
        assert rig.states() == {"library": "stopping", "research": "stopping"}
        held = {
            name: listener.getsockname()[1] for name, listener in rig.manager.responders.listeners.items()
        }
        assert held == {"library": ports["research"], "research": ports["library"]}

    on_rig(tmp_path, two, do)


def test_a_reload_takes_its_turn(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.write({"library": two["library"]})
        first = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await until(rig, research="stopping")
        rig.write(two)
        second = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await rig.manager.drift.look()
        assert not second.done()
        rig.end("research")
        assert (await first).removed == ("research",)
        assert (await second).added == ("research",)
        assert rig.states() == {"library": "ready", "research": "starting"}

    on_rig(tmp_path, two, do)


def test_workers_get_the_new_settings(
    tmp_path: Path, two: dict[str, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_LOG_LEVEL", raising=False)
    ours = own_logger()
    monkeypatch.setattr(ours, "level", ours.level)

    async def do(rig: Rig) -> None:
        rig.operations.start([])
        await serve(rig, "library")
        assert (await rig.manager.preparation.prepare(WorkerId("library", 1))).log_level == "INFO"
        (tmp_path / "fastagent.config.yaml").write_text(
            "default_model: passthrough\nlogger:\n  level: debug\n"
        )
        plan = await rig.reloading.reload(dry_run=False)
        assert plan.changed["library"].fields == ("fastagent.config.yaml",)
        assert plan.changed["library"].action == "respawn"
        specification = await rig.manager.preparation.prepare(WorkerId("library", 2))
        assert specification.log_level == "DEBUG"
        assert specification.default_model == "passthrough"
        assert ours.level == logging.DEBUG, "and so do we"

    on_rig(tmp_path, two, do)


def test_an_agent_is_outdated_until_its_worker_has_been_replaced(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        await serve(rig, "library")
        await serve(rig, "research")
        (tmp_path / "fastagent.secrets.yaml").write_text("openai: {api_key: new}\n")
        rig.write({**two, "research": {**two["research"], "title": "Research!"}})
        await rig.manager.drift.look()
        secrets = "fastagent.secrets.yaml"
        assert outdated(rig) == {"library": [secrets], "research": ["agents.yaml", secrets]}
        assert rig.manager.drift.document() == {"changed": ["agents.yaml"], "problems": 0}
        plan = await rig.reloading.reload(dry_run=False)
        assert plan.changed["library"].fields == (secrets,)
        assert plan.changed["research"].fields == ("title", secrets)
        assert rig.manager.drift.document() == {"changed": [], "problems": 0}
        assert outdated(rig).keys() == set(two), "they still run"
        await serve(rig, "library")
        assert outdated(rig).keys() == {"research"}
        assert (await rig.reloading.reload(dry_run=True)).changed == {}, "its turn will come"

    on_rig(tmp_path, two, do)


def test_a_replacement_under_way_is_left_to_it_and_one_that_failed_is_tried_again(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        await serve(rig, "library")
        (tmp_path / ".env").write_text("ONE=1\n")
        for _ in range(2):
            await rig.reloading.reload(dry_run=False)
            assert [process.generation for process in rig.world.of("library")] == [2, 1]
            await rig.manager.preparation.prepare(WorkerId("library", 2))
            rig.appear("library")
        assert outdated(rig) == {"library": [".env"]}
        rig.end("library", Exit(status=1))
        assert rig.states()["library"] == "ready"
        assert outdated(rig) == {"library": [".env"]}, "it could not be replaced"
        await rig.reloading.reload(dry_run=False)
        await serve(rig, "library")
        rig.end("library")
        assert outdated(rig) == {}

    with environment():
        on_rig(tmp_path, two, do)


def test_variables_follow_the_file_but_never_the_environments_own(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    def write(text: str) -> None:
        (tmp_path / ".env").write_text(text)

    async def do(rig: Rig) -> None:
        async def given() -> dict[str, str]:
            found = (await rig.manager.preparation.prepare(WorkerId("library", 1))).environment
            return {name: value for name, value in found.items() if name.startswith("TEST_")}

        write("TEST_A=1\nTEST_B=1\nTEST_OWN=file\n")
        await rig.reloading.reload(dry_run=True)
        assert await given() == {"TEST_OWN": "own"}
        await rig.reloading.reload(dry_run=False)
        assert await given() == {"TEST_OWN": "own", "TEST_A": "1", "TEST_B": "1"}
        write("TEST_B=2\n")
        await rig.reloading.reload(dry_run=False)
        assert await given() == {"TEST_OWN": "own", "TEST_B": "2"}
        write("TEST_B=3\nTEST_C=\0\n")
        with pytest.raises(ConfigurationError, match="NUL"):
            await rig.reloading.reload(dry_run=False)
        assert await given() == {"TEST_OWN": "own", "TEST_B": "2"}
        (tmp_path / ".env").unlink()
        await rig.reloading.reload(dry_run=False)
        assert await given() == {"TEST_OWN": "own"}

    with environment(TEST_OWN="own"):
        on_rig(tmp_path, two, do)


def test_a_variable_that_only_a_start_reads_is_refused(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        (tmp_path / ".env").write_text("PALLAS_LOG_FILE=elsewhere.log\nTEST_A=1\n")
        with pytest.raises(RefusedError, match=r"PALLAS_LOG_FILE \(\.env\) changed, which needs a restart"):
            await rig.reloading.reload(dry_run=True)
        assert "TEST_A" not in os.environ

    with environment():
        os.environ.pop("PALLAS_LOG_FILE", None)
        on_rig(tmp_path, two, do)


def test_all_that_is_wrong_is_said_in_one_go_and_in_the_log(
    tmp_path: Path, two: dict[str, dict[str, object]], caplog: pytest.LogCaptureFixture
) -> None:
    async def do(rig: Rig) -> None:
        (tmp_path / ".env").write_bytes(b"A=\xff\n")
        (tmp_path / "fastagent.config.yaml").write_text("model_capabilities:\n  vision: perhaps\n")
        rig.write({**two, "jarvis": {"port": two["library"]["port"]}})
        with pytest.raises(ConfigurationError) as caught:
            await rig.reloading.reload(dry_run=False)
        said = [problem.file.rpartition("/")[2] for problem in caught.value.problems]
        assert said == [".env", "agents.yaml", "fastagent.config.yaml"]
        logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert logged[:3] == [str(problem) for problem in caught.value.problems]
        assert rig.manager.drift.document() == {"changed": said, "problems": 3}

    on_rig(tmp_path, two, do)


def test_who_asks_during_a_reload_gets_one_more_and_only_one(
    tmp_path: Path, two: dict[str, dict[str, object]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.write({"library": two["library"]})
        rig.reloading.ask()
        await until(rig, research="stopping")
        rig.write(two)
        for _ in range(20):
            rig.reloading.ask()
        rig.end("research")
        await until(rig, library="ready", research="starting")
        await asyncio.gather(*rig.reloading._answering)
        done = [record.getMessage() for record in caplog.records if "reloaded:" in record.getMessage()]
        assert done == [
            "reloaded: 0 added, 1 removed, 0 changed, 1 unchanged",
            "reloaded: 1 added, 0 removed, 0 changed, 1 unchanged",
        ]

    on_rig(tmp_path, two, do)


def test_a_supervisor_that_stops_meanwhile_keeps_what_it_has(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.write({"library": two["library"], "jarvis": {"port": free_ports(1)[0]}})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await until(rig, research="stopping")
        stopping = asyncio.ensure_future(rig.manager.engine.shut_down())
        await asyncio.sleep(0)
        rig.end("research")
        with pytest.raises(RefusedError, match="is stopping"):
            await reloading
        rig.end("library")
        await stopping
        assert (
            rig.manager.responders.agents
            == set(rig.manager.responders.listeners)
            == set(rig.manager.engine.agents)
            == set(two)
        )

    on_rig(tmp_path, two, do)


def test_a_supervisor_at_its_end_opens_no_port_and_starts_nobody(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    port = free_ports(1)[0]

    async def do(rig: Rig) -> None:
        await rig.manager.engine.shut_down()
        rig.write({**two, "jarvis": {"port": port}})
        with (
            patch(
                "pallas_supervisor.sockets.agent_sockets.open_listeners",
                side_effect=AssertionError("a port was opened"),
            ),
            pytest.raises(RefusedError, match="the supervisor is stopping; start it again"),
        ):
            await rig.reloading.reload(dry_run=False)
        assert (await rig.reloading.reload(dry_run=True)).added == ("jarvis",), "asking is free"
        assert rig.states() == dict.fromkeys(two, "stopped")

    on_rig(tmp_path, two, do)


def test_whoever_shows_the_fleet_hears_of_what_no_state_tells(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        heard: list[str | None] = []
        rig.manager.observers.changed.add(
            lambda: heard.append(rig.manager.drift.deployment.agents["library"].icon)
        )
        rig.write({**two, "library": {**two["library"], "icon": "https://example.com/icon.svg"}})
        await rig.reloading.reload(dry_run=False)
        await asyncio.sleep(0)
        assert heard == ["https://example.com/icon.svg"]

    on_rig(tmp_path, two, do)


def test_files_are_read_beside_the_loop(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    readers: dict[str, set[int]] = {}

    def watched(path: Path, *remedy: str) -> bytes | None:
        readers.setdefault(path.name, set()).add(threading.get_ident())
        return read_file(path, *remedy)

    async def do(rig: Rig) -> None:
        (tmp_path / ".env").write_text("A=1\n")
        (tmp_path / "fastagent.secrets.yaml").write_text("openai: {api_key: in-the-file}\n")
        with ExitStack() as patched:
            for module in ("deployment.location", "source", "configured_secrets", "environment.dotenv"):
                patched.enter_context(patch(f"pallas_registry.{module}.read_file", watched))
            patched.enter_context(patch("pallas_supervisor.reload.fingerprints.read_file", watched))
            await rig.manager.preparation.prepare(WorkerId("library", 1))
            assert readers.keys() >= {".env", "fastagent.secrets.yaml"}
            await rig.manager.drift.look()
            await rig.reloading.reload(dry_run=True)
        assert readers.keys() >= {"agents.yaml", ".env", "fastagent.secrets.yaml"}
        assert threading.get_ident() not in set().union(*readers.values())

    on_rig(tmp_path, two, do)


def test_a_single_agent_stays_alone(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        drift = rig.manager.drift
        drift.source = replace(drift.source, only="library")
        assert set((await drift.read()).deployment.agents) == {"library"}
        rig.write({"research": {"port": two["research"]["port"]}})
        with pytest.raises(ConfigurationError, match="there is no agent 'library' any more"):
            await rig.reloading.reload(dry_run=False)

    on_rig(tmp_path, two, do)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables for a while, and afterwards everything as it was."""
    with patch.dict(os.environ, variables):
        yield
