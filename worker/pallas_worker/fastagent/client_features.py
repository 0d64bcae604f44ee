"""MCP's client features: sampling, by which servers use an agent's LLM, and elicitation, by which they ask a human.

Knows fast-agent from inside; must not know calls. Sampling is off unless the configuration asks for it, and its turns
are counted. There is no human: a served agent is called by programs. Its own tool that asks one gets the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.config import MCPSettings
from fast_agent.mcp import sampling
from fast_agent.tools.elicitation import get_elicitation_input_callback, set_elicitation_input_callback
from mcp_types import CallToolResult, TextContent

if TYPE_CHECKING:
    from fast_agent.config import Settings

NO_HUMAN = (
    "the caller cannot be asked: this agent is served to programs, and nobody sits at a terminal. "
    "Go on without an answer, or say in your own answer what you need to know"
)


def turn_sampling_off(settings: Settings) -> None:
    """Turn off what lets every server use the agents' LLMs, unless the settings turn it on; fast-agent has it on.

    A server with `sampling:` in its settings may use them in any case. The others do not see the capability.
    """
    if settings.mcp is None:
        settings.mcp = MCPSettings()
    client = settings.mcp.client
    if "auto_sampling" not in client.model_fields_set:
        client.auto_sampling = False


def refuse_elicitation() -> None:
    """Answer that there is no human, unless the agent's module has registered a handler of its own."""
    if get_elicitation_input_callback() is None:
        set_elicitation_input_callback(_no_human)
    for owner, name, replacement in _REPLACED:
        setattr(owner, name, replacement)


async def _no_human(*_: object) -> str:
    raise RuntimeError(NO_HUMAN)


async def _ask_human(agent: McpAgent, arguments: dict[str, Any] | None = None) -> CallToolResult:
    """Without this, the model would read that a human has cancelled."""
    if get_elicitation_input_callback() is not _no_human:
        answer: CallToolResult = await _ask_registered(agent, arguments)
        return answer
    return CallToolResult(content=[TextContent(type="text", text=NO_HUMAN)], is_error=True)


def _keep_registered() -> None:
    """Each agent that is made would otherwise replace the registered handler by one for a terminal."""


def _is_lent(_: object) -> bool:
    """Only a server that may use the LLM gets this far: by its own settings, or by those for all.

    That is decided by fast-agent's `client_callback_runtime`, which has bound the original by its own name before it is
    replaced here; `check_names` makes sure of it. Otherwise this would lend the LLM to every server.
    """
    return True


def _make_sampling_llm(params: Any, model: str, api_key: str | None, context: Any) -> Any:
    """The LLM for one request of a server; its turns are the call's."""
    llm = _make_llm(params, model, api_key, context)
    attachments = getattr(context, "pallas_attachments", None)
    if attachments is not None:
        attachments.sampled.append(llm.usage_accumulator)
    return llm


_ask_registered: Any = getattr(McpAgent, "_call_human_input_tool", None)
_make_llm: Any = getattr(sampling, "create_sampling_llm", None)
_REPLACED: tuple[tuple[Any, str, object], ...] = (
    (McpAgent, "_call_human_input_tool", _ask_human),
    (McpAgent, "_register_mcp_elicitation_adapter", staticmethod(_keep_registered)),
    (sampling, "resolve_auto_sampling_enabled", _is_lent),
    (sampling, "create_sampling_llm", _make_sampling_llm),
)
