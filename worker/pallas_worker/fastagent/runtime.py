"""One fast-agent runtime a process, and a fresh instance of the served agent for every call.

Knows how fast-agent makes instances; must not know MCP requests, metrics or the supervisor.
"""
# ruff: noqa: SLF001 - this folder is where fast-agent's private names may be used

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

import anyio
from fast_agent.agents import mcp_agent
from fast_agent.core.model_resolution import resolve_model_spec
from fast_agent.core.validation import get_agent_dependencies
from fast_agent.types import LlmStopReason, RequestParams
from mcp_types import Implementation

from pallas_worker.errors import AgentError, CallError
from pallas_worker.fastagent.aggregator import Aggregator, Call, Reachability
from pallas_worker.fastagent.names import check_names, unsupported
from pallas_worker.fastagent.shortcuts import take_shortcuts
from pallas_worker.quiet import join_logging, trim_filters, write_no_files
from pallas_worker.servers import downstreams_of, forwarding_servers, registry_for_call
from pallas_worker.usage import Turn, turn_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from fast_agent.config import MCPServerSettings, Settings
    from fast_agent.context import Context
    from fast_agent.core.fastagent import AgentInstance, FastAgent, RunRuntime
    from fast_agent.mcp.mcp_aggregator import MCPAggregator
    from fast_agent.types import PromptMessageExtended

    from pallas_worker.downstreams import Downstream
    from pallas_worker.fastagent.aggregator import ObserveOperation
    from pallas_worker.progress import Progress

DISPOSAL_TIMEOUT = 5.0
"""Seconds that the disposal of an instance may take before what hangs is abandoned."""

_log = logging.getLogger("pallas.worker.fastagent")


class Instance:
    """One instance of the served agent, for one call."""

    def __init__(self, name: str, agents: Mapping[str, Any], unreachable: Mapping[str, str]) -> None:
        self._agent = agents[name]
        self._agents = agents
        self.unreachable = unreachable
        """The downstream servers that the agent has to do without, and why."""

    def load_history(self, messages: Iterable[PromptMessageExtended]) -> None:
        """Begin with this conversation."""
        self._agent.load_message_history(list(messages))

    async def generate(self, message: PromptMessageExtended, progress: Progress) -> PromptMessageExtended:
        """The agent's answer to `message`, after all its turns and tool calls.

        Raises:
            CallError: the LLM could not be asked, or gave no answer.
        """
        params = RequestParams(tool_execution_handler=progress, emit_loop_progress=True)
        try:
            answer: PromptMessageExtended = await self._agent.generate([message], params)
        except Exception as error:
            # Providers' clients raise their own types for a refusal; an HTTP status is what they share.
            status = getattr(error, "status_code", None)
            if not isinstance(status, int):
                raise
            raise CallError(f"the LLM provider answered with HTTP {status}: {error}") from error
        if answer.stop_reason in (LlmStopReason.ERROR, LlmStopReason.TIMEOUT, LlmStopReason.CANCELLED):
            raise CallError(answer.all_text() or f"the model gave no answer ({answer.stop_reason.value})")
        return answer

    def turns(self) -> list[Turn]:
        """The LLM round-trips of all agents of this instance so far."""
        return [
            turn_of(usage)
            for agent in self._agents.values()
            if (accumulator := getattr(agent, "usage_accumulator", None)) is not None
            for usage in accumulator.turns
        ]


class AgentRuntime:
    """The running fast-agent application of this process, and the agent of it that is served."""

    def __init__(self, fast: FastAgent, runtime: RunRuntime, agent: str) -> None:
        self._fast = fast
        self._runtime = runtime
        self._agents = _needed_by(agent, fast.agents)
        self._client = Implementation(name="pallas", version=_own_version())
        self._reachability = Reachability()
        self.context: Context = fast.context
        """fast-agent's own context of this process; the settings are in it."""
        self.agent = agent
        """The served agent's name in the user's module."""
        self._forwarding = forwarding_servers(self.context.config.mcp if self.context.config else None)

    @property
    def model(self) -> str | None:
        """The served agent's model as fast-agent is told of it: its own, or else the default, or None."""
        return resolve_model_spec(self.context, model=self._agents[self.agent]["config"].model).model

    @property
    def downstreams(self) -> tuple[Downstream, ...]:
        """The downstream servers of the served agent and of the agents that it is made of."""
        names = (name for data in self._agents.values() for name in data["config"].servers)
        return downstreams_of(names, self._servers, self._forwarding)

    @property
    def _servers(self) -> Mapping[str, MCPServerSettings]:
        registry = self.context.server_registry
        return registry.registry if registry is not None else {}

    @asynccontextmanager
    async def instance(self, bearer: str | None, observe: ObserveOperation) -> AsyncIterator[Instance]:
        """A fresh instance, used by nobody else and disposed of at the end, also of a cancelled call.

        `bearer` goes to the downstream servers that opted in. A server that cannot be reached is left out.

        Raises:
            fast_agent.core.exceptions.FastAgentError: the agent cannot be made, for want of an LLM key say.
        """
        call = Call(observe, self._reachability)
        fast, runtime = self._fast_for(call, bearer), self._runtime_for_call()
        try:
            made = await fast._instantiate_agent_instance(runtime)
            await fast._finalize_initial_agent_instance(runtime, made, validate_provider_state=False)
            yield Instance(self.agent, made.agents, call.unreachable)
        finally:
            with anyio.move_on_after(DISPOSAL_TIMEOUT, shield=True) as scope:
                await _dispose(runtime.managed_instances, call.aggregators)
            if scope.cancelled_caught:
                _log.warning("an instance could not be disposed of within %g s", DISPOSAL_TIMEOUT)
            trim_filters()

    def _runtime_for_call(self) -> RunRuntime:
        """The runtime with a lock and containers of its own; a common lock makes calls wait in line."""
        prompt = self._runtime.global_prompt_context
        return dataclasses.replace(
            self._runtime,
            instance_lock=asyncio.Lock(),
            managed_instances=[],
            global_prompt_context=dict(prompt) if prompt is not None else None,
        )

    def _fast_for(self, call: Call, bearer: str | None) -> FastAgent:
        """The application as this call sees it: own context, own server settings, own agent definitions."""
        registry = registry_for_call(self._servers, self._forwarding, bearer, self._client)
        fast = copy.copy(self._fast)
        # All that the making of an instance reads of the application object is its context.
        fast.app = cast(
            "Any", _App(self.context.model_copy(update={"server_registry": registry, "pallas_call": call}))
        )
        fast.agents = {
            name: cast("Any", {**data, "config": _own_config(data["config"])})
            for name, data in self._agents.items()
        }
        return fast


def settings_of(fast: FastAgent) -> Settings:
    """The settings that the application has read from its files; they may be changed until it runs."""
    return fast._settings


@asynccontextmanager
async def open_runtime(fast: FastAgent, agent: str) -> AsyncIterator[AgentRuntime]:
    """Enter fast-agent's runtime for this process, and choose the agent called `agent`, or else its default.

    Raises:
        AgentError: this version of fast-agent is not supported, or no agent is defined.
        fast_agent.core.exceptions.FastAgentError: a definition is wrong.
    """
    check_names()
    # The one hook into the making of agents: they look the class up here.
    mcp_agent.__dict__["MCPAggregator"] = Aggregator
    take_shortcuts()
    write_no_files(settings_of(fast))
    async with fast.harness() as harness:
        join_logging()
        name = agent if agent in fast.agents else fast.get_default_agent_name()
        if name is None:
            raise AgentError("no agent is defined: decorate a function with @fast.agent(...)", permanent=True)
        if harness._runtime is None:
            raise unsupported("its harness has no runtime")
        yield AgentRuntime(fast, harness._runtime, name)


@dataclass(frozen=True, slots=True)
class _App:
    """Stands for fast-agent's application object."""

    context: Context


def _needed_by(agent: str, agents: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions of `agent` and of all that it is made of, in the order of their definition."""
    needed: set[str] = set()
    waiting = [agent]
    while waiting:
        name = waiting.pop()
        if name in agents and name not in needed:
            needed.add(name)
            waiting.extend(get_agent_dependencies(agents[name]))
    return {name: data for name, data in agents.items() if name in needed}


def _own_config(config: Any) -> Any:
    """A copy of an agent's configuration that shares no container and no request parameters with it.

    What the containers hold is shared: a deep copy would duplicate the objects behind an agent's tools.
    """
    own = copy.copy(config)
    for name, value in vars(config).items():
        if isinstance(value, list | dict | set):
            setattr(own, name, copy.copy(value))
        elif isinstance(value, RequestParams):
            setattr(own, name, value.model_copy(deep=True))
    return own


async def _dispose(instances: Iterable[AgentInstance], aggregators: Iterable[MCPAggregator]) -> None:
    """Shut the agents down, then close all connections: also those of agents whose making was cut short."""
    for instance in instances:
        await instance.shutdown()
    for aggregator in reversed(list(aggregators)):
        with contextlib.suppress(Exception):
            await aggregator.close()


def _own_version() -> str:
    try:
        return metadata.version("pallas-mcp")
    except metadata.PackageNotFoundError:
        return "0"
