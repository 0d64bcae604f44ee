"""`pallasctl check`: what it says of good files and of wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakes.control_server import run
from support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

QUICKSTART = ROOT / "examples" / "quickstart" / "agents.yaml"


def test_a_good_file() -> None:
    result = run("check", "--offline", str(QUICKSTART))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{QUICKSTART}: good: deployment quickstart with 3 agents (jarvis, research, engineering)\n"
    )


def test_one_agent_is_one(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    (tmp_path / "one.py").touch()
    file.write_text("name: demo\nagents:\n  a: {module: one, port: 24201}\n")
    assert run("check", "--offline", str(file)).stdout == f"{file}: good: deployment demo with 1 agent (a)\n"


def test_all_problems_at_once(tmp_path: Path) -> None:
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


def test_the_other_files_of_its_folder_are_read_too(tmp_path: Path) -> None:
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


def test_the_file_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PALLAS_AGENTS_CONFIG", raising=False)
    result = run("check")
    assert result.exit_code == 2
    assert "agents.yaml: there is no such file" in result.stderr
