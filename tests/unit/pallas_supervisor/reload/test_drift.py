"""What a worker was started with, and what the files say differently by now; real files, no process."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.fastagent_files.paths import FILES
from pallas_supervisor.reload.drift import Drift
from pallas_supervisor.reload.fingerprints import Fingerprints
from pallas_supervisor.reload.plan import plan_reload
from pallas_supervisor.reload.source import Source
from support.supervisor.rig import write_deployment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENTS = {"library": {"port": 25001}, "research": {"port": 25002}}


# --- fingerprints ---------------------------------------------------------------------------------------


def test_what_is_written_anew_is_the_same(tmp_path: Path) -> None:
    prints, path = Fingerprints(), tmp_path / ".env"
    path.write_text("A=1\n")
    first = prints.of(path)
    other = tmp_path / "other"
    other.write_text("A=1\n")
    other.replace(path)
    assert prints.of(path) == first
    path.write_text("A=2\n")
    assert prints.of(path) != first


def test_a_change_of_the_same_size_in_the_same_moment_is_seen(tmp_path: Path) -> None:
    prints, path = Fingerprints(), tmp_path / ".env"
    path.write_text("A=1\n")
    with patch("pathlib.Path.stat", return_value=path.stat()):  # as a clock that ticks slowly tells it
        first = prints.of(path)
        path.write_text("A=2\n")
        assert prints.of(path) != first


def test_a_file_at_rest_is_not_read_again(tmp_path: Path) -> None:
    prints, path = Fingerprints(), tmp_path / "fastagent.config.yaml"
    path.write_text("a: 1\n")
    with patch("pallas_supervisor.reload.fingerprints.SETTLED", -1.0):
        first = prints.of(path)
    with patch("pathlib.Path.open", side_effect=AssertionError("was read")):
        assert prints.of(path) == first
    path.write_text("a: 22\n")  # of another size: clocks of file systems may tick slowly
    assert prints.of(path) != first


def test_comments_and_layout_of_yaml_do_not_count_but_quotes_do(tmp_path: Path) -> None:
    prints, path = Fingerprints(), tmp_path / "fastagent.config.yaml"

    def of(text: str) -> bytes | None:
        path.write_text(text)
        return prints.of(path)

    assert of("a: {b: 1, c: [x]}\n") == of("# said otherwise\na:\n  b: 1\n\n  c:\n  - x\n")
    assert of("a: 1\n") != of('a: "1"\n')
    assert of("a: 1\nb: 2\n") != of("b: 2\na: 1\n")
    assert of("a: [1\n") != of("a: [2\n"), "what is no YAML counts as it is"
    assert of("a: &x 1\n") != of("a: &y 1\n")


def test_what_is_no_file_has_none_and_nothing_waits_for_it(tmp_path: Path) -> None:
    prints = Fingerprints()
    assert prints.of(tmp_path / "absent") is None
    (tmp_path / ".env").mkdir()
    assert prints.of(tmp_path / ".env") is None
    os.mkfifo(tmp_path / "pipe")
    assert prints.of(tmp_path / "pipe") is None


def test_a_digest_tells_nothing_about_the_content(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    assert Fingerprints().of(tmp_path / ".env") != Fingerprints().of(tmp_path / ".env")


# --- drift ----------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Drift]:
    with patch.dict(os.environ):
        for name in ("PALLAS_LOG_LEVEL", "PALLAS_ROOT_LOG_LEVEL", "FAST_AGENT_HOME"):
            os.environ.pop(name, None)
        source = Source(path=write_deployment(tmp_path, AGENTS), directory=tmp_path)
        yield Drift(source, source.read(os.environ))


def look(drift: Drift) -> None:
    asyncio.run(drift.look())


def both(drift: Drift) -> list[tuple[str, ...]]:
    look(drift)
    return [drift.stale_files(name, 1) for name in AGENTS]


def start(drift: Drift, generation: int = 1) -> None:
    for name in drift.taken.deployment.agents:
        drift.record(name, generation, drift.fingerprints(name), serving=1)


@pytest.mark.parametrize("folder", ["", ".fast-agent/"])
@pytest.mark.parametrize("name", FILES)
def test_whatever_fast_agent_reads_counts(made: Drift, tmp_path: Path, folder: str, name: str) -> None:
    start(made)
    assert both(made) == [(), ()]
    path = tmp_path / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("openai: {base_url: http://127.0.0.1:1}\n")
    assert both(made) == [(folder + name,)] * 2
    path.unlink()
    assert both(made) == [(), ()]


def test_a_home_of_the_agents_own(made: Drift, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    agents: dict[str, dict[str, Any]] = {
        **AGENTS,
        "library": {**AGENTS["library"], "env": {"FAST_AGENT_HOME": str(home)}},
    }
    write_deployment(tmp_path, agents)
    made.taken = made.source.read(os.environ)
    start(made)
    (home / "fast-agent.yaml").write_text("a: 1\n")
    assert both(made) == [("home/fast-agent.yaml",), ()]


def test_a_home_that_nobody_has_is_only_one_without_files(made: Drift) -> None:
    with patch.dict(os.environ, {"FAST_AGENT_HOME": "~nobody_of_this_name/home"}):
        start(made)
    assert both(made) == [(), ()]


def test_only_what_needs_a_new_process_makes_one_older(made: Drift, tmp_path: Path) -> None:
    start(made)
    write_deployment(tmp_path, {**AGENTS, "library": {**AGENTS["library"], "stop_timeout": 5}})
    assert both(made) == [(), ()]
    assert made.document() == {"changed": ["agents.yaml"], "problems": 0}
    write_deployment(tmp_path, {**AGENTS, "library": {**AGENTS["library"], "title": "Books"}})
    assert both(made) == [("agents.yaml",), ()]
    write_deployment(tmp_path, {"research": AGENTS["research"]}, version="2.0.0")
    assert both(made) == [("agents.yaml",), ("agents.yaml",)]


@pytest.mark.parametrize(
    ("name", "text"), [(".env", "A=1\n"), ("fastagent.config.yaml", "default_model: passthrough\n")]
)
def test_a_worker_started_between_a_change_and_the_reload_is_older(
    made: Drift, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    start(made)
    assert both(made) == [(name,)] * 2, "the supervisor has not read it yet"
    made.taken = asyncio.run(made.read())
    start(made, 2)
    look(made)
    assert made.stale_files("library", 2) == ()
    assert made.stale_files("library", 1) == (name,)


def test_a_variable_that_the_configuration_names_is_the_variables_file(made: Drift, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MODEL=passthrough\n")
    (tmp_path / "fastagent.config.yaml").write_text("default_model: ${MODEL}\n")
    made.taken = asyncio.run(made.read())
    start(made)
    (tmp_path / ".env").write_text("MODEL=silent\n")
    assert both(made) == [(".env",)] * 2


def test_files_that_cannot_be_used_leave_what_is_known(made: Drift, tmp_path: Path) -> None:
    start(made)
    (tmp_path / "fastagent.secrets.yaml").write_text("a: 1\n")
    write_deployment(tmp_path, {"library": {"port": 25001, "colour": "red"}}, nonsense=1)
    assert both(made) == [("fastagent.secrets.yaml",)] * 2
    assert made.document() == {"changed": ["agents.yaml"], "problems": 2}
    with pytest.raises(ConfigurationError):
        asyncio.run(made.read())
    write_deployment(tmp_path, AGENTS)
    look(made)
    assert made.document() == {"changed": [], "problems": 0}


def test_a_name_that_is_no_text_can_be_told_to_everybody(made: Drift, tmp_path: Path) -> None:
    path = tmp_path / "a\udcff\x1b.yaml"
    (tmp_path / "agents.yaml").rename(path)
    made.source = Source(path=path, directory=tmp_path)
    made.taken = made.source.read(os.environ)
    start(made)
    path.write_text(f"{path.read_text()}max_surge: 2\n")
    look(made)
    assert made.document() == {"changed": [r"a\udcff\x1b.yaml"], "problems": 0}
    changed = path.read_text().replace("title: ", "title: New ")
    path.write_text(changed)
    assert both(made) == [(r"a\udcff\x1b.yaml",)] * 2
    newest = made.source.read(os.environ)
    plan = plan_reload(made.taken.deployment, newest.deployment, {"library": (r"a\udcff\x1b.yaml",)})
    assert plan.changed["library"].fields == ("max_surge", "title"), "said more precisely already"
    path.write_text("no deployment")
    look(made)
    assert made.document() == {"changed": [r"a\udcff\x1b.yaml"], "problems": 1}


def test_a_look_reads_only_what_has_changed(made: Drift, tmp_path: Path) -> None:
    start(made)
    look(made)
    with patch.object(Source, "read", side_effect=AssertionError("was read")):
        look(made)
    write_deployment(tmp_path, AGENTS, version="2.0.0")
    look(made)
    assert made.document()["changed"] == ["agents.yaml"]


def test_what_cannot_be_read_for_the_moment_is_tried_again(made: Drift, tmp_path: Path) -> None:
    (tmp_path / "fastagent.config.yaml").write_text("logger: {type: none}\n")
    (tmp_path / ".env").write_text("# nothing\n")
    start(made)
    with (
        patch("pallas_supervisor.reload.fingerprints.SETTLED", -1.0),
        patch("os.open", side_effect=OSError(24, "Too many open files")),
    ):
        look(made)
        assert made.document()["problems"] == 3
    look(made)
    assert made.document() == {"changed": [], "problems": 0}
    assert both(made) == [(), ()]
    write_deployment(tmp_path, AGENTS, version="2.0.0")
    problem = Problem("agents.yaml", None, "", "cannot be read: too many open files", "wait")
    with patch.object(Source, "read", side_effect=ConfigurationError([problem])):
        look(made)
        assert made.document()["problems"] == 1
    look(made)
    assert made.document() == {"changed": ["agents.yaml"], "problems": 0}


def test_what_has_left_is_forgotten(made: Drift) -> None:
    for generation in range(1, 50):
        start(made, generation)
    assert {len(origins) for origins in made._origins.values()} == {2}, "the one that serves, and the newest"
    for name in AGENTS:
        made.agent_removed(name)
    assert made._origins == {}


def test_no_text_of_it_holds_a_secret(made: Drift, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=opensesame\n")
    made.taken = asyncio.run(made.read())
    start(made)
    assert made.taken.dotenv == {"KEY": "opensesame"}
    assert "opensesame" not in f"{made.taken} {made._origins} {replace(made.taken)!r}"


def test_a_reload_learns_where_values_stand_now(made: Drift) -> None:
    before = made.taken
    path = made.source.path
    path.write_text(f"# one line more\n{path.read_text()}")
    look(made)
    assert made.document()["changed"] == []
    newest = asyncio.run(made.read())
    assert newest == before
    line = before.deployment.agents["library"].line
    assert line is not None
    assert newest.deployment.agents["library"].line == line + 1
