"""`pallasctl ask` and `chat` against a real fleet: turns, their history, and what Ctrl-C does in the worker."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.fleet.terminal import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.fleet.fleet import LogStream
    from support.fleet.terminal import Picture, Terminal

HOLDS = """\
import asyncio

from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)


@fast.agent(name="holds", model="passthrough", instruction="Repeat.")
async def agent() -> None:
    ...


@fast.tool
async def hold() -> str:
    '''Never ends by itself.'''
    print("held")
    try:
        await asyncio.Event().wait()
    finally:
        print("let go")
"""

HOLD = "***CALL_TOOL hold {}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("talking") / "fleet", "one")
    deployment.add("holds")
    deployment.add("small", max_request_bytes=20_000)
    (deployment.directory / "agents" / "holds.py").write_text(HOLDS)
    with Fleet(deployment) as fleet:
        fleet.wait()
        yield fleet


def until_said(log: LogStream, text: str) -> None:
    """Wait until the agent `holds` has logged this."""
    log.until(lambda record: record.get("agent") == "holds" and text in record["message"])


def feed(fleet: Fleet, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `pallasctl` with this on its stdin."""
    return subprocess.run(
        [str(BIN / "pallasctl"), *arguments],
        cwd=fleet.deployment.directory,
        env=fleet.environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_ask(fleet: Fleet) -> None:
    asked = feed(fleet, "who are you?\nI mean it", "ask", "one")
    assert (asked.stdout, asked.stderr, asked.returncode) == ("who are you?\nI mean it\n", "", 0)


def test_ctrl_c_cancels_the_call(fleet: Fleet) -> None:
    command = [str(BIN / "pallasctl"), "ask", "holds", HOLD]
    with fleet.follow() as log:
        asking = subprocess.Popen(
            command, env=fleet.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        until_said(log, "held")
        asking.send_signal(signal.SIGINT)
        assert asking.communicate(timeout=PATIENCE) == ("", "")
        assert asking.returncode == 130
        until_said(log, "let go")


def test_no_answer_in_time(fleet: Fleet) -> None:
    asked = feed(fleet, "", "ask", "holds", HOLD, "--timeout", "0.5")
    assert asked.stderr == "pallasctl: holds: no answer within 0.5 s; the call was cancelled\n"
    assert (asked.stdout, asked.returncode) == ("", 1)


def test_names_are_completed(fleet: Fleet) -> None:
    completing = {"_PALLASCTL_COMPLETE": "bash_complete", "COMP_WORDS": "pallasctl ask h", "COMP_CWORD": "2"}
    completed = subprocess.run(
        [str(BIN / "pallasctl")],
        env=fleet.environment | completing,
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout == "plain,holds\n"


def test_a_script(fleet: Fleet) -> None:
    chat = feed(fleet, "one\n\n/two\nthree\\\nfour", "chat", "one")
    assert (chat.stdout, chat.stderr, chat.returncode) == ("one\n/two\nthree\nfour\n", "", 0)


def test_a_script_goes_on_after_a_turn_that_fails(fleet: Fleet) -> None:
    chat = feed(fleet, f"{'x' * 20_000}\nnext\n", "chat", "small")
    assert (chat.stdout, chat.returncode) == ("next\n", 1)
    assert "max_request_bytes" in chat.stderr


def test_a_conversation_that_is_too_long_is_shortened(fleet: Fleet) -> None:
    turns = [letter * 4000 for letter in "abcd"]
    chat = feed(fleet, "\n".join(turns), "chat", "small")
    assert (chat.stdout.split(), chat.returncode) == (turns, 0)
    left_out = (
        "the conversation has become too long for one request: its oldest turn is left out from now on\n"
    )
    assert chat.stderr == left_out * 2


@contextmanager
def chatting(fleet: Fleet, agent: str, columns: int) -> Iterator[Terminal]:
    """A chat on a terminal that shows its first prompt."""
    command = [str(BIN / "pallasctl"), "chat", agent]
    environment = {**fleet.environment, "PALLAS_CHAT_HISTORY": ""}
    with terminal(command, columns=columns, lines=60, environment=environment) as chat:
        chat.until(prompts(1))
        yield chat


def prompts(number: int) -> Callable[[Picture], bool]:
    """Whether so many prompts are shown, the last of them empty."""

    def reached(picture: Picture) -> bool:
        shown = [line for line in picture.lines if line.startswith(">")]
        return len(shown) == number and shown[-1] == ">" and picture.lines[-1] == ">"

    return reached


@pytest.mark.parametrize("columns", [80, 140])
def test_a_person(fleet: Fleet, columns: int) -> None:
    with fleet.follow() as log, chatting(fleet, "holds", columns) as chat:
        chat.type("hello\r")
        assert chat.until(prompts(2)).lines[1:3] == ["> hello", "hello"]
        chat.type(f"{HOLD}\r")
        chat.until(lambda picture: any(line.startswith("hold (") for line in picture.lines))
        until_said(log, "held")
        assert not chat.echoes()
        chat.type("\x03")
        lines = chat.until(prompts(3)).lines
        at = lines.index(f"> {HOLD}")
        assert lines[at + 1 : at + 3] == ["[hold]", "cancelled"]
        until_said(log, "let go")
        fleet.kill("holds")
        chat.type("\x1b[200~pasted\rtext\x1b[201~\r")
        chat.until(prompts(4))
        until_said(log, "2 history rows")  # of the turn that was cancelled there are none
        chat.type("typed \\\rtext\r")
        lines = chat.until(prompts(5)).lines
        assert lines[-6:-2] == ["> typed \\", "… text", "typed", "text"]
        until_said(log, "4 history rows")
        chat.type("given up")
        chat.until(lambda picture: picture.lines[-1].endswith("given up"))
        chat.type("\x03")
        chat.until(prompts(6))
        chat.type("/quit\r")
        assert chat.end() == 0


def test_an_agent_cannot_write_on_the_terminal(fleet: Fleet) -> None:
    with chatting(fleet, "one", 80) as chat:
        chat.type("a\x16\x1b[31mb\u202ec\r")  # Ctrl-V takes the next key as it is
        lines = chat.until(prompts(2)).lines
        assert r"a\x1b[31mb\u202ec" in lines
        chat.type("\x04")
        assert chat.end() == 0


def test_an_agent_that_is_stopped_meanwhile(fleet: Fleet) -> None:
    with chatting(fleet, "one", 80) as chat:
        assert fleet.ctl("stop", "one").returncode == 0
        chat.type("hello?\r")
        assert "one is stopped; start it with `pallasctl start one`" in chat.until(prompts(2)).lines
        assert fleet.ctl("start", "one").returncode == 0
        chat.type("hello\r")
        assert "hello" in chat.until(prompts(3)).lines
        chat.type("/quit\r")
        assert chat.end() == 0


def test_no_colour(fleet: Fleet) -> None:
    command = [str(BIN / "pallasctl"), "chat", "one"]
    with terminal(
        command, environment={**fleet.environment, "NO_COLOR": "1", "PALLAS_CHAT_HISTORY": ""}
    ) as chat:
        chat.until(prompts(1))
        chat.type("hello\r")
        chat.until(prompts(2))
        chat.type("\x04")
        assert chat.end() == 0
        assert not any(code in chat.output for code in ("\x1b[1m", "\x1b[2m", "\x1b[31m"))
