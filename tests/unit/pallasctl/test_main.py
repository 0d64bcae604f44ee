"""What holds for every verb: help, version, wrong verbs, and errors that the supervisor answers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from fakes.control_server import FakeControl, run
from pallas.server import VERBS as PALLAS_VERBS
from pallasctl.main import _OF_PALLAS, VERBS, pallasctl

if TYPE_CHECKING:
    from pathlib import Path


def test_an_error_without_words(fake: FakeControl) -> None:
    fake.answer("/v1/stop", {}, 500)
    assert fake.run("stop", "x").stderr == "pallasctl: the supervisor answered with HTTP status 500\n"


def test_what_answers_is_not_pallas(fake: FakeControl) -> None:
    fake.answer("/v1/stop", b"<html>", 502)
    result = fake.run("stop", "x")
    assert result.exit_code == 1
    assert "is not pallas (HTTP status 502, no JSON object): check --socket" in result.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("statsu", "there is no verb 'statsu'; did you mean 'status'?"),
        ("frobnicate", "there is no verb 'frobnicate'; the verbs are: status, "),
        ("st\u202eart", r"there is no verb 'st\u202eart'; did you mean 'start'?"),
    ],
)
def test_a_verb_that_is_none(fake: FakeControl, typed: str, said: str) -> None:
    result = fake.run(typed)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_error_cannot_write_on_the_terminal(fake: FakeControl) -> None:
    fake.answer("/v1/start", {"error": "no\x1b[2J\u202e", "problems": ["a\x07\tb\nc"]}, 409)
    result = fake.run("start", "a")
    assert result.stderr == "pallasctl: no\\x1b[2J\\u202e\n  a\\x07\tb\nc\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
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


def test_the_verbs_of_pallas_are_known_to_who_looks_for_them_here() -> None:
    assert set(_OF_PALLAS) == {*PALLAS_VERBS} - {*VERBS}
    [line] = [line for line in CliRunner().invoke(pallasctl, ["up"]).stderr.splitlines() if "Error" in line]
    assert line == "Error: there is no verb 'up'; did you mean `pallas up`?"


@pytest.mark.parametrize("verb", ["apply", "get", "edit", "delete", "diff", "create", "chat"])
def test_a_verb_loads_nothing_that_takes_long(verb: str) -> None:
    code = f"import sys, pallas_control.locate, pallas_control.client, {VERBS[verb]}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    slow = {
        "yaml",
        "starlette",
        "asyncio",
        "pallas_registry.resources.documents",
        "pallas_registry.deployment.agents_file",
    }
    assert not slow & set(loaded)


def test_finding_the_supervisor_reads_no_more_of_agents_yaml_than_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents.yaml").write_text("name: demo\n")
    monkeypatch.setenv("PALLAS_RUNTIME_DIR", "")
    code = (
        "import sys, contextlib\n"
        "from pallas_control.errors import ControlError\n"
        "from pallas_control.locate import control_socket_path\n"
        "with contextlib.suppress(ControlError):\n"
        "    control_socket_path(None)\n"
        "print(*sys.modules)\n"
    )
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert "pallas_registry.deployment.location" in done.stdout.split()
    assert not {"pallas_registry.deployment.agents_file", "asyncio"} & set(done.stdout.split())
