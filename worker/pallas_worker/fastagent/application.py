"""The application of the user's module as fast-agent holds it, and the check of all names that a worker needs of it.

Knows fast-agent from inside; must not know calls. What a worker cannot do without is
checked at its start (`check_names`).
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import functools
import inspect
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fast_agent import config, paths
from fast_agent.agents import mcp_agent, tool_agent
from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.agents.tool_agent import ToolAgent
from fast_agent.agents.tool_runner import ToolRunner
from fast_agent.agents.workflow.agents_as_tools_agent import AgentsAsToolsAgent
from fast_agent.core import direct_decorators
from fast_agent.core.fastagent import FastAgent, RunRuntime
from fast_agent.core.harness import AgentHarness
from fast_agent.core.instruction import InstructionBuilder
from fast_agent.llm import model_factory
from fast_agent.llm.fastagent_llm import FastAgentLLM
from fast_agent.mcp import client_callback_runtime, client_gateway, mcp_aggregator, sampling
from fast_agent.mcp.client_callback_runtime import MCPClientCallbackRuntime
from fast_agent.mcp.client_connection import MCPClientConnection
from fast_agent.mcp.mcp_aggregator import MCPAggregator
from fast_agent.skills import registry as skill_registry
from fast_agent.skills import scope as skill_scope
from mcp.client.session import ClientSession

from pallas_worker.interface.errors import AgentError

if TYPE_CHECKING:
    from fast_agent.config import Settings
    from fast_agent.core.fastagent import AgentInstance

GUARDED: tuple[type[Any], ...] = (ToolAgent, McpAgent, AgentsAsToolsAgent)
"""The classes that run tools; each has methods of its own for it, which may call its parent's."""

VERSION = metadata.version("fast-agent-mcp")

_NAMES: tuple[tuple[object, str, tuple[str, ...]], ...] = (
    *((owner, "run_tools", ("request", "request_params")) for owner in GUARDED),
    *((owner, "call_tool", ("name", "arguments", "tool_use_id")) for owner in GUARDED),
    (getattr(tool_agent, "FunctionTool", None), "run", ("arguments",)),
    (AgentsAsToolsAgent, "_run_child_tool_clone", ("correlation_id",)),
    (ToolAgent, "_tool_runner_llm_step", ("messages", "request_params", "tools")),
    (ToolAgent, "_build_tool_runner_hooks", ("request_params",)),
    (ToolRunner, "__init__", ("agent", "messages", "request_params", "hooks")),
    (ToolRunner, "_ensure_tool_response_staged", ()),
    (ToolRunner, "_consume_staged_terminal_response", ()),
    *((owner, "list_tools", ()) for owner in GUARDED),
    (
        mcp_agent,
        "build_mcp_tool_route",
        ("requested_name", "catalog", "local_tool_exists", "is_filesystem_runtime_tool"),
    ),
    (McpAgent, "_programmatic_tool_runtime", ()),
    (direct_decorators, "_apply_templates", ("text",)),
    (direct_decorators, "read_text_source", ()),
    (InstructionBuilder, "_resolve_file_placeholder_path", ("file_path",)),
    (McpAgent, "_call_human_input_tool", ("arguments",)),
    (McpAgent, "process_rendered_instruction", ("instruction",)),
    (model_factory, "load_model_overlay_registry", ("start_path", "home")),
    (McpAgent, "_register_mcp_elicitation_adapter", ()),
    (sampling, "resolve_auto_sampling_enabled", ()),
    (client_callback_runtime, "resolve_auto_sampling_enabled", ("app_context",)),
    (sampling, "create_sampling_llm", ("params", "model_string", "api_key", "app_context")),
    (sampling, "sample", ("server_config", "agent_model", "app_context")),
    (FastAgent, "_instantiate_agent_instance", ("runtime",)),
    (FastAgent, "_finalize_initial_agent_instance", ("runtime", "instance", "validate_provider_state")),
    (RunRuntime, "__init__", ("managed_instances", "instance_lock", "global_prompt_context")),
    (AgentHarness, "__init__", ("fast_agent",)),
    (AgentHarness, "_load_environment_agent_cards", ()),
    (paths, "default_skill_paths", ("settings", "cwd")),
    (skill_registry, "default_skill_paths", ()),
    (skill_scope, "default_skill_paths", ()),
    (config, "_merge_home_plugin_settings", ("settings", "global_plugin_home", "active_config_file")),
    (mcp_agent, "MCPAggregator", ("server_names", "context")),
    (MCPAggregator, "load_servers", ("force_connect",)),
    (MCPAggregator, "_attach_server_locked", ("server_name", "server_config", "options")),
    (MCPAggregator, "_commit_server_attachment", ("server_name", "discovery")),
    (
        mcp_aggregator,
        "_AttachmentDiscovery",
        ("tools", "prompts", "skill_registry", "app_integration_config", "capabilities"),
    ),
    (MCPAggregator, "_reset_runtime_indexes", ()),
    (MCPAggregator, "_require_server_registry", ()),
    (MCPAggregator, "_handle_tool_list_changed", ("server_name",)),
    (MCPAggregator, "_fetch_server_tools", ("server_name", "cache_mode")),
    (MCPAggregator, "_fetch_server_prompts", ("server_name", "strict", "cache_mode")),
    (MCPAggregator, "_require_connection_manager", ()),
    (ClientSession, "_absorb_tool_listing", ("result", "complete")),
    (MCPAggregator, "_create_callback_runtime", ("server_name",)),
    (MCPAggregator, "_execute_on_server", ("server_name", "operation_type")),
    (MCPAggregator, "_execute_session_method", ("client", "method_name")),
    (FastAgentLLM, "_base_url", ()),
    (FastAgentLLM, "_notify_stream_listeners", ("chunk",)),
    (FastAgentLLM, "_execute_with_retry", ("func",)),
    (FastAgentLLM, "_is_fatal_retry_error", ("error",)),
    (FastAgentLLM, "_is_request_too_large", ("error",)),
    (FastAgentLLM, "_handle_exhausted_retries", ("last_error", "on_final_error")),
    (client_gateway, "get_stderr_handler", ("server_name", "on_line")),
    (client_gateway, "_create_transport", ("server_name", "config")),
    (client_gateway, "sse_client", ("url", "httpx_client_factory")),
    (FastAgentLLM, "generate", ("messages",)),
    (FastAgentLLM, "structured", ("messages",)),
    (FastAgentLLM, "structured_schema", ("messages",)),
    (MCPClientConnection, "__init__", ("transport", "callbacks")),
    (MCPClientCallbackRuntime, "__init__", ("server_name", "server_config", "aggregator")),
)


@functools.cache
def check_names() -> None:
    """Make sure that every undocumented name without which a worker cannot serve is where it was; looks once.

    Raises:
        AgentError: this version of fast-agent has moved one.
    """
    for owner, name, parameters in _NAMES:
        found = getattr(owner, name, None)
        known = set(inspect.signature(found).parameters) if callable(found) else set()
        if not callable(found) or not known.issuperset(parameters):
            raise _unsupported(f"{getattr(owner, '__name__', owner)}.{name} is not what it was")


def _unsupported(what: str) -> AgentError:
    """The error for a version of fast-agent that is not the one this was written for."""
    advice = "install the version that pallas-mcp asks for"
    return AgentError(f"fast-agent {VERSION} is not supported: {what}; {advice}", permanent=True)


def settings_of(fast: FastAgent) -> Settings:
    """The settings that the application has read from its files; they may be changed until it runs."""
    return fast._settings


def forget_settings() -> None:
    """Let the next application of this process read its settings, as if it were the first."""
    config._settings = None


def runtime_of(harness: AgentHarness) -> RunRuntime:
    """What an entered harness makes instances with.

    Raises:
        AgentError: it has none.
    """
    if harness._runtime is None:
        raise _unsupported("its harness has no runtime")
    return harness._runtime


async def make_instance(fast: FastAgent, runtime: RunRuntime) -> AgentInstance:
    """Make the agents of `fast`; `runtime.managed_instances` has them even when the second step fails."""
    made = await fast._instantiate_agent_instance(runtime)
    await fast._finalize_initial_agent_instance(runtime, made, validate_provider_state=False)
    return made


def host_of(llm: Any) -> str | None:
    """The host, with its port if that is named, which an LLM's requests go to; None where only its client knows."""
    try:
        url = llm._base_url()
    except Exception:  # noqa: BLE001 - of any provider, and only wanted for a message
        return None
    return urlsplit(url).netloc.rpartition("@")[2] or None if isinstance(url, str) else None


def thinks(llm: Any) -> bool:
    """Whether an LLM of Anthropic's asks its model to think before it answers."""
    return bool(_thinking(llm, None)[1])


def limit_beside_thinking(llm: Any, limit: int) -> int:
    """What an LLM of Anthropic's makes of a limit of tokens: one that leaves room beside the budget of thought."""
    found = _thinking(llm, limit)[0].get("max_tokens")
    return found if isinstance(found, int) else limit


def _thinking(llm: Any, limit: int | None) -> tuple[dict[str, Any], bool]:
    """What its requests say of thought. The name is checked here: at a start, that would import a provider's library.

    Raises:
        AgentError: this version of fast-agent has moved it.
    """
    resolve = getattr(llm, "_resolve_thinking_arguments", None)
    if resolve is None:
        raise _unsupported("its models of Anthropic do not say how they think")
    arguments, enabled = resolve(llm.default_request_params.model, limit, None)
    return arguments, enabled
