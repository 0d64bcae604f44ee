"""The verb `ask`: what is sent, what goes to stdout and stderr, and the exit status."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from click.testing import CliRunner

from fakes.agent_server import EVENTS, JSON, PROGRESS, RESULT, Server, answer, serving
from fakes.control_server import FakeControl, agent, status
from pallasctl.main import pallasctl
from support.data.image_data import CONTENT, PNG

if TYPE_CHECKING:
    from pathlib import Path


def result(*texts: str, **fields: Any) -> str:
    """A response with a result of these texts."""
    content = [{"type": "text", "text": text} for text in texts]
    return answer("200 OK", json.dumps({"id": 1, "result": {"content": content, **fields}}), JSON)


def deploy(fake: FakeControl, server: Server | None = None, state: str = "ready", **fields: Any) -> None:
    """Make jarvis an agent of the fake supervisor."""
    url = server.url if server is not None else "http://localhost:1/mcp"
    fake.answer("/v1/status", status(agent("jarvis", state, url=url, **fields)))


def sent(server: Server) -> dict[str, Any]:
    """The arguments that came with the call."""
    body: dict[str, Any] = json.loads(server.request.partition(b"\r\n\r\n")[2])
    arguments: dict[str, Any] = body["params"]["arguments"]
    return arguments


class Asked(NamedTuple):
    """How the command ended."""

    stdout: bytes
    stderr: bytes
    returncode: int


def ask(fake: FakeControl, *arguments: str, stdin: bytes = b"") -> Asked:
    """The command, with a pipe for each of its standard streams."""
    command = ["--socket", str(fake.socket), "ask", *arguments]
    result = CliRunner().invoke(pallasctl, command, input=stdin, prog_name="pallasctl")
    return Asked(result.stdout_bytes, result.stderr_bytes, result.exit_code)


def test_the_answer_alone_is_on_stdout(fake: FakeControl) -> None:
    with serving(EVENTS, f"data: {PROGRESS}\n\ndata: {RESULT}\n\n") as server:
        deploy(fake, server)
        asked = ask(fake, "jarvis", "who", "are", "you?")
    assert (asked.stdout, asked.stderr, asked.returncode) == (b"fine\n", b"", 0)
    assert sent(server) == {"message": "who are you?"}


def test_texts_before_the_answer_are_no_part_of_it(fake: FakeControl) -> None:
    with serving(result("let me see", "it is so\n")) as server:
        deploy(fake, server)
        assert ask(fake, "jarvis", "x").stdout == b"it is so\n"


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_the_message_from_stdin(fake: FakeControl, arguments: list[str]) -> None:
    with serving(result("ok")) as server:
        deploy(fake, server)
        assert ask(fake, "jarvis", *arguments, stdin="Grüße\nsecond\n".encode()).returncode == 0
    assert sent(server) == {"message": "Grüße\nsecond"}


def test_what_a_pipe_gets_is_what_the_agent_said(fake: FakeControl) -> None:
    said = "\x1b[2J\u202eא\ud800"
    with serving(result(said)) as server:
        deploy(fake, server)
        assert ask(fake, "jarvis", "x").stdout == "\x1b[2J\u202eא\\ud800\n".encode()


def test_images_and_the_conversation(fake: FakeControl, tmp_path: Path) -> None:
    image = tmp_path / "no-suffix"
    image.write_bytes(CONTENT["image/png"])
    with serving(result("ok")) as server:
        deploy(fake, server)
        assert ask(fake, "jarvis", "-i", str(image), "--conversation-id", "c-1").returncode == 0
    assert sent(server) == {
        "message": "",
        "images": [{"data": PNG, "mime_type": "image/png"}],
        "conversation_id": "c-1",
    }


def test_a_json_document(fake: FakeControl) -> None:
    with serving(result("first", "last")) as server:
        deploy(fake, server)
        asked = ask(fake, "jarvis", "x", "-o", "json")
    document = json.loads(asked.stdout)
    assert document.pop("duration") >= 0
    assert document == {
        "agent": "jarvis",
        "answer": "last",
        "texts": ["first", "last"],
        "images": [],
        "is_error": False,
        "error": None,
        "conversation_id": None,
    }


def test_an_error_of_the_agent(fake: FakeControl) -> None:
    with serving(result("the model gave no answer\n\x1b[2Jdetails", isError=True)) as server:
        deploy(fake, server)
        asked = ask(fake, "jarvis", "x")
    assert (asked.stdout, asked.returncode) == (b"", 1)
    assert asked.stderr == b"pallasctl: jarvis: the model gave no answer\n  \\x1b[2Jdetails\n"


def test_an_error_as_json(fake: FakeControl) -> None:
    with serving(result("the agent is busy: try again", isError=True)) as server:
        deploy(fake, server)
        asked = ask(fake, "jarvis", "x", "-o", "json")
    document = json.loads(asked.stdout)
    assert asked.returncode == 1
    assert (document["answer"], document["is_error"]) == (None, True)
    assert document["error"] == {
        "kind": "busy",
        "message": "the agent is busy: try again",
        "retry_after": None,
    }


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (
            answer("503 x", "", "Retry-After: 7"),
            "jarvis: it is not served at the moment; it may answer again in 7 s",
        ),
        ("", "jarvis: the connection ended before the answer; `pallasctl logs jarvis` may say why"),
    ],
)
def test_a_call_that_fails(fake: FakeControl, response: str, said: str) -> None:
    with serving(response) as server:
        deploy(fake, server)
        asked = ask(fake, "jarvis", "x")
    assert asked.returncode == 1
    assert said.partition(";")[2] in asked.stderr.decode()
    assert asked.stderr.decode().startswith(f"pallasctl: {said.partition(';')[0]}")


@pytest.mark.parametrize(
    ("state", "message", "said"),
    [
        ("stopped", "", "jarvis is stopped; start it with `pallasctl start jarvis`"),
        (
            "failed",
            "no module",
            "jarvis has failed: no module; `pallasctl logs jarvis` says more, `pallasctl start jarvis` tries again",
        ),
    ],
)
def test_an_agent_that_is_down(fake: FakeControl, state: str, message: str, said: str) -> None:
    deploy(fake, state=state, message=message)
    asked = ask(fake, "jarvis", "x")
    assert (asked.stderr.decode(), asked.returncode) == (f"pallasctl: {said}\n", 1)


@pytest.mark.parametrize(("quiet", "said"), [([], "jarvis is starting…\n"), (["-q"], "")])
def test_an_agent_that_is_starting(fake: FakeControl, quiet: list[str], said: str) -> None:
    with serving(result("ok")) as server:
        deploy(fake, server, "starting")
        asked = ask(fake, "jarvis", "x", *quiet)
    assert (asked.stdout, asked.stderr.decode()) == (b"ok\n", said)


def test_an_agent_that_is_not_there(fake: FakeControl) -> None:
    deploy(fake)
    asked = ask(fake, "jarvs", "x")
    assert asked.returncode == 2
    assert asked.stderr == b"pallasctl: there is no agent 'jarvs'; did you mean 'jarvis'?\n"


def test_a_url_needs_no_supervisor(fake: FakeControl) -> None:
    with serving(result("ok")) as server:
        assert ask(fake, server.url, "x").stdout == b"ok\n"
    assert not fake.requests


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["jarvis"], b" \n", "standard input is empty"),
        (["jarvis", ""], b"", "no TEXT"),
        (["jarvis"], b"\xff", "standard input is not UTF-8 (byte 0)"),
        (["jarvis", os.fsdecode(b"\xff")], b"", "TEXT is not UTF-8 (byte 0)"),
        (["jarvis", "x", "-i", "/nowhere"], b"", "/nowhere: no such file"),
        (["jarvis", "x", "-i", "/dev/null"], b"", "/dev/null: not a file"),
        (["http://[::1", "x"], b"", "Invalid value for AGENT: Invalid IPv6 URL"),
    ],
)
def test_wrong_usage(fake: FakeControl, arguments: list[str], stdin: bytes, said: str) -> None:
    asked = ask(fake, *arguments, stdin=stdin)
    assert asked.returncode == 2
    assert said in asked.stderr.decode()


def test_a_message_that_is_too_long(fake: FakeControl) -> None:
    asked = ask(fake, "jarvis", stdin=b"x" * (16 * 1024 * 1024 + 1))
    assert asked.returncode == 2
    assert b"standard input has more than 16 MiB" in asked.stderr
