"""One fast-agent runtime a process, and a fresh instance of the served agent for every call.

Knows what an instance is made of; must not know MCP requests, metrics or the supervisor, nor fast-agent's private
names: those are in `fastagent`.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import anyio
from fast_agent.core.instruction_refresh import rebuild_agent_instruction
from fast_agent.core.model_resolution import resolve_model_spec
from mcp_types import Implementation

from pallas_common import __version__
from pallas_common.logs.setup import get_logger
from pallas_worker.agent.definitions import (
    copies_for_call,
    needed_by,
    refuse_void_filters,
    served_agent,
    with_model,
)
from pallas_worker.agent.disposal import Garbage, collect_rarely, note_parts, shut_down, take_apart
from pallas_worker.agent.instance import Instance, PreparedInstance
from pallas_worker.agent.models.capabilities import asked_models, model_reference, vision_of
from pallas_worker.agent.models.keys import TOKEN_PROVIDERS
from pallas_worker.agent.parts import parts_of
from pallas_worker.agent.pool import Pool
from pallas_worker.downstreams.credentials import TOKEN_HEADER, show_credentials
from pallas_worker.downstreams.reachability import Attachments, Reachability
from pallas_worker.downstreams.settings import (
    downstreams_of,
    forwarding_servers,
    give_bearer,
    opted_in,
    registry_for_call,
)
from pallas_worker.fastagent.aggregator import Aggregator, use_own_aggregator
from pallas_worker.fastagent.application import make_instance, runtime_of, settings_of
from pallas_worker.fastagent.client_features import refuse_elicitation, turn_sampling_off
from pallas_worker.fastagent.current_call import current_call
from pallas_worker.fastagent.implicit_sources import settle_subagents
from pallas_worker.fastagent.instructions.dates import with_date
from pallas_worker.fastagent.instructions.files import begin_rendering
from pallas_worker.fastagent.shortcuts import take_shortcuts
from pallas_worker.fastagent.silence import disable_output_files, join_logging, trim_filters
from pallas_worker.fastagent.streams.answers import take_answers_whole
from pallas_worker.fastagent.streams.pacing import pace, pace_streams
from pallas_worker.fastagent.streams.retries import judge_retries
from pallas_worker.fastagent.streams.tap import tap_streams
from pallas_worker.fastagent.tools.guard import guard_tools
from pallas_worker.fastagent.tools.offered import offer_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from fast_agent.config import MCPServerSettings
    from fast_agent.context import Context
    from fast_agent.core.fastagent import FastAgent, RunRuntime
    from fast_agent.mcp_server_registry import ServerRegistry

    from pallas_common.protocol.agent.sibling import Sibling
    from pallas_common.protocol.reports import PartReport, ServerReport
    from pallas_worker.downstreams.credentials import Credential
    from pallas_worker.downstreams.facts import Downstream
    from pallas_worker.downstreams.reachability import ObserveOperation
    from pallas_worker.fastagent.tools.rules import Globs
    from pallas_worker.interface.vision import Vision

DISPOSAL_TIMEOUT = 5.0  # seconds, before what hangs of an instance is abandoned
WARM = 4  # instances made ahead at a time
WARM_WITH_PROCESSES = 1  # where each has processes of its own: servers that are started as a command

_log = get_logger("pallas.worker.runtime")


class AgentRuntime:
    """The running fast-agent application of this process, and the agent of it that is served."""

    def __init__(
        self, fast: FastAgent, runtime: RunRuntime, agent: str, permitted: Globs | None = None
    ) -> None:
        self._fast = fast
        self._runtime = runtime
        self._permitted = permitted
        self._agents = needed_by(agent, fast.agents)
        self.reachability = Reachability()
        """What calls have learnt of the downstream servers."""
        self.siblings: Mapping[str, Sibling] = {}
        """Which of the servers are agents of the deployment; to be set before the first instance is made."""
        self.gateways: frozenset[str] = frozenset()  # likewise, its gateway
        self._model_factories: dict[str | None, Any] = {}
        self._context: Context = fast.context
        self.agent = agent
        """The served agent's name in the user's module."""
        self.asked_models = asked_models(agent, self._agents, self._context)
        """The models that an answer may be made of, each once: that of the served agent first, if it asks one."""
        self._forwarding = forwarding_servers(self._context.config.mcp if self._context.config else None)
        self._opted_in = opted_in(self._servers, self._forwarding)
        servers = self._servers.items()
        # A server to which fast-agent itself forwards a token knows the caller, too.
        self._knowing = self._opted_in | {
            name for name, s in servers if s.auth is not None and s.auth.forward
        }
        self._observe: ObserveOperation = lambda *_: None
        # Of a server that knows the caller, an attempt to attach it says nothing about the next caller.
        self.reachability.watched = frozenset(server.name for server in self.downstreams) - self._knowing
        # An agent is made otherwise for a caller with a token by its LLM's key, or by a server's settings.
        self._made_for_caller = self._knowing > self._opted_in or self.takes_callers_keys
        local = any(server.transport == "stdio" for server in self.downstreams)
        self._garbage = Garbage()
        self._pool = Pool(self._prepared, self._is_usable, size=WARM_WITH_PROCESSES if local else WARM)

    @property
    def agents(self) -> tuple[str, ...]:
        """The served agent and those that it is made of, in the order of their definition."""
        return tuple(self._agents)

    @property
    def model(self) -> str | None:
        """The served agent's model as fast-agent gets it: its own, or else the default, or None."""
        return resolve_model_spec(self._context, model=self._agents[self.agent]["config"].model).model

    def parts(
        self, tools: Mapping[str, Sequence[str]], qualified: Callable[[str | None], str | None]
    ) -> tuple[tuple[PartReport, ...], tuple[ServerReport, ...], int]:
        """What the served agent is made of; see `parts_of`. `qualified` writes a model with its provider."""

        def model_of(config: Any) -> str | None:
            return qualified(resolve_model_spec(self._context, model=config.model).model)

        return parts_of(self.agent, self._agents, self.downstreams, tools, model_of)

    @property
    def secret_keys(self) -> frozenset[str]:
        """The keys that stand neither in the settings nor in the environment: of definitions and of overlays."""
        given = (data["config"].api_key for data in self._agents.values())
        overlaid = (model.overlay.api_key for model in self.asked_models)
        return frozenset(key for key in (*given, *overlaid) if key)

    @property
    def takes_callers_keys(self) -> bool:
        """Whether a model's provider takes the caller's own token for its key."""
        return any(model.reference.provider in TOKEN_PROVIDERS for model in self.asked_models)

    def vision(self, model: str | None = None) -> Vision:
        """The images that the served agent takes, with its own model or another one.

        Raises:
            ArgumentError: the served agent asks no model itself.
        """
        agents = self._with_model(model)
        return vision_of(self.agent, agents, self._context)

    @property
    def downstreams(self) -> tuple[Downstream, ...]:
        """The downstream servers of the served agent and of the agents that it is made of."""
        used = (name for data in self._agents.values() for name in data["config"].servers)
        return downstreams_of(used, self._servers, self._forwarding)

    @property
    def _servers(self) -> Mapping[str, MCPServerSettings]:
        registry = self._context.server_registry
        return registry.registry if registry is not None else {}

    @asynccontextmanager
    async def instance(
        self, bearer: str | None, observe: ObserveOperation, model: str | None = None
    ) -> AsyncIterator[Instance]:
        """A fresh instance, used by one call and disposed of afterwards, also that of a cancelled call.

        `bearer` goes to the downstream servers that opted in. A server that cannot be reached is left out. `model`
        is asked by the served agent in place of its own.

        Raises:
            ArgumentError: the served agent asks no model itself.
            fast_agent.core.exceptions.FastAgentError: the agent cannot be made, for want of an LLM key say.
        """
        agents = self._with_model(model)
        same_for_all = model is None and (bearer is None or not self._made_for_caller)
        owned = self._pool.take() if same_for_all else None
        if owned is None:
            owned = self._pool.open(self._prepared(observe, agents=agents))
        try:
            prepared = await owned.value()
            await self._complete(prepared, bearer, observe)
            yield prepared.instance
        finally:
            self._pool.give_up(owned)
            await self._pool.settle()

    @asynccontextmanager
    async def first_instance(self) -> AsyncIterator[Instance]:
        """An instance to try before there are calls; if it is as all callers get it, the first call gets this one."""
        # It connects to no other agent, which may start as well, and wait for this one.
        owned = self._pool.open(self._prepared(siblings=self.siblings))
        kept = False
        try:
            prepared = await owned.value()
            await self._complete(prepared, None, self._observe)
            yield prepared.instance
            kept = not self._opted_in and self._pool.offer(owned)
        finally:
            if not kept:
                self._pool.give_up(owned)
                await self._pool.settle()

    @asynccontextmanager
    async def unattached_instance(self) -> AsyncIterator[Instance]:
        """An instance that talks to none of its servers: to see whether one can be made; no call can use it."""
        async with self._prepared(deferred=frozenset(self._servers)) as prepared:
            yield prepared.instance

    async def keep_warm(self, observe: ObserveOperation) -> None:
        """Make instances ahead until cancelled; `observe` gets the operations on downstream servers that this takes."""
        self._observe = observe
        await self._pool.keep()

    def attach_again(self) -> None:
        """Try soon to make an instance with all its servers, without a call: one of them seems to be back."""
        self._pool.nudge()

    async def close(self) -> None:
        """Wait until all instances are disposed of."""
        await self._pool.close(DISPOSAL_TIMEOUT)

    def _with_model(self, model: str | None) -> Mapping[str, Any]:
        """The definitions, with another model of the served agent if one is given."""
        if model is None:
            return self._agents
        own = model_reference(self.model).provider if self.model is not None else None
        same = model_reference(model).provider == own
        return with_model(self.agent, self._agents, model, same_provider=same)

    @asynccontextmanager
    async def _prepared(
        self,
        observe: ObserveOperation | None = None,
        deferred: frozenset[str] | None = None,
        agents: Mapping[str, Any] | None = None,
        siblings: Mapping[str, Sibling] | None = None,
    ) -> AsyncIterator[PreparedInstance]:
        """An instance with the servers that are the same for all callers, or without those that are `deferred`.

        It is made of these definitions of `agents`, or those of the module. It connects to `siblings`, or else to
        those that start on demand, when it calls them.
        """
        siblings = siblings or {name: each for name, each in self.siblings.items() if each.on_demand}
        if deferred is None:
            deferred = self._opted_in
        attachments = Attachments(
            observe or self._observe,
            self.reachability,
            deferred=deferred,
            callers=self._knowing,
            siblings=siblings,
            agents=frozenset(self.siblings),
            gateways=self.gateways,
        )
        losses = self.reachability.losses
        rendering = begin_rendering()
        registry = registry_for_call(self._servers, _CLIENT)
        fast = self._fast_for(attachments, registry, agents or self._agents)
        runtime = self._runtime_for_call()
        try:
            made = await make_instance(fast, runtime)
            instance = Instance(self.agent, made.agents, attachments)
            yield PreparedInstance(instance, made.agents, attachments, registry, losses, rendering)
        finally:
            # In the owner's task: a call's own may have a cancellation under way, which no shield keeps out.
            with anyio.move_on_after(DISPOSAL_TIMEOUT, shield=True) as scope:
                await pace().step()  # many that end at once are disposed of one by one
                await shut_down(runtime.managed_instances, attachments)
            if scope.cancelled_caught:
                _log.warning(f"an instance could not be disposed of within {DISPOSAL_TIMEOUT:g} s")
            else:
                take_apart(runtime.managed_instances, attachments)
            trim_filters()
            if attachments.clients is not None:  # what was made and not used has loaded and left little
                self._garbage.add(self._pool.owned)

    async def _complete(
        self, prepared: PreparedInstance, bearer: str | None, observe: ObserveOperation
    ) -> None:
        """Make a prepared instance the instance of one call."""
        attachments = prepared.attachments
        attachments.observe = observe
        if (call := current_call()) is not None:
            attachments.clients = call.clients
        if bearer is not None:
            give_bearer(prepared.registry, self._servers, self._opted_in, bearer, _CLIENT)
        # From here on, agents that the instance makes while it works attach all their servers themselves.
        names, attachments.deferred = attachments.deferred, frozenset()
        for agent in prepared.agents.values():
            connections = getattr(agent, "aggregator", None)
            if isinstance(connections, Aggregator) and await connections.attach_deferred(names):
                await rebuild_agent_instruction(agent)

    def _is_usable(self, prepared: PreparedInstance) -> bool:
        return prepared.is_current() and prepared.losses == self.reachability.losses

    def _model_factory(self, model: Any = None, request_params: Any = None) -> Any:
        """What makes the LLMs of a model; to find it means reading files, and it is the same for all calls."""
        if request_params is not None or not isinstance(model, str | None):
            factory: Any = self._runtime.model_factory_func
            return note_parts(factory(model=model, request_params=request_params))
        if model not in self._model_factories:
            self._model_factories[model] = note_parts(self._runtime.model_factory_func(model=model))
        return self._model_factories[model]

    def _runtime_for_call(self) -> RunRuntime:
        """The runtime with a lock and containers of its own; a common lock makes calls wait in line."""
        prompt = self._runtime.global_prompt_context
        return dataclasses.replace(
            self._runtime,
            model_factory_func=self._model_factory,
            instance_lock=asyncio.Lock(),
            managed_instances=[],
            global_prompt_context=dict(prompt) if prompt is not None else None,
        )

    def _fast_for(
        self, attachments: Attachments, registry: ServerRegistry, agents: Mapping[str, Any]
    ) -> FastAgent:
        """The application as this call sees it: own context, own server settings, own agent definitions."""
        fast = copy.copy(self._fast)
        # All that the making of an instance reads of the application object is its context.
        update = {
            "server_registry": registry,
            "pallas_attachments": attachments,
            "pallas_tools": self._permitted,
        }
        fast.app = cast("Any", SimpleNamespace(context=self._context.model_copy(update=update)))
        fast.agents = {name: with_date(data) for name, data in copies_for_call(agents).items()}
        return fast


@asynccontextmanager
async def open_runtime(
    fast: FastAgent,
    agent: str,
    permitted: Globs | None = None,
    credentials: Iterable[Credential] = (),
) -> AsyncIterator[AgentRuntime]:
    """Enter fast-agent's runtime for this process, and choose the agent called `agent`, or else the only one.

    Its models may call no other tools than those that are `permitted`; None for all that it has. Its
    `credentials` are shown to those of its servers that they are for.

    Raises:
        AgentError: none of the agents that the module defines is meant, or it defines none.
        fast_agent.core.exceptions.FastAgentError: a definition is wrong.
    """
    use_own_aggregator()
    guard_tools()
    offer_tools()
    tap_streams()
    take_answers_whole()
    judge_retries()
    pace_streams()
    collect_rarely()
    refuse_elicitation()
    turn_sampling_off(settings_of(fast))
    take_shortcuts(debug=settings_of(fast).logger.level == "debug")
    disable_output_files(settings_of(fast))
    served = served_agent(agent, fast.agents)
    refuse_void_filters(fast.agents)
    settle_subagents(data["config"] for data in fast.agents.values())
    async with fast.harness() as harness:
        join_logging()
        shown = show_credentials(fast.context.server_registry, credentials)
        runtime = AgentRuntime(fast, runtime_of(harness), served, permitted)
        runtime.gateways = shown.get(TOKEN_HEADER, frozenset())
        try:
            yield runtime
        finally:
            await runtime.close()


_CLIENT = Implementation(name="pallas", version=__version__)  # how a worker introduces itself to servers
