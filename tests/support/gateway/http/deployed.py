"""A running deployment in which agents are declared over REST, with a provider's stand-in behind them and a server with
tools: what conversations from end to end need.

Knows the REST API's paths and the stand-ins; nothing of how the gateway works.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fakes.downstream import run_downstream
from fakes.llm_stub import LlmStub, by_request, run_llm_stub
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, with_gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from fakes.llm_stub import Asked, Turn
    from fakes.loopback import Fault, Recorded
    from support.gateway.door import Door

LIMITS = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}

DEFAULTS: Mapping[str, Any] = {"temperature": 0.2, "max_tokens": 4096, "top_p": 0.9, "stop": ["</deploy>"]}
DEPLOYER: Mapping[str, Any] = {
    "name": "deployer",
    "description": "I help you deploy code",
    "llm": "stub",
    "project": {"name": "platform"},
    "systemPrompt": "You are a deployment assistant.",
    "defaultParams": DEFAULTS,
}
"""The agent of the reference."""

ADD = 'CALL tools__add {"a": 2, "b": 3}'
"""A message at which the stand-in of the provider calls a tool."""


@dataclass
class Deployed:
    """The deployment, its provider, and who may do everything."""

    fleet: Fleet
    llm: LlmStub
    ada: Door

    @property
    def authorization(self) -> dict[str, str]:
        """The header with which everything may be done."""
        return {"Authorization": f"Bearer {self.ada.token}"}

    def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """The JSON of an answer of the REST API."""
        response = self.ada.rest(method, path, **options)
        assert response.status_code == status, (method, path, response.status_code, response.text)
        return response.json() if response.content else None

    def chat(self, status: int = 200, agent: str = "deployer", **body: Any) -> Any:
        """A whole turn."""
        return self.ask("POST", f"/agents/{agent}/chat", status, json=body)

    @property
    def last(self) -> Any:
        """The body of the provider's last request."""
        return self.llm.asked[-1].body


@contextmanager
def run_deployed(
    folder: Path,
    *,
    answer: Callable[[Asked], Turn] = by_request,
    fault: Callable[[Recorded], Fault | None] | None = None,
    agents: Mapping[str, tuple[str, ...]] = {"echo": ()},
) -> Iterator[Deployed]:
    """Run it until the block ends.

    Args:
        answer: what the provider says.
        fault: what happens to requests to the provider.
        agents: of agents.yaml, each with its servers of fastagent.config.yaml, which are all the one with the tools.

    Its resources: the llms `stub` (OpenAI's API) and `claude` (Anthropic's), the server `tools`, the project
    `platform`, and the agent `deployer`.
    """
    deployment = make_deployment(folder / "deployment")
    with (
        run_llm_stub(answer=answer, fault=fault, models=("stub-model", "gpt-4.1")) as llm,
        run_downstream() as tools,
    ):
        server = {"transport": "http", "url": tools.url}
        deployment.servers = {name: server for servers in agents.values() for name in servers}
        for name, servers in agents.items():
            deployment.add(name, servers=servers)
        with Fleet(with_gateway(deployment, limits=LIMITS)) as fleet:
            fleet.wait(until="settled")
            await_gateway(fleet)
            made = Deployed(fleet, llm, door(fleet))
            openai = {"type": "openai", "model": "stub-model", "url": llm.openai_url}
            anthropic = {"type": "anthropic", "model": "claude-sonnet-4-5", "url": llm.anthropic_url}
            key = {"apiKeyRef": "keys/API_KEY"}
            resources: list[tuple[str, str, Mapping[str, Any]]] = [
                ("secret", "keys", {"data": {"API_KEY": "no-key"}}),
                ("llm", "stub", openai | key),
                ("llm", "claude", anthropic | key),
                ("server", "tools", server),
                ("project", "platform", {"servers": ["tools"]}),
            ]
            files = [
                {"file": f"{kind}-{name}", "text": json.dumps(resource(kind, name, spec))}
                for kind, name, spec in resources
            ]
            made.ask("POST", "/resources", json={"files": files})
            made.ask("POST", "/agents", 201, json=dict(DEPLOYER))
            yield made


def resource(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A resource's document, as the reference writes it."""
    return {"apiVersion": "mcpctl.io/v1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
