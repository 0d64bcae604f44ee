"""The undocumented names of fast-agent without which a worker cannot serve, and a check that they are there.

Knows names and parameters only; must not use what it looks for.
"""

from __future__ import annotations

import inspect
from importlib import metadata

from fast_agent.agents import mcp_agent
from fast_agent.core.fastagent import FastAgent, RunRuntime
from fast_agent.core.harness import AgentHarness
from fast_agent.mcp.mcp_aggregator import MCPAggregator

from pallas_worker.errors import AgentError

VERSION = metadata.version("fast-agent-mcp")

_NAMES: tuple[tuple[object, str, tuple[str, ...]], ...] = (
    (FastAgent, "_instantiate_agent_instance", ("runtime",)),
    (FastAgent, "_finalize_initial_agent_instance", ("runtime", "instance", "validate_provider_state")),
    (RunRuntime, "__init__", ("managed_instances", "instance_lock", "global_prompt_context")),
    (AgentHarness, "__init__", ("fast_agent",)),
    (mcp_agent, "MCPAggregator", ("server_names", "context")),
    (MCPAggregator, "load_servers", ("force_connect",)),
    (MCPAggregator, "attach_server", ("server_name", "options")),
    (MCPAggregator, "_reset_runtime_indexes", ()),
    (MCPAggregator, "_require_server_registry", ()),
    (MCPAggregator, "_execute_on_server", ("server_name", "operation_type")),
    (MCPAggregator, "_execute_session_method", ("client", "method_name")),
)


def check_names() -> None:
    """Make sure that every undocumented name that this file uses is where it was.

    Raises:
        AgentError: this version of fast-agent has moved one.
    """
    for owner, name, parameters in _NAMES:
        found = getattr(owner, name, None)
        known = set(inspect.signature(found).parameters) if callable(found) else set()
        if not callable(found) or not known.issuperset(parameters):
            raise unsupported(f"{getattr(owner, '__name__', owner)}.{name} is not what it was")


def unsupported(what: str) -> AgentError:
    """The error for a version of fast-agent that is not the one this was written for."""
    advice = "install the version that pallas-mcp asks for"
    return AgentError(f"fast-agent {VERSION} is not supported: {what}; {advice}", permanent=True)
