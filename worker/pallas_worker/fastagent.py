"""fast-agent, driven as a library: one runtime a process, and a fresh instance for every call.

The only file that touches fast-agent's private names and undocumented modules; `check_names` says at the start
which of them has moved. It must not know MCP requests, metrics files or the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import inspect
import logging
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

import anyio
from fast_agent.agents import mcp_agent
from fast_agent.config import MCPElicitationSettings, MCPServerAuthSettings
from fast_agent.core.fastagent import FastAgent, RunRuntime
from fast_agent.core.harness import AgentHarness
from fast_agent.core.validation import get_agent_dependencies
from fast_agent.mcp.mcp_aggregator import MCPAggregator, MCPAttachOptions
from fast_agent.mcp_server_registry import ServerRegistry
from fast_agent.types import LlmStopReason, RequestParams
from fast_agent.ui import console
from mcp_types import Implementation

from pallas_worker.bearer import with_bearer
from pallas_worker.errors import AgentError, CallError
from pallas_worker.usage import Turn, turn_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from fast_agent.config import MCPServerSettings, Settings
    from fast_agent.context import Context
    from fast_agent.core.fastagent import AgentInstance
    from fast_agent.types import PromptMessageExtended

    from pallas_worker.progress import Progress

    type ObserveOperation = Callable[[str, str, bool, float], None]
    """Told of each downstream operation: server, kind (`tools/call`), whether it went well, seconds."""

VERSION = metadata.version("fast-agent-mcp")
DISPOSAL_TIMEOUT = 5.0
"""Seconds that the disposal of an instance may take before what hangs is abandoned."""
SLOW_ATTACH = 1.0
AVOID_FOR = 15.0
"""A server that kept a call waiting for `SLOW_ATTACH` seconds and then failed is left out for so many seconds."""

_log = logging.getLogger("pallas.worker.fastagent")
_trace = logging.getLogger("pallas.forward.trace")

_NAMES: tuple[tuple[object, str, tuple[str, ...]], ...] = (
    (FastAgent, "_instantiate_agent_instance", ("runtime",)),
    (FastAgent, "_finalize_initial_agent_instance", ("runtime", "instance", "validate_provider_state")),
    (RunRuntime, "__init__", ("managed_instances", "instance_lock", "global_prompt_context")),
    (AgentHarness, "__init__", ("fast_agent",)),
    (mcp_agent, "MCPAggregator", ("server_names", "context")),
    (MCPAggregator, "_reset_runtime_indexes", ()),
    (MCPAggregator, "_execute_on_server", ("server_name", "operation_type", "operation_name", "method_name")),
    (MCPAggregator, "_execute_session_method", ("client", "method_name", "method_args", "progress_callback")),
)


def check_names() -> None:
    """Make sure that every undocumented name that this file uses is where it was.

    Raises:
        AgentError: this version of fast-agent has moved one.
    """
    for owner, name, parameters in _NAMES:
        found = getattr(owner, name, None)
        missing = (
            set(parameters) - set(inspect.signature(found).parameters) if callable(found) else {"itself"}
        )
        if missing:
            where = getattr(owner, "__name__", str(owner))
            raise AgentError(
                f"fast-agent {VERSION} is not supported: {where}.{name} lacks {', '.join(sorted(missing))}; "
                "install the version that pallas-mcp pins",
                permanent=True,
            )


@dataclass(frozen=True, slots=True)
class _Call:
    """What the parts of one instance share; it travels in the instance's own fast-agent context."""

    observe: ObserveOperation
    avoid: dict[str, float]
    """When, on the monotonic clock, a server may be tried again. Shared by all calls of the worker."""
    unreachable: dict[str, str] = field(default_factory=dict)
    aggregators: list[MCPAggregator] = field(default_factory=list)


class _Aggregator(MCPAggregator):
    """fast-agent's connections of one agent, which go on without a server that cannot be reached."""

    @property
    def _call(self) -> _Call | None:
        return getattr(self.context, "pallas_call", None)

    async def __aenter__(self) -> _Aggregator:
        if self._call is not None:
            self._call.aggregators.append(self)
        await super().__aenter__()
        return self

    async def load_servers(self, *, force_connect: bool = False) -> None:
        call = self._call
        if call is None:
            await super().load_servers(force_connect=force_connect)
            return
        if self.initialized and not force_connect:
            return
        await self._reset_runtime_indexes()
        registry = self._require_server_registry()
        for name in self._configured_server_names:
            settings = registry.get_server_config(name)
            if (settings and not settings.load_on_start and not force_connect) or self._avoids(name):
                continue
            began = time.monotonic()
            try:
                await self.attach_server(server_name=name, options=MCPAttachOptions())
            except Exception as error:  # noqa: BLE001 - whatever a server does wrong, the agent goes on without it
                now = time.monotonic()
                if now - began >= SLOW_ATTACH:
                    call.avoid[name] = now + AVOID_FOR
                call.unreachable[name] = _first_line(error)
                _trace.warning("%s: cannot attach %s: %s", self.agent_name, name, error, exc_info=error)
        self.initialized = True

    def _avoids(self, name: str) -> bool:
        call = self._call
        if call is None or time.monotonic() >= call.avoid.get(name, 0.0):
            return False
        call.unreachable[name] = "not tried: it did not answer a moment ago"
        return True

    async def _execute_on_server(
        self, server_name: str, operation_type: str, *args: Any, **kwargs: Any
    ) -> Any:
        began = time.monotonic()
        well = False
        try:
            result = await super()._execute_on_server(server_name, operation_type, *args, **kwargs)
            well = not getattr(result, "is_error", False)
            return result
        finally:
            if self._call is not None:
                self._call.observe(server_name, operation_type, well, time.monotonic() - began)

    async def _execute_session_method(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._execute_session_method(*args, **kwargs)
        except Exception:
            # fast-agent turns this into one line for the LLM; operators need the traceback.
            _trace.exception("%s: %s failed downstream", self.agent_name, kwargs.get("method_name"))
            raise


@dataclass(frozen=True, slots=True)
class Served:
    """The agent that is served, and the ones that it is made of."""

    name: str
    agents: Mapping[str, Any]
    """fast-agent's definitions by name: the served agent and all it depends on."""

    @property
    def model(self) -> str | None:
        """The model that the served agent's decorator names, if it names one."""
        model: str | None = self.agents[self.name]["config"].model
        return model


class Instance:
    """One instance of the served agent, for one call."""

    def __init__(self, served: Served, instance: AgentInstance, call: _Call) -> None:
        self._agent: Any = instance.agents[served.name]
        self._agents = instance.agents
        self.unreachable: Mapping[str, str] = call.unreachable
        """The downstream servers that the agent has to do without, and why."""

    def load_history(self, messages: Iterable[PromptMessageExtended]) -> None:
        """Begin with this conversation."""
        self._agent.load_message_history(list(messages))

    async def generate(self, message: PromptMessageExtended, progress: Progress) -> PromptMessageExtended:
        """The agent's answer to `message`, after all its turns and tool calls.

        Raises:
            CallError: the LLM could not be asked, or did not answer.
        """
        params = RequestParams(tool_execution_handler=progress, emit_loop_progress=True)
        answer: PromptMessageExtended = await self._agent.generate([message], params)
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
    """The running fast-agent application of this process. Make it with `open_runtime`."""

    def __init__(self, fast: FastAgent, runtime: RunRuntime, served: Served, settings: Settings) -> None:
        self._fast = fast
        self._runtime = runtime
        self.context: Context = fast.context
        """fast-agent's own context of this process."""
        self._client = Implementation(name="pallas", version=_own_version())
        self._forwarding = frozenset(
            name for name, declaration in _declarations(settings).items() if _opted_in(declaration)
        )
        self._avoid: dict[str, float] = {}
        self.served = served
        self.settings = settings
        """fast-agent's own settings, as read from its configuration files."""

    @asynccontextmanager
    async def instance(self, bearer: str | None, observe: ObserveOperation) -> AsyncIterator[Instance]:
        """A fresh instance, used by nobody else and disposed of at the end, also of a cancelled call.

        `bearer` goes to the downstream servers that opted in. A server that cannot be reached is left out.

        Raises:
            fast_agent.core.exceptions.FastAgentError: the agent cannot be made, as without an LLM key.
        """
        call = _Call(observe, self._avoid)
        fast, runtime = self._fast_for(call, bearer), self._own_runtime()
        try:
            made = await fast._instantiate_agent_instance(runtime)
            await fast._finalize_initial_agent_instance(runtime, made, validate_provider_state=False)
            yield Instance(self.served, made, call)
        finally:
            with anyio.move_on_after(DISPOSAL_TIMEOUT, shield=True) as scope:
                await _dispose(runtime.managed_instances, call.aggregators)
            if scope.cancelled_caught:
                _log.warning("an instance could not be disposed of within %g s", DISPOSAL_TIMEOUT)
            _trim_logging_filters()

    def _own_runtime(self) -> RunRuntime:
        """The runtime with the lock and the lists of one call; fast-agent's own lock makes calls wait."""
        prompt = self._runtime.global_prompt_context
        return dataclasses.replace(
            self._runtime,
            instance_lock=asyncio.Lock(),
            managed_instances=[],
            global_prompt_context=dict(prompt) if prompt is not None else None,
        )

    def _fast_for(self, call: _Call, bearer: str | None) -> FastAgent:
        """The application as this call sees it: own context, own server settings, own agent definitions."""
        fast = copy.copy(self._fast)
        context = self.context.model_copy(
            update={"server_registry": self._registry_for(bearer), "pallas_call": call}
        )
        fast.app = _App(context)  # type: ignore[assignment]  # all that is used of it is its context
        fast.agents = {
            name: {**data, "config": _own_config(data["config"])}  # type: ignore[misc]
            for name, data in self.served.agents.items()
        }
        return fast

    def _registry_for(self, bearer: str | None) -> ServerRegistry:
        registry = ServerRegistry()
        base = self.context.server_registry
        for name, settings in (base.registry if base is not None else {}).items():
            registry.register_central(name, self._server_for(name, settings, bearer))
        return registry

    def _server_for(self, name: str, settings: MCPServerSettings, bearer: str | None) -> MCPServerSettings:
        auth = settings.auth or MCPServerAuthSettings()
        update: dict[str, Any] = {
            # Without this, the package metadata is parsed anew for every connection.
            "implementation": settings.implementation or self._client,
            # A 401 would escalate to a browser, which a server process has not.
            "auth": auth.model_copy(update={"oauth": False}),
        }
        if settings.elicitation is None or settings.elicitation.mode == "forms":
            update["elicitation"] = MCPElicitationSettings(mode="none")
        if bearer is not None and name in self._forwarding:
            update["headers"] = with_bearer(settings.headers, bearer)
        return settings.model_copy(update=update)


@asynccontextmanager
async def open_runtime(fast: FastAgent, agent: str) -> AsyncIterator[AgentRuntime]:
    """Enter fast-agent's runtime for this process, and choose the agent called `agent`, or else its default.

    Raises:
        AgentError: this version of fast-agent is not supported, or no agent is defined.
        fast_agent.core.exceptions.FastAgentError: a definition is wrong.
    """
    check_names()
    mcp_agent.MCPAggregator = _Aggregator  # type: ignore[misc]
    settings = fast._settings
    # Nothing is written into the working directory, and nothing is painted on a terminal.
    settings.session_history = False
    settings.logger.type = "none"
    settings.logger.progress_display = False
    settings.logger.show_chat = False
    settings.logger.show_tools = False
    settings.logger.streaming = "none"
    async with fast.harness() as harness:
        _quiet()
        served = _choose(fast, agent)
        runtime = harness._runtime
        if runtime is None:
            raise AgentError(
                f"fast-agent {VERSION} is not supported: its harness has no runtime", permanent=True
            )
        yield AgentRuntime(fast, runtime, served, settings)


class _App:
    """Stands for fast-agent's application object, of which an instance's making reads only the context."""

    def __init__(self, context: Context) -> None:
        self.context = context


def _choose(fast: FastAgent, agent: str) -> Served:
    name = agent if agent in fast.agents else fast.get_default_agent_name()
    if name is None:
        raise AgentError("no agent is defined: decorate a function with @fast.agent(...)", permanent=True)
    needed: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in needed and current in fast.agents:
            needed[current] = fast.agents[current]
            waiting.extend(get_agent_dependencies(fast.agents[current]))
    # In the order of definition, so that nothing depends on how a set is iterated.
    return Served(name, {key: needed[key] for key in fast.agents if key in needed})


def _own_config(config: Any) -> Any:
    """A copy of an agent's configuration that shares no container and no request parameters with the original.

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
    """Shut the agents down, then close every connection: also those of agents whose making was cut short."""
    for instance in instances:
        await instance.shutdown()
    for aggregator in reversed(list(aggregators)):
        with contextlib.suppress(Exception):
            await aggregator.close()


def _trim_logging_filters() -> None:
    """Keep one of each filter that fast-agent's connection managers add to the SDK's loggers and never remove."""
    for name in ("mcp.client.sse", "mcp.client.streamable_http", "mcp.client.auth.oauth2"):
        logger = logging.getLogger(name)
        kept = {type(entry).__qualname__: entry for entry in logger.filters}
        if len(kept) < len(logger.filters):
            logger.filters[:] = kept.values()


def _quiet() -> None:
    """Let fast-agent's records reach the root handler again, and silence what paints on a terminal."""
    for name in ("fast_agent", "fastmcp"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    for terminal in (console.console, console.error_console, console.server_console):
        terminal.quiet = True


def _declarations(settings: Settings) -> Mapping[str, Any]:
    return settings.mcp.server_declarations if settings.mcp is not None else {}


def _opted_in(declaration: Any) -> bool:
    """`forward_inbound_auth: true` of a server; fast-agent keeps it only in the declaration's extra fields."""
    return (declaration.model_extra or {}).get("forward_inbound_auth") is True


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _own_version() -> str:
    try:
        return metadata.version("pallas-mcp")
    except metadata.PackageNotFoundError:
        return "0"
