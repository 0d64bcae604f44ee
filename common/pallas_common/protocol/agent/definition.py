"""What a declared agent is: all that its worker makes it from, where another agent has a module.

Pure: the registry makes it of resources, the worker makes an agent of it. It holds no secret: texts refer to them by
`${secret:NAME/KEY}`, the worker gets their values beside it, and their digests tell that a value has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ITERATIONS = 12
"""Rounds of tool calls in a turn, unless the agent says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmDefinition:
    """A model, and where it is asked."""

    name: str
    """Of the resource."""
    provider: str
    """As fast-agent calls it: `openai`, `anthropic`, `generic`, …"""
    model: str
    """As the provider calls it."""
    url: str | None = None
    api_key: str | None = None
    """A reference to a secret, or None: the provider needs none, or the environment has it."""
    closed: bool = False
    """Whether its URL may lead nowhere but where `pallas_common.http.reach` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDefinition:
    """An MCP server that the agent may use. Texts of `settings` may refer to secrets."""

    name: str
    settings: Mapping[str, object]
    """In the words of fast-agent's settings: `transport`, `url`, `headers`, `command`, `args`, `env`, …"""
    closed: bool = False
    """Whether its URL may lead nowhere but where `pallas_common.http.reach` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """A declared agent."""

    instruction: str
    """Its system prompt, with the prompts of its project after it."""
    llm: LlmDefinition | None = None
    model: str | None = None
    """As fast-agent writes it, `provider.model`; None where `llm` is given, or `default_model` counts."""
    models: tuple[LlmDefinition, ...] = ()
    """Those that a call may have in place of `llm`."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What a turn has unless its request says otherwise, in the words of chat completions."""
    servers: tuple[ServerDefinition, ...] = ()
    tools: tuple[str, ...] | None = None
    """Patterns of the tools that it may call, `server__tool` with `*` and `?`; None for all of its servers."""
    max_iterations: int = MAX_ITERATIONS
    secrets: Mapping[str, str] = field(default_factory=dict)
    """`NAME/KEY` of each secret that is referred to → a keyed digest of its value."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> AgentDefinition:
        """The definition whose fields `dataclasses.asdict` gave, after a way through JSON.

        Raises:
            TypeError, KeyError: they are not such fields.
        """
        tools = fields["tools"]
        return cls(
            **{
                **fields,
                "llm": None if fields["llm"] is None else LlmDefinition(**fields["llm"]),
                "models": tuple(LlmDefinition(**model) for model in fields["models"]),
                "servers": tuple(ServerDefinition(**server) for server in fields["servers"]),
                "tools": None if tools is None else tuple(tools),
            }
        )
