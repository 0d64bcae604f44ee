"""Clients of chat completions, each its real release and unchanged, in a conversation with an agent of a deployment.

What each of them is given is what docs/chat-completions.md says, with the ports of this deployment.
"""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, Fault, LlmStub, Recorded, Turn, by_request, run_llm_stub
from real.clients.chat_program import COMPLETE, CONVERSATION
from real.clients.programs import Programs, python_with
from support.data.image_data import PNG
from support.documents.blocks import blocks_of
from support.fleet.deployment import Deployment, make_deployment
from support.fleet.fleet import Fleet
from support.fleet.pty_process import PtyProcess
from support.gateway.door import await_gateway, operator_token, with_gateway
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = ROOT / "docs" / "chat-completions.md"
ADD = 'CALL tools__add {"a": 2, "b": 3}'
ADDED = 'tools said: {"result":5.0}'
FAIL = "fail"
"""A message at which the provider fails."""
STOP = "stop"
"""A message at which it speaks, calls a tool, and then fails."""
LEAVE = "leave"
"""A message at which it speaks without an end."""
HELD = "stay"
"""A message that the provider does not answer before the end."""

OWN_CLASSES: Mapping[str, Mapping[str, Any]] = {
    "openai": {
        "provider": "InternalServerError",
        "provider, in the middle": ("APIError", None),
        "too late": ("APITimeoutError", None),
    },
    "litellm": {
        "provider": "BadGatewayError",
        "provider, in the middle": ("MidStreamFallbackError", 500),
        "too late": ("Timeout", 408),
    },
}
"""Package → the classes of errors that are its own, with their statuses where those are not the response's."""


@dataclass
class Deployed:
    """A running deployment of `research`, which has tools and sees, and `busy`, which has a call and takes no other."""

    deployment: Deployment
    llm: LlmStub
    fleet: Fleet

    @property
    def gateway(self) -> tuple[str, str]:
        """The base URL of OpenAI's API at the gateway, and a token that may run all agents."""
        port = self.deployment.document["gateway"]["port"]
        return f"http://127.0.0.1:{port}/v1", operator_token(self.fleet)

    def base_url(self, agent: str) -> str:
        return self.deployment.url(agent).removesuffix("/mcp") + "/v1"

    def on_page(self, language: str, word: str) -> str:
        """The one block of the page with this word in it, for this deployment."""
        (text,) = (
            block.text for block in blocks_of(PAGE) if block.language == language and word in block.text
        )
        return text.replace("http://localhost:24201/v1", self.base_url("research"))

    def roles(self, at: int) -> list[str]:
        """The roles of the messages that the model was given in one of its requests."""
        return [message["role"] for message in self.llm.asked[at].body["messages"]]

    def wait_for_gone(self, count: int) -> None:
        """Wait until the provider has been left alone in so many of its endless answers."""
        self.llm.loopback.wait_for_gone(
            lambda gone: sum(LEAVE in request.body.decode() for request in gone) == count
        )


def answer(asked: Asked) -> Turn:
    """What the provider says."""
    if asked.user == STOP and not asked.tool_results:
        return Turn(text="Let me see.", calls=(Call("tools__add", {"a": 2, "b": 3}),))
    if asked.user in (FAIL, STOP):
        return Turn(status=400, text="no such luck")
    if asked.user == LEAVE:
        return Turn(text="word " * 100_000, delay=0.01)
    return by_request(asked)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:

    def is_held(request: Recorded) -> bool:
        return request.path.endswith("/chat/completions") and HELD in request.body.decode()

    def fault(request: Recorded) -> Fault | None:
        return Fault(hold=True) if is_held(request) else None

    with run_llm_stub(answer=answer, fault=fault) as llm, run_downstream() as tools:
        deployment = make_deployment(tmp_path_factory.mktemp("fleet"))
        deployment.settings = {
            "default_model": "openai.stub-model",
            "model_capabilities": {"vision": True},
            "openai": {"api_key": "no-key", "base_url": llm.openai_url},
            "llm_retries": 0,
        }
        deployment.servers = {"tools": {"transport": "http", "url": tools.url}}
        deployment.add("research", "default_model", servers=("tools",))
        deployment.add("busy", "default_model", max_concurrency=1, max_queue=0)
        with Fleet(with_gateway(deployment, workers="open")) as fleet:
            fleet.wait()
            deployed = Deployed(deployment, llm, fleet)
            await_gateway(fleet)
            url = f"{deployed.base_url('busy')}/chat/completions"
            call = {"model": "busy", "messages": [{"role": "user", "content": HELD}]}
            # An agent that has answered once can say when there may be room.
            httpx.post(url, json={**call, "messages": [{"role": "user", "content": "x"}]}).raise_for_status()
            caller = threading.Thread(target=httpx.post, args=(url,), kwargs={"json": call})
            caller.start()
            try:
                llm.loopback.wait_for(lambda requests: any(map(is_held, requests)))
                yield deployed
            finally:
                llm.loopback.release()
                caller.join()


@pytest.mark.parametrize(
    ("package", "what", "through"),
    [
        ("openai", "the newest client of OpenAI", "worker"),
        ("openai", "the newest client of OpenAI", "gateway"),
        ("litellm", "LiteLLM", "gateway"),  # which passes on what the worker says
    ],
)
def test_a_program_has_a_conversation(
    deployed: Deployed, tmp_path: Path, package: str, what: str, through: str
) -> None:
    python = python_with(package, what)
    example = deployed.on_page("python", f"import {'OpenAI' if package == 'openai' else package}")
    program, busy = example + COMPLETE[package] + CONVERSATION, deployed.base_url("busy")
    if through == "gateway":
        busy, token = deployed.gateway
        program = program.replace(deployed.base_url("research"), busy).replace('"unused"', f'"{token}"')
    (tmp_path / "talk.py").write_text(program)
    first = len(deployed.llm.asked)
    deployed.llm.loopback.gone.clear()
    command = [python, "talk.py", ADD, PNG, FAIL, STOP, LEAVE, busy]
    lines = Programs(tmp_path).run(command, tmp_path).splitlines()
    told = json.loads(lines[-1])

    assert lines[:2] == ["echo: How high is Mont Blanc?", "echo: And Mount Everest?"]
    assert told["whole"] == told["stream"] == [ADDED, 240]
    assert told["image"] == "echo: What is this?"
    assert told["rows"] == "echo: And now?"

    call = ["user", "assistant", "tool", "assistant"]
    assert deployed.roles(first + 1) == ["system", "user", "assistant", "user"]
    assert deployed.roles(first + 4) == ["system", "user", "assistant", "user"]
    assert deployed.llm.asked[first + 4].images == 1
    assert deployed.roles(first + 6) == ["system", *call, "user", "assistant", "tool"]
    assert deployed.roles(first + 7) == ["system", *call, *call, "user"]
    failing = [asked.user for asked in deployed.llm.asked[first + 8 :]]
    assert failing == [FAIL, STOP, STOP, LEAVE, LEAVE], "no client sends again what may have had effects"
    deployed.wait_for_gone(2)
    errors_are_right(package, told["errors"], through)


def errors_are_right(package: str, errors: Mapping[str, Mapping[str, Any]], through: str) -> None:
    """Each has the class that the package has for its status, and says what is wrong."""
    own = OWN_CLASSES[package]
    missing = " here; this agent is 'research'" if through == "worker" else ", or this token may not run it"
    wanted = {
        "model": ("NotFoundError", 404, f"the model 'nobody' does not exist{missing}"),
        "parameter": ("BadRequestError", 400, "temperature: must be from 0 to 2, not 9"),
        "provider": (own["provider"], 502, "refused the request as invalid"),
        "provider, in the middle": (*own["provider, in the middle"], "refused the request as invalid"),
        "busy": ("RateLimitError", 429, "the agent is busy"),
        "busy, streamed": ("RateLimitError", 429, "the agent is busy"),
        "too late": (*own["too late"], "timed out"),
    }
    assert errors.keys() == wanted.keys()
    for name, (kind, status, text) in wanted.items():
        assert (errors[name]["kind"], errors[name]["status"]) == (kind, status), errors[name]
        assert text in errors[name]["text"]
    assert errors["provider, in the middle"]["said"] == "Let me see."
    assert int(errors["busy"]["retry_after"]) == int(errors["busy, streamed"]["retry_after"]) == 1


@pytest.fixture(scope="module")
def llm(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The program LLM, in whose folder stand the models of the page, and one for an agent that is not there."""
    program = Path(python_with("llm", "the chat program LLM")).with_name("llm")
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    (home / "bin" / "llm").symlink_to(program)
    programs = Programs(home)
    models = deployed.on_page("text", "model_id")
    models += models.replace("research", "nobody")
    folder = Path(programs.run('dirname "$(llm logs path)"', home).strip())
    assert folder.is_relative_to(home)
    (folder / "extra-openai-models.yaml").write_text(models)
    (home / "picture.png").write_bytes(base64.b64decode(PNG))
    return programs


def test_the_commands_of_llm(deployed: Deployed, llm: Programs) -> None:
    *commands, chat = deployed.on_page("bash", "llm -m").splitlines()
    assert chat == "llm chat -m research"
    first = len(deployed.llm.asked)
    said = [llm.run(command, llm.home) for command in commands]
    assert said == ["echo: How high is Mont Blanc?\n", "echo: And Mount Everest?\n", "echo: What is this?\n"]
    assert deployed.roles(first + 1) == ["system", "user", "assistant", "user"]
    assert [asked.images for asked in deployed.llm.asked[first:]] == [0, 0, 1]
    whole = llm.run(["llm", "-c", "--no-stream", ADD], llm.home)
    assert whole == f"{ADDED}\n"
    assert deployed.llm.asked[-1].images == 1, "the picture is still in the conversation"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("-m nobody x", "Error: Error code: 404 - the model 'nobody' does not exist here; this agent is"),
        (f"-m research {STOP}", "Let me see.Error: the LLM provider"),
    ],
    ids=["another model", "a provider that fails in the middle"],
)
def test_an_error_as_llm_shows_it(llm: Programs, arguments: str, shown: str) -> None:
    printed = llm.run(f"llm {arguments} 2>&1 || echo failed", llm.home)
    assert printed.startswith(shown)
    assert printed.endswith("\nfailed\n")


def test_a_chat_in_the_terminal(deployed: Deployed, llm: Programs) -> None:
    first = len(deployed.llm.asked)
    deployed.llm.loopback.gone.clear()
    with PtyProcess(["llm", "chat", "-m", "research"], directory=llm.home, env=llm.environment) as chat:
        chat.until(r"^> $")
        chat.type("hello\r")
        chat.until(r"^echo: hello$")
        chat.type(f"{ADD}\r")
        chat.until(r"^tools said: .*5\.0")
        chat.type("and now?\r")
        chat.until(r"^echo: and now\?$")
        assert deployed.roles(first + 1) == ["system", "user", "assistant", "user"]
        assert deployed.roles(-1) == ["system", *["user", "assistant"] * 2, "user"]
        chat.type(f"{LEAVE}\r")
        chat.until(r"^word word")
        chat.type("\x03")
        assert chat.wait() == 1
    deployed.wait_for_gone(1)
