"""`pallasctl chat` against a real deployment: through its gateway, in threads, with tools; and without one."""

from __future__ import annotations

import base64
import json
import signal
import stat
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import LlmStub, Turn, by_request, run_llm_stub
from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.fleet.pty_process import PtyProcess
from support.gateway.door import await_gateway, door, make_token, with_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.llm_stub import Asked
    from support.gateway.door import Door

ADD = 'CALL tools__add {"a": 2, "b": 3}'
LEAVE = "stay"
"""A message at which the provider speaks for a long time."""
HOSTILE = "paint"
"""One that it answers with what a terminal would obey."""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

PROMPT = r"^(?:\x1b\[\?2004h)?> \Z"
"""At the end of what is shown; what stands before it has the terminal keep what is pasted together."""


def answer(asked: Asked) -> Turn:
    if asked.user == LEAVE:
        return Turn(text="word " * 100_000, delay=0.01)
    if asked.user == HOSTILE:
        return Turn(text="red \x1b [31m \x1b]0;title\x07 \u202eback \x9b2J end")
    return by_request(asked)


@dataclass
class Deployed:
    """The deployment, its provider, and the operator at its gateway."""

    fleet: Fleet
    llm: LlmStub
    folder: Path
    ada: Door | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {**self.fleet.environment, "XDG_STATE_HOME": str(self.folder / "state-of-user")}

    def chat(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `pallasctl chat`, with pipes for its streams."""
        return subprocess.run(
            [str(BIN / "pallasctl"), "chat", *arguments],
            cwd=self.fleet.deployment.directory,
            env={**self.environment, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def document(self, *arguments: str, status: int = 0, **environment: str) -> dict[str, Any]:
        """What `--json` prints."""
        done = self.chat(*arguments, "--json", **environment)
        assert done.returncode == status, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def messages(self, thread: str) -> list[dict[str, Any]]:
        """Of a thread at the gateway."""
        assert self.ada is not None
        items: list[dict[str, Any]] = self.ada.rest("GET", f"/threads/{thread}/messages").json()["items"]
        return items

    @property
    def last(self) -> Any:
        """The body of the provider's last request."""
        return self.llm.asked[-1].body

    @contextmanager
    def person(self, *arguments: str, columns: int = 80, **environment: str) -> Iterator[PtyProcess]:
        """A chat at a terminal that shows its first prompt."""
        command = [str(BIN / "pallasctl"), "chat", "deployer", *arguments]
        directory = self.fleet.deployment.directory
        env = {**self.environment, **environment}
        with PtyProcess(command, directory=directory, env=env, columns=columns) as chat:
            chat.until(PROMPT)
            yield chat


def say(chat: PtyProcess, text: str, shows: str) -> str:
    """Type a line, and wait until what it shows is followed by a prompt; what is shown since, without colours."""
    before = len(chat.text)
    chat.type(f"{text}\r")
    chat.until(rf"(?s)\A.{{{before}}}.*{shows}.*{PROMPT}")
    return chat.text[before:]


@contextmanager
def deployed_in(folder: Path, *, gateway: bool) -> Iterator[Deployed]:
    """An agent with tools and a provider that a test speaks for."""
    deployment = make_deployment(folder / "deployment", "echo")
    with run_llm_stub(answer=answer, models=("gpt-4.1",)) as llm, run_downstream() as tools:
        if gateway:
            limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
            with_gateway(deployment, limits=limits)
        with Fleet(deployment) as fleet:
            fleet.wait(until="settled")
            specs: list[tuple[str, str, dict[str, Any]]] = [
                ("secret", "keys", {"data": {"API_KEY": "no-key"}}),
                (
                    "llm",
                    "stub",
                    {
                        "type": "openai",
                        "model": "gpt-4.1",
                        "url": llm.openai_url,
                        "apiKeyRef": "keys/API_KEY",
                    },
                ),
                ("server", "tools", {"transport": "http", "url": tools.url}),
                (
                    "agent",
                    "deployer",
                    {"llm": "stub", "servers": ["tools"], "defaultParams": {"temperature": 0.2}},
                ),
            ]
            documents = [
                json.dumps(
                    {"apiVersion": "pallas/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
                )
                for kind, name, spec in specs
            ]
            (folder / "resources.yaml").write_text("\n---\n".join(documents))
            applied = fleet.ctl("apply", "-f", str(folder / "resources.yaml"))
            assert applied.returncode == 0, applied.stderr
            if gateway:
                await_gateway(fleet)
            yield Deployed(fleet, llm, folder, door(fleet) if gateway else None)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with deployed_in(tmp_path_factory.mktemp("chat"), gateway=True) as made:
        yield made


def test_one_shot(deployed: Deployed) -> None:
    done = deployed.chat("deployer", "-m", ADD)
    assert (done.stdout, done.returncode) == ('tools said: {"result":5.0}\n', 0)
    assert done.stderr == '[tools__add {"a": 2, "b": 3}]\n[tools__add done]\n'
    assert deployed.chat("deployer", "-m", "-", stdin="piped\n").stdout == "echo: piped\n"


def test_one_shot_in_a_thread_as_json(deployed: Deployed) -> None:
    first = deployed.document("deployer", "-m", ADD)
    assert set(first) == {"agent", "threadId", "turnIndex", "content", "toolCalls", "usage", "error"}
    assert (first["agent"], first["turnIndex"], first["error"]) == ("deployer", 3, None)
    assert [call["arguments"] for call in first["toolCalls"]] == [{"a": 2, "b": 3}]
    assert first["usage"]["total_tokens"] > 0
    again = deployed.document("deployer", "-m", "Thanks", "--thread", first["threadId"])
    assert (again["threadId"], again["turnIndex"]) == (first["threadId"], 5)
    assert [each["content"] for each in deployed.messages(first["threadId"])][-2:] == [
        "Thanks",
        "echo: Thanks",
    ]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_ctrl_c_of_one_shot_stops_the_turn(deployed: Deployed, options: tuple[str, ...]) -> None:
    assert deployed.ada is not None
    command = [str(BIN / "pallasctl"), "chat", "deployer", "-m", LEAVE, *options]
    asked = len(deployed.llm.asked)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=deployed.environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        deployed.llm.loopback.wait_for(lambda _: len(deployed.llm.asked) > asked)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == ("", "")
        assert process.returncode == 130
    thread = deployed.ada.rest("GET", "/agents/deployer/threads").json()["items"][0]["id"]
    assert [each["status"] for each in deployed.messages(thread)] == ["complete", "error"]


def test_a_script_is_one_conversation(deployed: Deployed) -> None:
    done = deployed.chat("deployer", stdin="one\ntwo\n")
    assert (done.stdout, done.returncode) == ("echo: one\necho: two\n", 0)
    assert [each["content"] for each in deployed.last["messages"] if each["role"] == "user"] == ["one", "two"]


def test_what_is_wrong_is_said(deployed: Deployed) -> None:
    refused: list[tuple[tuple[str, ...], int, str]] = [
        (("deploer", "-m", "x"), 2, "did you mean 'deployer'?"),
        (("deployer", "-m", "x", "--thread", "nope"), 2, "there is no thread 'nope'"),
        (("deployer", "-m", "x", "--thread", "../agents"), 2, "there is no thread"),
    ]
    for arguments, status, said in refused:
        found = deployed.document(*arguments, status=status)
        assert (said in found["error"]["message"], found["content"]) == (True, None), found
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("deployer", "--json"), "--json is for one turn"),
        (("deployer", "-m", " "), "the message of -m is empty"),
        (
            ("deployer", "-m", "x", "--conversation-id", "a"),
            "--conversation-id is for agents without a gateway",
        ),
    ]
    for arguments, said in wrong:
        done = deployed.chat(*arguments)
        assert (done.returncode, done.stdout, said in done.stderr) == (2, "", True), done


def test_a_token_that_does_not_do_is_no_reason_to_go_another_way(deployed: Deployed) -> None:
    asked = len(deployed.llm.asked)
    token = make_token(deployed.fleet, "reader", "view:agents")
    found = deployed.document("deployer", "-m", "x", status=1, PALLAS_TOKEN=token)
    assert (found["error"]["status"], "run:agents" in found["error"]["message"]) == (403, True)
    assert "PALLAS_TOKEN" in found["error"]["message"]
    done = deployed.chat("deployer", "-m", "x", "--gateway", "http://127.0.0.1:9", PALLAS_TOKEN=token)
    assert (done.returncode, "cannot be reached" in done.stderr) == (1, True)
    assert len(deployed.llm.asked) == asked


def test_who_may_run_and_not_view(deployed: Deployed) -> None:
    token = make_token(deployed.fleet, "runner", "run:agents:deployer")
    thread = deployed.document("deployer", "-m", "mine", PALLAS_TOKEN=token)["threadId"]
    with deployed.person("--thread", thread, PALLAS_TOKEN=token) as chat:
        chat.until("what was said is not shown")
        say(chat, "more", "echo: more")


def test_a_person(deployed: Deployed) -> None:
    with deployed.person() as chat:
        assert r"[tools__add done]" in say(chat, ADD, "tools said: ")
        shown = say(chat, HOSTILE, " end")
        assert r"red \x1b [31m \x1b]0;title\x07 \u202eback \x9b2J end" in shown
        assert "\x1b]0;" not in chat.raw
        image = deployed.folder / "pixel.png"
        image.write_bytes(PIXEL)
        say(chat, f"/image {image}", "goes with the next message")
        say(chat, "what is it?", "echo: what is it")
        assert deployed.llm.asked[-1].images == 1
        say(chat, "/set temperature 0.9", "temperature is 0.9 from now on")
        say(chat, "/set top_p null", "top_p is null from now on")
        say(chat, "/system Be brief.", "added to the system prompt: Be brief.")
        say(chat, "/tools tools__add", "allowed: tools__add")
        say(chat, "with parameters", "echo: with parameters")
        assert (deployed.last["temperature"], deployed.last.get("top_p")) == (0.9, None)
        assert "Be brief." in deployed.last["messages"][0]["content"]
        assert [each["function"]["name"] for each in deployed.last["tools"]] == ["tools__add"]
        assert "tools__echo" in say(chat, "/tools", "tools__fail")
        say(chat, "/tools tools__nothing", "allowed: tools__nothing")
        say(chat, "refused", "tools_allowlist")
        say(chat, "/tools -", "all tools")
        saved = deployed.folder / "saved.json"
        say(chat, f"/save {saved}", "turns written to")
        rows = json.loads(saved.read_text())
        assert [row["role"] for row in rows[:4]] == ["user", "assistant", "tool", "assistant"]
        chat.type("/quit\r")
        thread = chat.until(r"go on with `pallasctl chat deployer --thread (\S+)`")[1]
        assert chat.wait() == 0
    with deployed.person("--thread", thread) as chat:
        chat.until("deployer: echo: with parameters")
        say(chat, "back again", "echo: back again")
    assert deployed.messages(thread)[-1]["content"] == "echo: back again"


def test_ctrl_c_ends_the_turn_at_the_gateway_and_not_the_chat(deployed: Deployed) -> None:
    with deployed.person() as chat:
        chat.type(f"{LEAVE}\r")
        chat.until(r"word word word")
        chat.type("\x03")
        chat.until(rf"cancelled\n{PROMPT}")
        say(chat, "/threads", f"{LEAVE}")
        say(chat, "go on", "echo: go on")
        chat.type("\x04")
        thread = chat.until(r"--thread (\S+)`")[1]
        assert chat.wait() == 0
    said = [(each["content"], each["status"]) for each in deployed.messages(thread)]
    assert [status for _, status in said] == ["complete", "error", "complete", "complete"]
    assert said[1][0].startswith("word word"), "what it had said is kept"
    assert said[1][0].count("word") < 10_000


def test_retry_and_resume(deployed: Deployed) -> None:
    with deployed.person() as chat:
        say(chat, "/retry", "there is nothing to ask again")
        say(chat, "alpha omega", "echo: alpha omega")
        say(chat, "/retry", "echo: alpha omega")
        say(chat, "/clear", "the conversation begins anew")
        say(chat, "second one", "echo: second one")
        assert "second" not in say(chat, "/threads omega", "alpha omega")
        shown = say(chat, "/resume 1", "deployer: echo: alpha omega")
        assert shown.count("> alpha omega") == 1, "the turn was replaced"
        say(chat, "and on", "echo: and on")
        chat.type("/quit\r")
        thread = chat.until(r"--thread (\S+)`")[1]
    contents = [each["content"] for each in deployed.messages(thread) if each["status"] == "complete"]
    assert contents == ["alpha omega", "echo: alpha omega", "and on", "echo: and on"]


def test_a_chat_that_is_left_in_a_turn_finds_it_again(deployed: Deployed) -> None:
    assert deployed.ada is not None
    with deployed.person() as chat:
        chat.type(f"{LEAVE}\r")
        chat.until("word word word")
        chat.hang_up()
        chat.wait()
    thread = deployed.ada.rest("GET", "/agents/deployer/threads").json()["items"][0]["id"]
    command = [str(BIN / "pallasctl"), "chat", "deployer", "--thread", thread]
    with PtyProcess(command, directory=deployed.folder, env=deployed.environment) as chat:
        chat.until("word word word")
        chat.type("\x03")
        chat.until(rf"cancelled\n{PROMPT}")
    assert deployed.messages(thread)[-1]["status"] == "error"


def test_what_was_typed_is_there_in_the_next_chat(deployed: Deployed) -> None:
    with deployed.person() as chat:
        say(chat, "something memorable", "echo: something memorable")
        say(chat, "/hel\t", "/retry")
    path = deployed.folder / "state-of-user" / "pallas" / "chat_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with deployed.person() as chat:
        say(chat, "\x1b[A\x1b[A", "echo: something memorable")
    before = path.read_bytes()
    with deployed.person(PALLAS_CHAT_HISTORY="") as chat:
        say(chat, "a secret", "echo: a secret")
    assert path.read_bytes() == before


def test_forty_columns_without_colour(deployed: Deployed) -> None:
    with deployed.person(columns=40, NO_COLOR="1", COLUMNS="40") as chat:
        say(chat, "/help", "To send a message")
        listed = say(chat, "/threads", "ago")
        assert max(map(len, listed.splitlines())) <= 40
        assert "\x1b[2m" not in chat.raw


def test_a_gateway_that_is_stopped_is_named(deployed: Deployed) -> None:
    assert deployed.fleet.ctl("gateway", "stop").returncode == 0
    try:
        found = deployed.document("deployer", "-m", "x", status=1)
        assert "pallasctl gateway start" in found["error"]["message"]
    finally:
        assert deployed.fleet.ctl("gateway", "start").returncode == 0


def test_without_a_gateway(tmp_path: Path) -> None:
    with deployed_in(tmp_path, gateway=False) as deployed:
        found = deployed.document("deployer", "-m", ADD)
        assert (found["threadId"], found["content"]) == (None, 'tools said: {"result":5.0}')
        assert [call["name"] for call in found["toolCalls"]] == ["tools__add"]
        assert found["usage"]["total_tokens"] > 0
        done = deployed.chat("deployer", "-m", "x", "--thread", "a")
        assert (done.returncode, "there is none here" in done.stderr) == (2, True)
        with deployed.person() as chat:
            assert "[tools__add done: 5.0]" in say(chat, ADD, "tools said: ")
            say(chat, "/set top_k 5", "from now on")
            assert "left out: top_k" in say(chat, "and then", "echo: and then")
            roles = [each["role"] for each in deployed.last["messages"] if each["role"] != "system"]
            assert roles == ["user", "assistant", "tool", "assistant", "user"], "with what tools gave"
            say(chat, "/retry", "echo: and then")
            assert len(deployed.last["messages"]) == len(roles) + (
                deployed.last["messages"][0]["role"] == "system"
            )
            chat.type(f"{LEAVE}\r")
            chat.until("word word word")
            chat.type("\x03")
            chat.until(rf"cancelled\n{PROMPT}")
            say(chat, "/threads", "kept by a gateway")
            say(chat, "next", "echo: next")
            assert LEAVE not in json.dumps(deployed.last["messages"])
            chat.type("/quit\r")
            assert chat.wait() == 0
        assert "--thread" not in chat.text
        url = f"http://127.0.0.1:{deployed.fleet.deployment.agents['echo']['port']}/mcp"
        assert deployed.chat(url, "-m", "by MCP").stdout == "by MCP\n"
        assert deployed.chat(url, stdin="one\ntwo\n").stdout == "one\ntwo\n"
