"""`pallasctl check`, the help and the version."""

from __future__ import annotations

import pytest

from fakes.control_server import run
from pallasctl.main import VERBS
from support.repository import ROOT

QUICKSTART = ROOT / "examples" / "quickstart" / "agents.yaml"


def test_a_good_file() -> None:
    result = run("check", str(QUICKSTART))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{QUICKSTART}: good: deployment quickstart with 3 agents (jarvis, research, engineering)\n"
    )


def test_one_agent_is_one(tmp_path) -> None:
    file = tmp_path / "agents.yaml"
    (tmp_path / "one.py").touch()
    file.write_text("name: demo\nagents:\n  a: {module: one, port: 24201}\n")
    assert run("check", str(file)).stdout == f"{file}: good: deployment demo with 1 agent (a)\n"


def test_all_problems_at_once(tmp_path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(
        "name: demo\nagents:\n  a: {module: agents.a, port: 24201, prot: 1}\n"
        "  b: {module: agents.b, port: 24201, depends_on: [c]}\n"
    )
    result = run("check", str(file))
    assert result.exit_code == 2
    summary, *problems = result.stderr.splitlines()
    assert summary == f"pallasctl: {file}: {len(problems)} problems"
    assert len(problems) == 3
    assert all(problem.startswith(f"  {file}:") for problem in problems)


def test_the_other_files_of_its_folder_are_read_too(tmp_path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text("name: demo\nagents:\n  a: {module: agents.a, port: 0}\n")
    (tmp_path / "fastagent.config.yaml").write_text("model_capabilities:\n  vision: perhaps\n")
    (tmp_path / ".env").write_bytes(b"KEY=\xff\n")
    result = run("check", str(file))
    assert result.exit_code == 2
    assert [line.partition(":")[0].strip() for line in result.stderr.splitlines()[1:]] == [
        str(tmp_path / ".env"),
        str(file),
        str(tmp_path / "fastagent.config.yaml"),
    ]


def test_the_file_of_the_working_directory(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PALLAS_AGENTS_CONFIG", raising=False)
    result = run("check")
    assert result.exit_code == 2
    assert "agents.yaml: there is no such file" in result.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert f"Usage: pallasctl {verb}" in result.stdout


def test_help_lists_the_verbs() -> None:
    listed = [line.split()[0] for line in run("--help").stdout.partition("Commands:")[2].splitlines() if line]
    assert listed == list(VERBS)


def test_version() -> None:
    assert run("--version").stdout.startswith("pallasctl 0.")


def test_unknown_verb() -> None:
    result = run("sttus")
    assert result.exit_code == 2
    assert "sttus" in result.stderr
