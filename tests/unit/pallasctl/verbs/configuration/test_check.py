"""`pallasctl check`: what it says of good files and of wrong ones, and how it prints what a check has found."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from fakes.control_server import run
from pallas_check.findings import CheckedAgent, CheckReport, Finding
from pallas_common.problems import Problem
from pallas_common.protocol.inspection import InspectedProvider, InspectedServer, Inspection
from support.repository import ROOT

if TYPE_CHECKING:
    import pytest
    from click.testing import Result

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


FILES = Path("agents.yaml")
INSPECTION = Inspection(
    served="planner",
    agents=("planner", "coder"),
    model="openai.gpt-5",
    models=("openai.gpt-5",),
    servers=(
        InspectedServer(
            name="web", transport="http", address="http://x", up=True, latency=0.0124, trouble=None
        ),
        InspectedServer(
            name="db\x1b[2J", transport="stdio", address="db", up=False, latency=0.0, trouble="is down"
        ),
    ),
    providers=(InspectedProvider(name="openai", up=True, latency=0.21, trouble=None, counts=True),),
    failure=None,
    warnings=(),
)
AGENTS = (
    CheckedAgent(name="one", result="warning", seconds=1.23456, inspection=INSPECTION),
    CheckedAgent(name="two", result="error", seconds=0.1, inspection=None),
)
WARNING = Finding(
    problem=Problem("agents.yaml", 3, "agents.one", "web is slow", ""), level="warning", agent="one"
)
BROKEN = Finding(
    problem=Problem("agents/two.py", 7, "agents.two", "ValueError", ""), agent="two", output="a\x1b\nb"
)
TAKEN = Finding(problem=Problem("agents.yaml", 4, "agents.two.port", "is taken", "free it"), cause="machine")


def printed(*findings: Finding, arguments: tuple[str, ...] = ()) -> Result:
    """What is printed of a report."""

    async def check(*_: Any, **__: Any) -> CheckReport:
        return CheckReport(
            path=FILES, deployment="demo", names=("one", "two"), agents=AGENTS, findings=findings
        )

    with patch("pallas_check.check.check", check):
        return run("check", *arguments)


def test_the_table_the_warnings_and_then_the_problems() -> None:
    result = printed(WARNING, BROKEN, TAKEN)
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        r"AGENT  RESULT   MODEL                         SERVERS                    MADE OF",
        r"one    warning  openai.gpt-5 (openai 210 ms)  web 12 ms, db\x1b[2J down  planner (coder)",
        r"two    error    -                             -                          -",
    ]
    assert result.stderr.splitlines() == [
        "pallasctl: warning: agents.yaml:3: agents.one: web is slow",
        "pallasctl: agents.yaml: 2 problems",
        "  agents/two.py:7: agents.two: ValueError",
        "    it printed:",
        r"    | a\x1b",
        "    | b",
        "  agents.yaml:4: agents.two.port: is taken; free it",
    ]


def test_warnings_alone_are_good() -> None:
    result = printed(WARNING)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "agents.yaml: good: deployment demo with 2 agents (one, two)"


def test_what_is_in_the_way_is_another_status_than_what_is_wrong() -> None:
    assert printed(TAKEN).exit_code == 1
    assert printed(TAKEN, arguments=("-o", "json")).exit_code == 1
    assert printed(TAKEN, BROKEN, arguments=("-o", "json")).exit_code == 2


def test_as_json_nothing_else_is_printed() -> None:
    result = printed(WARNING, BROKEN, TAKEN, arguments=("-o", "json", "--online"))
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert (document["mode"], document["result"], document["errors"], document["warnings"]) == (
        *("online", "error"),
        *(2, 1),
    )
    one, two = document["agents"]
    assert (one["agents"], one["seconds"], one["servers"][0]["latency"]) == (
        ["planner", "coder"],
        1.235,
        0.0124,
    )
    assert (two["served"], two["servers"]) == (None, [])
    assert [finding["text"] for finding in document["findings"]][
        1
    ] == "agents/two.py:7: agents.two: ValueError"
    assert printed(arguments=("-o", "json")).exit_code == 0


def test_files_that_are_wrong_are_a_document_too(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text("name: demo\nagents:\n  a: {module: one, port: 0}\n")
    result = run("check", "-o", "json", str(file))
    assert (result.exit_code, result.stderr) == (2, "")
    document = json.loads(result.stdout)
    assert (document["deployment"], document["agents"]) == (None, [])
    [finding] = document["findings"]
    assert (finding["line"], finding["field"]) == (3, "agents.a.port")


def test_ctrl_c_is_an_exit_status() -> None:
    async def check(*_: Any, **__: Any) -> CheckReport:
        raise KeyboardInterrupt

    with patch("pallas_check.check.check", check):
        result = run("check")
    assert (result.exit_code, result.stderr) == (130, "")


def test_not_both_modes() -> None:
    result = run("check", "--offline", "--online")
    assert result.exit_code == 2
    assert "give --offline or --online, not both" in result.stderr


def test_a_file_without_agents(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text("name: demo\n")
    result = run("check", "--offline", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{file}: good: deployment demo without agents yet: describe some below `agents:`, or declare them with "
        "`pallasctl apply`\n"
    )


def test_the_gateway_is_named_with_its_address(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    (tmp_path / "one.py").touch()
    head = "name: demo\ngateway: {port: 24198}\n"
    file.write_text(f"{head}agents:\n  a: {{module: one, port: 24201}}\n")
    url = "http://localhost:24198/mcp"
    assert run("check", "--offline", str(file)).stdout == (
        f"{file}: good: deployment demo with 1 agent (a) and a gateway at {url}\n"
    )
    assert json.loads(run("check", "--offline", "-o", "json", str(file)).stdout)["gateway"] == url
    file.write_text(head)
    said = run("check", "--offline", str(file)).stdout
    assert said.startswith(f"{file}: good: deployment demo with a gateway at {url}, without agents yet: ")


def test_resources_that_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "one.py").touch()
    file = tmp_path / "agents.yaml"
    file.write_text("name: demo\nagents:\n  a: {module: one, port: 24201}\n")
    folder = tmp_path / "state" / "resources" / "agent"
    folder.mkdir(parents=True)
    head = "apiVersion: pallas/v1\nkind: agent\n"
    (folder / "b.yaml").write_text(f"{head}metadata: {{name: b}}\nspec: {{llm: nobody}}\n")
    result = run("check", "--offline", str(file))
    assert result.exit_code == 0
    assert f"{folder / 'b.yaml'}:4: spec.llm: there is no llm 'nobody'; apply it as well" in result.stderr
    assert "with 1 agent (a)" in result.stdout
    (folder / "a.yaml").write_text(f"{head}metadata: {{name: a}}\nspec: {{}}\n")
    result = run("check", "--offline", str(file))
    assert result.exit_code == 2
    assert f"{folder / 'a.yaml'}:3: metadata.name: there is an agent a in {file}:3 as well" in result.stderr


def test_many_agents_are_counted(tmp_path: Path) -> None:
    (tmp_path / "one.py").touch()
    file = tmp_path / "agents.yaml"
    entries = (f"  a{n}: {{module: one, port: {24201 + n}}}\n" for n in range(22))
    file.write_text(f"name: demo\nagents:\n{''.join(entries)}")
    assert run("check", "--offline", str(file)).stdout.endswith("a19, and 2 more)\n")


def test_agents_that_are_alike_are_counted() -> None:
    one = CheckedAgent(name="one", result="ok", seconds=0.1, inspection=INSPECTION, alike=("two", "three"))
    report = CheckReport(path=FILES, deployment="demo", names=("one", "two", "three"), agents=(one,))

    async def check(*_: Any, agents: tuple[str, ...], **__: Any) -> CheckReport:
        assert agents == ("one", "two")
        return report

    with patch("pallas_check.check.check", check):
        shown = run("check", "--agent", "one", "--agent", "two").stdout.splitlines()
        document = json.loads(run("check", "--agent", "one", "--agent", "two", "-o", "json").stdout)
    assert shown[1].startswith("one (+2 alike)  ok ")
    assert (
        shown[2] == "tried 1 of 3 agents: of declared ones with the same model, servers and interpreter, one"
    )
    report = dataclasses.replace(report, agents=(dataclasses.replace(one, alike=()),))
    with patch("pallas_check.check.check", check):
        assert (
            run("check", "--agent", "one", "--agent", "two").stdout.splitlines()[2] == "tried 1 of 3 agents"
        )
    assert (document["agents"][0]["alike"], document["not_tried"]) == (["two", "three"], [])


def test_offline_no_agent_is_tried() -> None:
    result = run("check", "--offline", "--agent", "one")
    assert result.exit_code == 2
    assert "give --offline or --agent, not both" in result.stderr


def test_an_agent_that_is_not_there() -> None:
    result = run("check", "--agent", "jarvs", str(QUICKSTART))
    assert result.exit_code == 2
    assert "there is no agent 'jarvs'; did you mean 'jarvis'?" in result.stderr
