"""`pallasctl apply`: what is sent, what is said of it, and what it means for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from pallasctl.main import pallasctl

if TYPE_CHECKING:
    from fakes.control_server import FakeControl

DONE: dict[str, Any] = {
    "results": [
        {"resource": "agent/deployer", "outcome": "created", "file": "a.yaml", "problems": []},
        {"resource": "llm/qwen3", "outcome": "unchanged", "file": "a.yaml", "problems": []},
        {"resource": "llm/old", "outcome": "pruned", "file": None, "problems": []},
    ],
    "problems": [],
}
PROBLEM = "b.yaml:7: spec.llm: there is no llm 'qwen'; did you mean 'qwen3'?"
REFUSED: dict[str, Any] = {
    "results": [
        {"resource": "agent/deployer", "outcome": "configured", "file": "a.yaml", "problems": []},
        {"resource": "agent/other", "outcome": "refused", "file": "b.yaml", "problems": [PROBLEM]},
    ],
    "problems": [PROBLEM],
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("kind: agent\n")
    Path("b.yaml").write_text("kind: other\n")


def test_a_line_for_each_resource(fake: FakeControl) -> None:
    fake.answer("/v1/resources", DONE)
    result = fake.run("apply", "-f", "a.yaml", "-f", "b.yaml")
    assert result.exit_code == 0
    assert result.output == "agent/deployer created\nllm/qwen3 unchanged\nllm/old pruned\n"
    files = [{"file": "a.yaml", "text": "kind: agent\n"}, {"file": "b.yaml", "text": "kind: other\n"}]
    assert fake.requests == [("POST", "/v1/resources", {"files": files, "dry_run": False, "prune": False})]


def test_a_dry_run_says_so(fake: FakeControl) -> None:
    fake.answer("/v1/resources", DONE)
    result = fake.run("apply", "-f", "a.yaml", "--dry-run")
    assert result.output.splitlines()[0] == "agent/deployer created (dry run)"
    assert fake.requests[0][2]["dry_run"] is True


def test_what_is_refused(fake: FakeControl) -> None:
    fake.answer("/v1/resources", REFUSED)
    result = fake.run("apply", "-f", ".")
    assert result.exit_code == 1
    assert result.stdout == "agent/deployer configured\n"
    assert result.stderr == f"pallasctl: nothing of b.yaml is applied: 1 problem\n  {PROBLEM}\n"


def test_a_file_in_which_nothing_can_be_read(fake: FakeControl) -> None:
    problem = "a.yaml:1: kind: 'other' is not a known value"
    fake.answer("/v1/resources", {"results": [], "problems": [problem]})
    assert (
        fake.run("apply", "-f", "a.yaml").stderr == f"pallasctl: nothing is applied: 1 problem\n  {problem}\n"
    )


def test_what_is_wrong_in_a_file_is_said_and_not_what_is_right(fake: FakeControl) -> None:
    beside = "b.yaml:1: is left out with the rest of its file; mend what is wrong there, and apply it again"
    right = REFUSED["results"][1] | {"resource": "llm/right", "problems": [beside]}
    fake.answer("/v1/resources", REFUSED | {"results": [REFUSED["results"][1], right]})
    said = fake.run("apply", "-f", "b.yaml").stderr
    assert said == f"pallasctl: nothing of b.yaml is applied: 1 problem\n  {PROBLEM}\n"


def test_for_scripts(fake: FakeControl) -> None:
    fake.answer("/v1/resources", REFUSED)
    result = fake.run("apply", "-f", "a.yaml", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout), result.stderr) == (1, REFUSED, "")


def test_stdin(fake: FakeControl) -> None:
    fake.answer("/v1/resources", DONE)
    arguments = ["--socket", str(fake.socket), "apply", "-f", "-"]
    assert CliRunner().invoke(pallasctl, arguments, input="kind: llm\n").exit_code == 0
    assert fake.requests[0][2]["files"] == [{"file": "<stdin>", "text": "kind: llm\n"}]


def test_pruning_looks_first_whether_anything_would_be_left(fake: FakeControl) -> None:
    fake.answer("/v1/resources", {"results": [DONE["results"][2]], "problems": []})
    result = fake.run("apply", "-f", "a.yaml", "--prune")
    assert result.exit_code == 1
    assert "--prune would delete all; `pallasctl delete` does that" in result.stderr
    assert [body["dry_run"] for _, _, body in fake.requests] == [True]
    fake.answer("/v1/resources", DONE)
    assert fake.run("apply", "-f", "a.yaml", "--prune").exit_code == 0
    assert [(body["dry_run"], body["prune"]) for _, _, body in fake.requests[1:]] == [
        (True, True),
        (False, True),
    ]


def test_files_without_a_resource(fake: FakeControl) -> None:
    fake.answer("/v1/resources", {"results": [], "problems": []})
    result = fake.run("apply", "-f", "a.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("pallasctl: there is no resource in these files")


def test_what_others_wrote_is_escaped(fake: FakeControl) -> None:
    result = {"resource": "agent/\x1b[2J", "outcome": "created", "file": "a\u202e", "problems": []}
    bad = result | {"outcome": "refused", "problems": ["x\x07"]}
    fake.answer("/v1/resources", {"results": [result, bad], "problems": []})
    said = fake.run("apply", "-f", "a.yaml").output
    assert said == "agent/\\x1b[2J created\npallasctl: nothing of a\\u202e is applied: 1 problem\n  x\\x07\n"


def test_without_files() -> None:
    result = CliRunner().invoke(pallasctl, ["apply"])
    assert result.exit_code == 2
    assert "Missing option '-f' / '--filename'" in result.stderr
