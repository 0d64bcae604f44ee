"""Agents declared from the command line of a real deployment: asked, told back, changed, deleted."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from fakes.downstream import run_downstream
from fakes.llm_stub import LlmStub, run_llm_stub
from support.data.resource_texts import SAMPLE
from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "sk-the-token-of-this-test"
MODEL = "qwen3-thinking"

WIRING = """\
set -e
pallasctl create secret litellm-key --data "API_KEY=${LITELLM_TOKEN}"
pallasctl create llm qwen3-thinking \\
  --type openai --model qwen3-thinking \\
  --url "$LITELLM_URL" \\
  --api-key-ref litellm-key/API_KEY \\
  --description "Qwen3-30B-A3B-Thinking-FP8 via in-cluster vLLM behind LiteLLM"
pallasctl create agent reviewer \\
  --llm qwen3-thinking \\
  --description "I review what you're shipping; ask after each major change." \\
  --default-temperature 0.2 --default-max-tokens 4096
"""


@pytest.fixture(scope="module")
def llm() -> Iterator[LlmStub]:
    with run_llm_stub(models=[MODEL]) as stub:
        yield stub


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, llm: LlmStub) -> Iterator[Fleet]:
    """A deployment without agents in which somebody has declared one as the documents say."""
    with Fleet(make_deployment(tmp_path_factory.mktemp("declaring") / "deployment")) as running:
        running.wait(until="settled")
        said = shell(running, WIRING, LITELLM_TOKEN=TOKEN, LITELLM_URL=llm.openai_url)
        assert said == "secret/litellm-key created\nllm/qwen3-thinking created\nagent/reviewer created\n"
        yield running


def shell(fleet: Fleet, script: str, **variables: str) -> str:
    """What a script prints, with `pallasctl` on its path."""
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=fleet.deployment.directory,
        env={**fleet.environment, "PATH": f"{BIN}:{fleet.environment['PATH']}", **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def chat(fleet: Fleet, agent: str, text: str) -> str:
    """An agent's answer, by curl over its unix socket."""
    socket = json.loads(fleet.ctl("get", "agent", agent, "-o", "json").stdout)["status"]["socket"]
    body = json.dumps({"model": agent, "messages": [{"role": "user", "content": text}]})
    answer = shell(
        fleet,
        'curl -fsS --unix-socket "$SOCKET" http://localhost/v1/chat/completions '
        '-H "Content-Type: application/json" -d "$BODY"',
        SOCKET=socket,
        BODY=body,
    )
    content: str = json.loads(answer)["choices"][0]["message"]["content"]
    return content


def test_it_is_asked_with_its_key_and_parameters(fleet: Fleet, llm: LlmStub) -> None:
    assert chat(fleet, "reviewer", "Look at this") == "echo: Look at this"
    asked = llm.asked[-1]
    assert asked.bearer == TOKEN
    assert asked.model == MODEL
    assert asked.body["temperature"] == 0.2
    assert 4096 in {asked.body.get("max_tokens"), asked.body.get("max_completion_tokens")}


def test_what_is_printed_can_be_applied_and_changes_nothing(fleet: Fleet) -> None:
    assert chat(fleet, "reviewer", "Are you there?")
    before = fleet.agent("reviewer")["pid"]
    assert before is not None
    said = shell(fleet, "pallasctl get agent reviewer -o yaml | pallasctl apply -f -")
    assert said == "agent/reviewer unchanged\n"
    said = shell(fleet, "pallasctl get all -o yaml | pallasctl apply -f - --prune")
    assert sorted(said.splitlines()) == [
        "agent/reviewer unchanged",
        "llm/qwen3-thinking unchanged",
        "secret/litellm-key unchanged",
    ]
    assert fleet.agent("reviewer")["pid"] == before


def test_no_output_has_the_value_of_a_secret(fleet: Fleet) -> None:
    for command in (
        "get all -o yaml",
        "get all -o json",
        "get secrets -o wide",
        "describe secret litellm-key",
    ):
        shown = fleet.ctl(*command.split())
        assert "litellm-key" in shown.stdout
        assert TOKEN not in shown.stdout + shown.stderr
    assert TOKEN not in fleet.ctl("describe", "reviewer").stdout
    assert TOKEN not in fleet.log_file.read_text()


def test_what_is_in_use_stays(fleet: Fleet) -> None:
    refused = fleet.ctl("delete", "llm", MODEL)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "is used by agent/reviewer" in refused.stderr


def test_what_is_there_is_not_created_again(fleet: Fleet) -> None:
    refused = fleet.ctl("create", "agent", "reviewer", "--llm", MODEL)
    assert refused.returncode == 1
    assert "agent/reviewer is there already" in refused.stderr


def test_a_file_with_a_project_whose_servers_it_calls(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text(SAMPLE)
    refused = fleet.ctl("apply", "-f", str(tmp_path))
    assert refused.returncode == 1
    assert "deployer.yaml:7: spec.project: there is no project 'mcpctl-dev'" in refused.stderr
    server = [sys.executable, "-IS", str(ROOT / "tests/fakes/stdio_server.py")]
    made = fleet.ctl("create", "server", "files", "--command", server[0], "--", *server[1:])
    assert made.stdout == "server/files created\n", made.stderr
    with run_downstream() as far:
        header = "X-Key=${secret:litellm-key/API_KEY}"
        made = fleet.ctl("create", "server", "far", "--url", far.url, "--header", header)
        assert made.stdout == "server/far created\n", made.stderr
        project = ("create", "project", "mcpctl-dev", "--server", "files", "--server", "far")
        assert fleet.ctl(*project).returncode == 0
        assert fleet.ctl("diff", "-f", str(tmp_path)).returncode == 1
        assert fleet.ctl("apply", "-f", str(tmp_path)).stdout == "agent/deployer created\n"
        assert fleet.ctl("diff", "-f", str(tmp_path)).returncode == 0
        assert chat(fleet, "deployer", "CALL files__pid {}").startswith("tools said: pid ")
        said = chat(fleet, "deployer", 'CALL far__echo {"text": "over there"}')
        assert "over there" in said
        [call] = [request for request in far.requests if request.rpc_method == "tools/call"]
        assert call.headers["x-key"] == TOKEN
        process = fleet.agent("deployer")["pid"]
        assert shell(fleet, "pallasctl get agent deployer -o yaml | pallasctl apply -f -") == (
            "agent/deployer unchanged\n"
        )
        assert fleet.agent("deployer")["pid"] == process
    deleted = fleet.ctl("delete", "project", "mcpctl-dev")
    assert deleted.stdout.splitlines() == ["project/mcpctl-dev deleted", "agent/deployer configured"]
    assert "project" not in spec(fleet, "agent", "deployer")
    assert fleet.ctl("delete", "-f", str(tmp_path)).stdout == "agent/deployer deleted\n"


def test_an_editor_changes_it_and_it_goes_on_under_its_name(fleet: Fleet) -> None:
    said = shell(fleet, "pallasctl edit agent reviewer", EDITOR="sed -i s/shipping/writing/")
    assert said == "agent/reviewer configured\n"
    assert "writing" in spec(fleet, "agent", "reviewer")["description"]
    assert chat(fleet, "reviewer", "Still there?") == "echo: Still there?"


def spec(fleet: Fleet, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(fleet.ctl("get", kind, name, "-o", "yaml").stdout)["spec"]
    return found
