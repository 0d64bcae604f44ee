"""`pallasctl create`: what the options of each kind say, as a resource."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from pallas_common.protocol.agent.parameters import PARAMETERS
from pallas_registry.resources.model import KINDS
from pallasctl.main import pallasctl
from pallasctl.verbs.resources.create.command import create as create_verb

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from fakes.control_server import FakeControl


TEXTS = ("é 日本 \U0001f600", "a\x1b[2J\x85\u2028b", "yes", " a: [b] ", "---\na\n", "\U000e0041")


def create(fake: FakeControl, line: str, stdin: str | None = None) -> Result:
    """`pallasctl create …` as a shell reads it."""
    kind, name = line.split()[:2]
    done = {"results": [{"resource": f"{kind}/{name}", "outcome": "created"}], "problems": []}
    fake.answer("/v1/resources", done)
    return CliRunner().invoke(
        pallasctl, ["--socket", str(fake.socket), "create", *shlex.split(line)], input=stdin
    )


def made(fake: FakeControl, line: str, stdin: str | None = None) -> Any:
    """The document that is sent."""
    result = create(fake, line, stdin)
    assert result.exit_code == 0, result.output
    [body] = [body for method, _, body in fake.requests if method == "POST"]
    [file] = body["files"]
    assert file["file"] == "command line"
    document = yaml.safe_load(file["text"])
    assert document.pop("apiVersion") == "pallas/v1"
    assert list(document) == ["kind", "metadata", "spec"]
    return document["spec"]


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("secret litellm-key --data API_KEY=sk=1 --data OTHER=", {"data": {"API_KEY": "sk=1", "OTHER": ""}}),
        (
            (
                "llm qwen3-thinking --type openai --model qwen3-thinking --url http://l:4000/v1 "
                "--api-key-ref litellm-key/API_KEY --description 'via vLLM'"
            ),
            {
                "type": "openai",
                "model": "qwen3-thinking",
                "url": "http://l:4000/v1",
                "apiKeyRef": "litellm-key/API_KEY",
                "description": "via vLLM",
            },
        ),
        (
            """agent reviewer --llm qwen3-thinking --description "I review; ask."
            --default-temperature 0.2 --default-max-tokens 4096""",
            {
                "description": "I review; ask.",
                "llm": "qwen3-thinking",
                "defaultParams": {"temperature": 0.2, "max_tokens": 4096},
            },
        ),
        ("agent a --model yes --system-prompt 0123", {"model": "yes", "systemPrompt": "0123"}),
        (
            "agent a --project p --server s --server t --tool 's__*' --port 24500",
            {"project": "p", "servers": ["s", "t"], "tools": ["s__*"], "run": {"port": 24500}},
        ),
        (
            (
                "agent a --default-top-p 1 --default-top-k 40 --default-presence-penalty -0.5 "
                "--default-frequency-penalty 2 --default-seed 7 --default-stop a --default-stop '</b>' "
                "--default-tool-choice none --default-parallel-tool-calls false --default-reasoning-effort low "
                """--default-service-tier flex --default-min-p 0.1 --default-repetition-penalty 1.1
            --default-logit-bias '{"50256": -100}' --default-extra '{"a": [1]}'"""
            ),
            {
                "defaultParams": {
                    "top_p": 1,
                    "top_k": 40,
                    "presence_penalty": -0.5,
                    "frequency_penalty": 2,
                    "seed": 7,
                    "tool_choice": "none",
                    "parallel_tool_calls": False,
                    "reasoning_effort": "low",
                    "service_tier": "flex",
                    "min_p": 0.1,
                    "repetition_penalty": 1.1,
                    "logit_bias": {"50256": -100},
                    "extra": {"a": [1]},
                    "stop": ["a", "</b>"],
                }
            },
        ),
        (
            """agent a --default-tool-choice '{"type": "function", "function": {"name": "s__x"}}'""",
            {"defaultParams": {"tool_choice": {"type": "function", "function": {"name": "s__x"}}}},
        ),
        (
            "server files --command npx --env A=1 --env 'T=${secret:x/K}' -- -y server --url x",
            {
                "command": "npx",
                "args": ["-y", "server", "--url", "x"],
                "env": {"A": "1", "T": "${secret:x/K}"},
            },
        ),
        (
            "server search --url http://h/mcp --header 'Authorization=Bearer x=='",
            {"url": "http://h/mcp", "headers": {"Authorization": "Bearer x=="}},
        ),
        ("projects p --server s --description d", {"servers": ["s"], "description": "d"}),
    ],
)
def test_what_the_options_say(fake: FakeControl, line: str, spec: dict[str, Any]) -> None:
    assert made(fake, line) == spec


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_arrives_as_it_was_given(fake: FakeControl, text: str) -> None:
    assert made(fake, f"agent a --description {shlex.quote(text)}") == {"description": text}


def test_a_prompt_from_a_file_or_stdin(fake: FakeControl, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("Be brief.\n\n")
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    assert made(fake, f"agent a --system-prompt @{tmp_path}/prompt.md") == {"systemPrompt": "Be brief.\n\n"}
    fake.requests.clear()
    assert made(fake, "agent a --system-prompt @-", "Be kind.\n") == {"systemPrompt": "Be kind.\n"}
    fake.requests.clear()
    assert made(fake, f"agent a --output-schema @{tmp_path}/schema.json") == {
        "outputSchema": {"type": "object"}
    }


def test_secrets_from_elsewhere_than_the_command_line(
    fake: FakeControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("TOKEN", "from the environment")
    line = f"secret s --data A=- --from-file B={tmp_path}/key --from-env TOKEN --from-env C=TOKEN"
    values = {
        "A": "from stdin",
        "B": "from a file",
        "TOKEN": "from the environment",
        "C": "from the environment",
    }
    assert made(fake, line, "from stdin\n") == {"data": values}


def test_help_warns_of_values_in_arguments() -> None:
    said = " ".join(CliRunner().invoke(pallasctl, ["create", "secret", "--help"]).output.split())
    assert "which others on this machine can see in `ps`" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("secret s", "give a value with --data, --from-file or --from-env"),
        ("secret s --data sk-very-secret", "Invalid value for '--data': give it as KEY=VALUE"),
        ("secret s --data A=1 --from-env A=HOME", "the command line gives 'A' twice"),
        ("secret s --data A=- --data B=-", "stdin has one value: give --data KEY=- once"),
        ("secret s --from-env NO_SUCH_VARIABLE", "the environment has no variable 'NO_SUCH_VARIABLE'"),
        ("secret s --from-file K=/nowhere/at/all", "there is no file '/nowhere/at/all'"),
        ("llm x --model m", "Missing option '--type'"),
        ("agent a --llm x --model y", "give --llm or --model, not both"),
        ("agent a --system-prompt @/", "/: is a folder, not a file; name a regular file"),
        ("agent a --output-schema {x", "'{x' is no JSON"),
        ("agent a --default-temperature warm", "'warm' is no number"),
        ("agent a --default-temperature nan", "'nan' is no number that can be sent"),
        ("agent a --default-tool-choice {x", "'{x' is no JSON"),
        ("server s", "give --url or --command"),
        ("server s --url u --command c", "give --url or --command, not both"),
        ("server s --url u -- x", "arguments are for a program: give --command"),
        ("server s --url u --header a", "Invalid value for '--header': give it as KEY=VALUE"),
        ("agnet a", "there is no kind 'agnet'; did you mean 'agent'?"),
    ],
)
def test_what_cannot_be_said(fake: FakeControl, line: str, said: str) -> None:
    result = create(fake, line)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "very-secret" not in result.output
    assert not [method for method, *_ in fake.requests if method == "POST"]


def test_what_is_there_is_left_alone(fake: FakeControl) -> None:
    create(fake, "agent a")
    document = yaml.safe_load(fake.requests[0][2]["files"][0]["text"])
    assert document["metadata"] == {"name": "a", "resourceVersion": ""}


def test_what_the_supervisor_refuses(fake: FakeControl) -> None:
    problem = "spec.llm: there is no llm 'x'; create it first"
    refused = {"resource": "agent/a", "outcome": "refused", "problems": [f"command line:7: {problem}"]}
    fake.answer("/v1/resources", {"results": [refused], "problems": []})
    result = fake.run("create", "agent", "a", "--llm", "x")
    assert result.exit_code == 1
    assert result.stderr == f"pallasctl: agent/a is refused: 1 problem\n  {problem}\n"


def test_every_parameter_has_an_option() -> None:
    agent = create_verb.commands["agent"]
    options = {name for parameter in agent.params if (name := parameter.name or "").startswith("default_")}
    assert options == {
        f"default_{name}" for name in (*PARAMETERS, "extra") if name != "max_completion_tokens"
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_created(kind: str) -> None:
    assert (
        f"Usage: pallasctl create {kind}"
        in CliRunner().invoke(pallasctl, ["create", kind, "-h"], prog_name="pallasctl").output
    )


def test_what_cannot_be_read(fake: FakeControl) -> None:
    fake.answer(
        "/v1/resources", {"results": [], "problems": ["command line:9: spec.tools[0]: 'a b' is no pattern"]}
    )
    said = fake.run("create", "agent", "a", "--tool", "a b").stderr
    assert said == "pallasctl: agent/a is refused\n  spec.tools[0]: 'a b' is no pattern\n"
