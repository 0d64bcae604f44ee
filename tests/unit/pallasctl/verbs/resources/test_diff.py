"""`pallasctl diff`: what would change, secrets by their digests alone, and exit statuses as diff(1) has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from fakes.control_server import FakeControl

AGENT = "apiVersion: pallas/v1\nkind: agent\nmetadata: {name: deployer}\nspec: {description: new, llm: {name: qwen3}}\n"
OLD = "hmac-sha256:00112233445566778899aabbccddeeff"
SECRET = f"""\
apiVersion: pallas/v1
kind: secret
metadata: {{name: key}}
spec:
  data:
    SAME: the same
    KEPT: {{digest: "{OLD}"}}
    OTHER: another-value
    ADDED: a new one
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(AGENT)
    Path("s.yaml").write_text(SECRET)


def planned(fake: FakeControl, resource: str, outcome: str, *problems: str) -> None:
    result = {"resource": resource, "outcome": outcome, "problems": list(problems)}
    fake.answer("/v1/resources", {"results": [result], "problems": []})


def test_what_would_be_new(fake: FakeControl) -> None:
    planned(fake, "agent/deployer", "created")
    result = fake.run("diff", "-f", "a.yaml")
    assert result.exit_code == 1
    assert result.stdout == (
        "--- agent/deployer (now)\n+++ agent/deployer (a.yaml)\n@@ -0,0 +1,7 @@\n+apiVersion: pallas/v1\n+kind: agent\n"
        "+metadata:\n+  name: deployer\n+spec:\n+  description: new\n+  llm: qwen3\n"
    )
    assert fake.requests[0][2]["dry_run"] is True


def test_what_would_change(fake: FakeControl) -> None:
    planned(fake, "agent/deployer", "configured")
    fake.answer("/v1/resources/agent/deployer", {"spec": {"description": "old\x1b[2J", "llm": "qwen3"}})
    lines = fake.run("diff", "-f", "a.yaml").stdout.splitlines()
    assert [line for line in lines if line[0] in "+-"] == [
        "--- agent/deployer (now)",
        "+++ agent/deployer (a.yaml)",
        '-  description: "old\\e[2J"',
        "+  description: new",
    ]


def test_nothing_would_change(fake: FakeControl) -> None:
    planned(fake, "agent/deployer", "unchanged")
    result = fake.run("diff", "-f", "a.yaml")
    assert (result.exit_code, result.output) == (0, "")


def test_secrets_are_shown_by_digests(fake: FakeControl) -> None:
    spec = {"data": {name: {"digest": OLD} for name in ("GONE", "KEPT", "OTHER", "SAME")}}
    fake.answer("/v1/resources/secret/key", {"spec": spec})

    def plan(body: dict[str, Any]) -> dict[str, Any]:
        data = yaml.safe_load(body["files"][0]["text"])["spec"]["data"]
        there = {"GONE", "KEPT", "OTHER", "SAME"} == set(data)
        same = there and all(value in ("the same", {"digest": OLD}) for value in data.values())
        outcome = "unchanged" if same else "configured"
        assert body["dry_run"] is True
        return {"results": [{"resource": "secret/key", "outcome": outcome}], "problems": []}

    fake.answer("/v1/resources", plan)
    result = fake.run("diff", "-f", "s.yaml")
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if line.startswith(("+  ", "-  "))] == [
        "-    GONE:",
        "-      digest: " + OLD,
        "+    ADDED:",
        "+      digest: (another value)",
        "-      digest: " + OLD,
        "+      digest: (another value)",
    ]
    assert "another-value" not in result.output
    assert "a new one" not in result.output


def test_files_that_would_be_refused(fake: FakeControl) -> None:
    planned(fake, "agent/deployer", "refused", "a.yaml:4: spec.llm: there is no llm 'qwen3'")
    result = fake.run("diff", "-f", "a.yaml")
    assert result.exit_code == 2
    assert result.stderr == (
        "pallasctl: an apply would refuse these files\n  a.yaml:4: spec.llm: there is no llm 'qwen3'\n"
    )


def test_no_supervisor_is_an_error_and_no_difference(fake: FakeControl) -> None:
    fake.answer("/v1/resources", {"error": "one agent runs alone here"}, 409)
    result = fake.run("diff", "-f", "a.yaml")
    assert (result.exit_code, result.stderr) == (2, "pallasctl: one agent runs alone here\n")
