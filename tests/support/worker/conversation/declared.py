"""A worker whose agent is made from a definition, with the stand-in of its model's provider.

Knows definitions and how a worker is run for the tests; nothing of resources.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from fakes.llm_stub import run_llm_stub
from pallas_common.protocol.agent.definition import AgentDefinition, LlmDefinition
from pallas_common.protocol.agent.source import AgentSource
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fakes.llm_stub import Asked, LlmStub
    from support.worker.process import RunningWorker

NAME = "deployer"
SECRET = "opensesame-0123456789"
SECRETS = {"litellm/API_KEY": SECRET}
CONFIG = "default_model: passthrough\nllm_retries: 0\n"


@dataclass(frozen=True)
class Declared:
    """The worker, and the provider that its models are asked at."""

    worker: RunningWorker
    stub: LlmStub

    def send(self, message: str, mode: str = "auto") -> str:
        """What it answers to a message by MCP."""
        return text(call(self.worker.url, mode, NAME, message=message))

    def chat(self, headers: Mapping[str, str] = {}, **fields: Any) -> httpx.Response:
        """Its chat completion."""
        body = {"model": NAME, "messages": [{"role": "user", "content": "hello"}], **fields}
        url = f"{self.worker.origin}/v1/chat/completions"
        return httpx.post(url, json=body, headers=dict(headers), timeout=60)

    def sent(self, **fields: Any) -> tuple[httpx.Response, list[Asked]]:
        """Its chat completion, and what the provider was asked meanwhile."""
        before = len(self.stub.asked)
        return self.chat(**fields), self.stub.asked[before:]


def address(stub: LlmStub, provider: str) -> str:
    """Where models of this provider are asked."""
    return stub.anthropic_url if provider == "anthropic" else stub.openai_url


def llm(
    stub: LlmStub, provider: str = "openai", model: str = "qwen3-thinking", **changes: Any
) -> LlmDefinition:
    """A model at the stand-in, with the key that is the secret."""
    fields: dict[str, Any] = {
        "name": "house",
        "provider": provider,
        "model": model,
        "url": address(stub, provider),
        "api_key": "${secret:litellm/API_KEY}",
    }
    return LlmDefinition(**fields | changes)


@contextmanager
def run_declared(
    directory: Path, stub: LlmStub | None = None, *, config: str = CONFIG, **fields: Any
) -> Iterator[Declared]:
    """Run a worker of the agent `NAME`.

    `fields` are those of its definition, or of the `WorkerSpec`.
    """
    with run_llm_stub() if stub is None else _as_it_is(stub) as running:
        names = AgentDefinition.__dataclass_fields__
        said: dict[str, Any] = {"instruction": "You deploy.", "llm": llm(running)}
        said |= {name: value for name, value in fields.items() if name in names and name != "secrets"}
        changes = {name: value for name, value in fields.items() if name not in names or name == "secrets"}
        source = AgentSource("definition", NAME)
        definition = AgentDefinition(**said)
        folder = project(directory, agents="", config=config)
        spec: dict[str, Any] = {
            "agent": NAME,
            "source": source,
            "definition": definition,
            "secrets": SECRETS,
        } | changes
        with run_worker(folder, **spec) as worker:
            yield Declared(worker, running)


@contextmanager
def _as_it_is(stub: LlmStub) -> Iterator[LlmStub]:
    yield stub
