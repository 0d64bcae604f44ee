"""One fast-agent runtime a process, and a fresh instance of the served agent for every call.

Knows what an instance is made of; must not know MCP requests, metrics or the supervisor, nor fast-agent's private
names: those are in `fastagent`.
"""

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
from fast_agent.core.model_resolution import resolve_model_spec
from fast_agent.core.validation import get_agent_dependencies
from fast_agent.types import RequestParams
from mcp_types import Implementation

from pallas_worker import fastagent
from pallas_worker.errors import AgentError
from pallas_worker.instances import Instance
from pallas_worker.quiet import join_logging, trim_filters, write_no_files
from pallas_worker.reachability import Attachments, Reachability
from pallas_worker.servers import downstreams_of, forwarding_servers, registry_for_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from fast_agent.config import MCPServerSettings
    from fast_agent.context import Context
    from fast_agent.core.fastagent import AgentInstance, FastAgent, RunRuntime

    from pallas_worker.downstreams import Downstream
    from pallas_worker.reachability import ObserveOperation

DISPOSAL_TIMEOUT = 5.0
"""Seconds that the disposal of an instance may take before what hangs is abandoned."""

_log = logging.getLogger("pallas.worker.runtime")


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
        attachments = Attachments(observe, self._reachability)
        fast, runtime = self._fast_for(attachments, bearer), self._runtime_for_call()
        try:
            made = await fastagent.make_instance(fast, runtime)
            yield Instance(self.agent, made.agents, attachments.unreachable)
        finally:
            with anyio.move_on_after(DISPOSAL_TIMEOUT, shield=True) as scope:
                await _dispose(runtime.managed_instances, attachments.aggregators)
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

    def _fast_for(self, attachments: Attachments, bearer: str | None) -> FastAgent:
        """The application as this call sees it: own context, own server settings, own agent definitions."""
        registry = registry_for_call(self._servers, self._forwarding, bearer, self._client)
        fast = copy.copy(self._fast)
        # All that the making of an instance reads of the application object is its context.
        fast.app = cast(
            "Any",
            _App(
                self.context.model_copy(
                    update={"server_registry": registry, "pallas_attachments": attachments}
                )
            ),
        )
        fast.agents = {
            name: cast("Any", {**data, "config": _own_config(data["config"])})
            for name, data in self._agents.items()
        }
        return fast


@asynccontextmanager
async def open_runtime(fast: FastAgent, agent: str) -> AsyncIterator[AgentRuntime]:
    """Enter fast-agent's runtime for this process, and choose the agent called `agent`, or else its default.

    Raises:
        AgentError: this version of fast-agent is not supported, or no agent is defined.
        fast_agent.core.exceptions.FastAgentError: a definition is wrong.
    """
    fastagent.check_names()
    fastagent.use_own_aggregator()
    fastagent.take_shortcuts()
    write_no_files(fastagent.settings_of(fast))
    async with fast.harness() as harness:
        join_logging()
        name = agent if agent in fast.agents else fast.get_default_agent_name()
        if name is None:
            raise AgentError("no agent is defined: decorate a function with @fast.agent(...)", permanent=True)
        yield AgentRuntime(fast, fastagent.runtime_of(harness), name)


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


async def _dispose(instances: Iterable[AgentInstance], aggregators: Iterable[Any]) -> None:
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
