"""The verb `init`: what it writes, what it refuses, what it says."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pallas.commands import init as verb
from pallas.server import pallas
from pallas_registry.source import read_configuration
from support.data.projects import MODEL, SHAPES, Shape, agent, application, write

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "My Project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.delenv("FAST_AGENT_MODEL", raising=False)
    monkeypatch.setattr(verb, "is_free", lambda port: True)
    return directory


def run(*arguments: str) -> Result:
    return CliRunner().invoke(pallas, ["init", *arguments])


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_an_empty_folder_gets_a_first_project(here: Path) -> None:
    result = run()
    assert result.exit_code == 0, result.output
    written = [".gitignore", "agents", "agents.yaml", "fastagent.config.yaml"]
    assert sorted(path.name for path in here.iterdir()) == written
    deployment = read_configuration(here, {}).deployment
    assert deployment.name == "my-project"
    assert deployment.agents["assistant"].depends_on == ("dates",)
    port = deployment.agents["dates"].port
    assert f"http://localhost:{port}/mcp" in (here / "fastagent.config.yaml").read_text()
    assert result.output.splitlines()[-1] == "next: pallas check"


def test_a_new_folder_is_made(here: Path) -> None:
    result = run("a/b", "--name", "crew")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == "next: cd a/b && pallas check"
    assert (
        read_configuration(here / "a" / "b", {}, here / "a" / "b" / "agents.yaml").deployment.name == "crew"
    )


def test_files_that_are_there_stay(here: Path) -> None:
    (here / ".gitignore").write_text("mine\n")
    (here / "fast-agent.yaml").write_text("default_model: passthrough\n")
    (here / "agents").mkdir()
    before = contents(here)
    assert run().exit_code == 0
    after = contents(here)
    assert {path: after[path] for path in before} == before
    assert set(read_configuration(here, {}).deployment.agents) == {"dates"}
    assert not (here / "fastagent.config.yaml").exists()


def test_a_file_in_the_way_of_a_first_project(here: Path) -> None:
    (here / "agents").mkdir()
    (here / "agents" / "dates.py").write_text("x = 1\n")
    before = contents(here)
    result = run()
    assert result.exit_code == 2
    assert "agents/dates.py is there already; run it in an empty folder" in result.output
    assert contents(here) == before


@pytest.mark.parametrize("shape", [name for name, shape in SHAPES.items() if shape.entries])
def test_a_project_gets_agents_yaml_and_nothing_else(shape: str, here: Path) -> None:
    write(SHAPES[shape], here)
    before = contents(here)
    result = run()
    assert result.exit_code == 0, result.output
    after = contents(here)
    assert set(after) - set(before) == {str(here / "agents.yaml")}
    assert {path: after[path] for path in before} == before
    for part in SHAPES[shape].mend:
        assert part in result.output
    assert "Traceback" not in result.output


def test_twice_is_refused(here: Path) -> None:
    assert run().exit_code == 0
    before = contents(here)
    result = run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "pallas: agents.yaml is there already, and stays as it is; `pallas check` says whether it is good\n"
    )
    assert contents(here) == before


def test_a_dry_run_prints_the_file_and_writes_nothing(here: Path) -> None:
    write(SHAPES["an orchestrator"], here)
    before = contents(here)
    result = run("--dry-run")
    assert (result.exit_code, contents(here)) == (0, before)
    assert "module: a.py" in result.stdout
    assert result.stderr.startswith("would write agents.yaml\n")
    assert run().exit_code == 0
    assert (here / "agents.yaml").read_text() == result.stdout


def test_agents_that_cannot_be_served_are_no_empty_folder(here: Path) -> None:
    write(SHAPES["a FastAgent that nobody can take"], here)
    before = contents(here)
    result = run()
    assert (result.exit_code, result.stdout, contents(here)) == (2, "", before)
    assert "found no agent that can be served; nothing is written\n  a.py:4: " in result.stderr


def test_projects_below_are_named(here: Path) -> None:
    for name in ("one", "two words"):
        write(SHAPES["a script"], here / name)
    before = contents(here)
    result = run()
    assert (result.exit_code, contents(here)) == (2, before)
    assert "  pallas init one\n  pallas init 'two words'\n" in result.stderr


def test_a_model_in_the_environment_or_in_dotenv_is_enough(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Shape({**dict.fromkeys(MODEL, ""), "a.py": application() + agent()}, {}), here)
    missing = (
        "no model is set for scout; add `default_model: …` to fastagent.config.yaml, or FAST_AGENT_MODEL="
    )
    assert missing in run("--dry-run").output
    (here / ".env").write_text("FAST_AGENT_MODEL=passthrough\n")
    assert missing not in run("--dry-run").output
    (here / ".env").unlink()
    monkeypatch.setenv("FAST_AGENT_MODEL", "passthrough")
    assert missing not in run("--dry-run").output


@pytest.mark.parametrize("name", ["", "a b", "x" * 101, "a\nb", "ä"])
def test_a_name_that_cannot_be_one(name: str, here: Path) -> None:
    result = run("--name", name)
    assert (result.exit_code, list(here.iterdir())) == (2, [])
    assert "use letters, digits, `.` and `-`" in result.stderr


def test_a_file_is_no_folder(here: Path) -> None:
    (here / "x").touch()
    result = run("x")
    assert (result.exit_code, result.stderr) == (
        2,
        "pallas: x is not a folder; name one, or run it in the project's own\n",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="not run: root may write everywhere")
def test_a_folder_that_may_not_be_written(here: Path) -> None:
    here.chmod(0o500)
    try:
        result = run()
    finally:
        here.chmod(0o700)
    assert result.exit_code == 1
    assert "Permission denied; nothing is written" in result.stderr


def test_a_folder_that_cannot_be_written(here: Path) -> None:
    del here
    result = run("/proc/nothing")
    assert result.exit_code == 1
    assert re.fullmatch(
        r"pallas: /proc/nothing.*: cannot be written: .*; nothing is written\n", result.stderr
    )


def test_a_working_directory_that_is_gone(here: Path) -> None:
    here.rmdir()
    result = run()
    assert result.exit_code == 2
    assert "the working directory no longer exists" in result.stderr


def test_what_code_says_is_no_terminal_sequence(here: Path) -> None:
    agents = "fast.agent('\\x1b[31mred', default=True)(x)\nfast.agent('b')(x)\n"
    bad = f"from fast_agent import FastAgent\nfast = FastAgent('x')\n{agents}"
    (here / "a.py").write_text(bad)
    result = run()
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "\x1b" not in (here / "agents.yaml").read_text()


def test_whether_a_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not verb.is_free(port)
    assert verb.is_free(port)
    assert not verb.is_free(70_000)
