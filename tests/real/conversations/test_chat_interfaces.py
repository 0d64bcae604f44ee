"""Chat interfaces for OpenAI's API, each its real release and unchanged, in a conversation through the gateway.

What each of them is given is what docs/gateway-clients.md says, with the port and a token of this deployment that may
run one agent and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes.llm_stub import Call, Fault, Turn, by_request
from real.clients.programs import Programs, python_with
from support.documents.blocks import blocks_of
from support.documents.browser.browser import find_chromium, run_chromium
from support.fleet.pty_process import PtyProcess
from support.gateway.door import make_token
from support.gateway.http.deployed import run_deployed
from support.ports import free_ports
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.llm_stub import Asked, Recorded
    from support.documents.browser.browser import Page
    from support.gateway.http.deployed import Deployed

PAGE = ROOT / "docs" / "gateway-clients.md"
ADD = "How much is 2 + 3?"


def answer(asked: Asked) -> Turn:
    if asked.tool_results:
        return Turn(text="It is **5**.")
    if asked.user == ADD:
        return Turn(text="Let me see.", calls=(Call("tools__add", {"a": 2, "b": 3}),))
    return by_request(asked)


def held(request: Recorded) -> Fault | None:
    """The second request of a turn with a tool waits, until it is let go."""
    messages = (request.json or {}).get("messages") or [{}]
    return Fault(hold=True) if messages[-1].get("role") == "tool" else None


@dataclass
class Scene:
    """A deployment, and who may run its agent jarvis."""

    deployed: Deployed
    token: str

    def on_page(self, language: str, word: str) -> str:
        """The one block of the page with this word in it, for this deployment."""
        (text,) = (
            block.text for block in blocks_of(PAGE) if block.language == language and word in block.text
        )
        return text.replace("http://localhost:24199", self.deployed.ada.url)

    def said(self, at: int = -1) -> list[tuple[str, str]]:
        """The messages that the model was given in one of its requests, without the agent's own instruction."""
        first, *messages = self.deployed.llm.asked[at].body["messages"]
        assert first["role"] == "system"
        return [(each["role"], text_of(each["content"])) for each in messages]


def text_of(content: object) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content or ())  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with run_deployed(tmp_path_factory.mktemp("interfaces"), answer=answer, fault=held) as deployed:
        deployed.ask("POST", "/agents", 201, json={"name": "jarvis", "llm": "stub", "project": "platform"})
        yield Scene(deployed, make_token(deployed.fleet, "laptop", "run:agents:jarvis"))


def say(page: Page, text: str) -> None:
    """Type it into Gradio's box, and send it."""
    page.until("document.querySelector('textarea:not([disabled])')")
    page.evaluate("document.querySelector('textarea').focus()")
    page.send("Input.insertText", text=text)
    page.until(f"document.querySelector('textarea').value === {json.dumps(text)}")
    page.press("Enter")


def bot(number: int, text: str) -> str:
    """An expression: whether so many answers stand there, and the last of them is this."""
    answers = "[...document.querySelectorAll('[data-testid=bot]')]"
    return f"{answers}.length === {number} && {answers}.at(-1).innerText.includes({json.dumps(text)})"


def test_a_page_of_gradio(scene: Scene, tmp_path: Path) -> None:
    find_chromium()
    python = python_with("gradio", "Gradio")
    (tmp_path / "page.py").write_text(scene.on_page("python", "import gradio"))
    port = free_ports(1)[0]
    environment = Programs(tmp_path).environment | {
        "PALLAS_CLIENT_TOKEN": scene.token,
        "GRADIO_SERVER_PORT": str(port),
    }
    with (
        PtyProcess([python, "page.py"], directory=tmp_path, env=environment) as program,
        run_chromium() as page,
    ):
        program.until(r"Running on local URL: ")
        page.open(f"http://127.0.0.1:{port}/")
        say(page, "How high is Mont Blanc?")
        page.until(bot(1, "echo: How high is Mont Blanc?"))
        assert scene.said() == [("user", "How high is Mont Blanc?")]

        say(page, ADD)
        page.until(bot(2, "Let me see."))  # while the agent is still at it
        assert not page.evaluate("document.body.innerText.includes('It is')")
        scene.deployed.llm.loopback.release()
        page.until(bot(2, "It is 5."))
        history = [
            ("user", "How high is Mont Blanc?"),
            ("assistant", "echo: How high is Mont Blanc?"),
            ("user", ADD),
        ]
        assert scene.said(-2) == history

        say(page, "Thanks")
        page.until(bot(3, "echo: Thanks"))
        assert scene.said() == [*history, ("assistant", "Let me see.\n\nIt is **5**."), ("user", "Thanks")]


def test_the_commands_of_llm(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = Path(python_with("llm", "the chat program LLM")).with_name("llm")
    (tmp_path / "bin" / "llm").symlink_to(program)
    (tmp_path / "extra-openai-models.yaml").write_text(scene.on_page("text", "api_key_name"))
    more = {"LLM_USER_PATH": str(tmp_path), "PALLAS_CLIENT_TOKEN": scene.token}
    commands = scene.on_page("bash", "llm keys").splitlines()
    said = [Programs(tmp_path).run(command, tmp_path, more=more) for command in commands]
    assert said == ["", "echo: How high is Mont Blanc?\n", "echo: And Mount Everest?\n"]
    assert [role for role, _ in scene.said()] == ["user", "assistant", "user"]
