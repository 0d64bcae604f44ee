"""What a declared agent is made from, put together from the resources that it refers to. Pure; holds no secret.

Whether all of them are there has been looked at before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.definition import (
    MAX_ITERATIONS,
    AgentDefinition,
    LlmDefinition,
    ServerDefinition,
)
from pallas_registry.resources.model import ResourceId
from pallas_registry.resources.references import is_closed
from pallas_registry.resources.secret_values import secret_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_registry.resources.model import Resource, ResourceSet

INSTRUCTION = "You are a helpful assistant."
"""Of an agent without `systemPrompt`."""

_SETTINGS = {
    "url": "url",
    "headers": "headers",
    "forwardInboundAuth": "forward_inbound_auth",
    "command": "command",
    "args": "args",
    "env": "env",
    "cwd": "cwd",
    "readTimeoutSeconds": "read_timeout_seconds",
}
"""Of a server's spec, in the words of fast-agent's settings."""


class Definitions:
    """Makes the definitions of one set of resources; what agents share is made once.

    Args:
        digest: how a secret's value is told from another one without being shown.
    """

    def __init__(self, resources: ResourceSet, digest: Callable[[str], str]) -> None:
        self._resources = resources
        self._digest = digest
        self._llms: dict[str, LlmDefinition] = {}
        self._servers: dict[str, ServerDefinition] = {}
        self._digests: dict[ResourceId, dict[str, str]] = {}
        """By llm or server: the secrets that it refers to."""

    def definition(self, agent: Resource) -> AgentDefinition:
        """What the agent is made from.

        Raises:
            KeyError: something that it refers to is not there.
        """
        spec = agent.spec
        project = self._spec("project", spec["project"]) if "project" in spec else {}
        servers = tuple(dict.fromkeys((*project.get("servers", ()), *spec.get("servers", ()))))
        llms = tuple(dict.fromkeys(filter(None, (spec.get("llm"), *spec.get("models", ())))))
        used = [
            *(ResourceId("llm", name) for name in llms),
            *(ResourceId("server", name) for name in servers),
        ]
        prompts = (prompt["text"] for prompt in project.get("prompts", ()))
        tools = spec.get("tools")
        return AgentDefinition(
            instruction="\n\n".join((spec.get("systemPrompt", INSTRUCTION), *prompts)),
            llm=self._llm(spec["llm"]) if "llm" in spec else None,
            model=spec.get("model"),
            models=tuple(self._llm(name) for name in spec.get("models", ())),
            parameters=spec.get("defaultParams", {}),
            servers=tuple(self._server(name) for name in servers),
            tools=None if tools is None else tuple(tools),
            max_iterations=spec.get("maxIterations", MAX_ITERATIONS),
            secrets={key: digest for id_ in used for key, digest in self._secrets(id_).items()},
        )

    def server(self, name: str) -> ServerDefinition:
        """An MCP server alone.

        Raises:
            KeyError: it is not there.
        """
        return self._server(name)

    def _llm(self, name: str) -> LlmDefinition:
        if name not in self._llms:
            spec = self._spec("llm", name)
            key = spec.get("apiKeyRef")
            self._llms[name] = LlmDefinition(
                name=name,
                provider=spec["type"],
                model=spec["model"],
                url=spec.get("url"),
                closed=is_closed(self._resources[ResourceId("llm", name)], self._resources),
                api_key=None if key is None else f"${{secret:{key}}}",
            )
        return self._llms[name]

    def _server(self, name: str) -> ServerDefinition:
        if name not in self._servers:
            spec = self._spec("server", name)
            transport = spec.get("transport") or ("http" if "url" in spec else "stdio")
            said = {theirs: spec[ours] for ours, theirs in _SETTINGS.items() if ours in spec}
            self._servers[name] = ServerDefinition(
                name=name,
                settings={"transport": transport, **said},
                closed=is_closed(self._resources[ResourceId("server", name)], self._resources),
            )
        return self._servers[name]

    def _spec(self, kind: Any, name: str) -> Mapping[str, Any]:
        return self._resources[ResourceId(kind, name)].spec

    def _secrets(self, id_: ResourceId) -> dict[str, str]:
        if id_ not in self._digests:
            values = secret_values(self._resources[id_], self._resources)
            self._digests[id_] = {reference: self._digest(value) for reference, value in values}
        return self._digests[id_]
