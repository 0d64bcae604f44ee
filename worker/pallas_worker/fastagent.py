"""fast-agent's private names: the only file that touches them.

Knows fast-agent from inside; must not know why or for whom an agent is made. What a worker cannot do without is
checked at its start (`check_names`). What only saves time (`take_shortcuts`) is left out, with one warning, where
it has moved.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import sys
import time
from importlib import metadata
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

import httpx2
from fast_agent import paths
from fast_agent.agents import mcp_agent
from fast_agent.config import Settings
from fast_agent.core.exceptions import walk_exception_chain
from fast_agent.core.fastagent import FastAgent, RunRuntime
from fast_agent.core.harness import AgentHarness
from fast_agent.core.logging.logger import Logger as FastAgentLogger
from fast_agent.llm import fastagent_llm
from fast_agent.mcp import client_gateway, mcp_connection_manager
from fast_agent.mcp.client_callback_runtime import MCPClientCallbackRuntime
from fast_agent.mcp.client_connection import MCPClientConnection
from fast_agent.mcp.mcp_aggregator import MCPAggregator, MCPAttachOptions
from fast_agent.skills import registry as skill_registry
from fast_agent.tools import function_tool_loader
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    UNSUPPORTED_PROTOCOL_VERSION,
    DiscoverResult,
    ListPromptsResult,
    ListToolsResult,
)
from mcp_types.version import LATEST_MODERN_VERSION

from pallas_registry.logs import get_logger
from pallas_worker.copies import COPIED, deepcopy, merged_plainly
from pallas_worker.errors import AgentError
from pallas_worker.reachability import AVOID_FOR, SLOW_ATTACH
from pallas_worker.tls import shared_context
from pallas_worker.tracing import add_trace_headers

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from fast_agent.config import MCPServerSettings
    from fast_agent.core.fastagent import AgentInstance
    from fast_agent.types import RequestParams
    from pydantic import BaseModel

    from pallas_worker.reachability import Attachments, Reachability

VERSION = metadata.version("fast-agent-mcp")

MAX_VALIDATORS = 256
"""Output schemas whose validators are kept."""

_NAMES: tuple[tuple[object, str, tuple[str, ...]], ...] = (
    (FastAgent, "_instantiate_agent_instance", ("runtime",)),
    (FastAgent, "_finalize_initial_agent_instance", ("runtime", "instance", "validate_provider_state")),
    (RunRuntime, "__init__", ("managed_instances", "instance_lock", "global_prompt_context")),
    (AgentHarness, "__init__", ("fast_agent",)),
    (mcp_agent, "MCPAggregator", ("server_names", "context")),
    (MCPAggregator, "load_servers", ("force_connect",)),
    (MCPAggregator, "_attach_server_locked", ("server_name", "server_config", "options")),
    (MCPAggregator, "_reset_runtime_indexes", ()),
    (MCPAggregator, "_require_server_registry", ()),
    (MCPAggregator, "_fetch_server_tools", ("server_name", "cache_mode")),
    (MCPAggregator, "_fetch_server_prompts", ("server_name", "strict", "cache_mode")),
    (MCPAggregator, "_require_connection_manager", ()),
    (ClientSession, "_absorb_tool_listing", ("result", "complete")),
    (MCPAggregator, "_create_callback_runtime", ("server_name",)),
    (MCPAggregator, "_execute_on_server", ("server_name", "operation_type")),
    (MCPAggregator, "_execute_session_method", ("client", "method_name")),
    (MCPClientConnection, "__init__", ("transport", "callbacks")),
    (MCPClientCallbackRuntime, "__init__", ("server_name", "server_config", "aggregator")),
)

_log = get_logger("pallas.worker.fastagent")
_records = logging.getLogger("fast_agent")
_trace = get_logger("pallas.forward.trace")


def check_names() -> None:
    """Make sure that every undocumented name without which a worker cannot serve is where it was.

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


def use_own_aggregator() -> None:
    """Let agents be made with `Aggregator`: they look the class up here, the one hook into their making."""
    mcp_agent.__dict__["MCPAggregator"] = Aggregator


class Aggregator(MCPAggregator):
    """fast-agent's connections of one agent, except that they do without a server that cannot be reached."""

    @property
    def _attachments(self) -> Attachments | None:
        return getattr(self.context, "pallas_attachments", None)

    async def __aenter__(self) -> Self:
        if self._attachments is not None:
            self._attachments.aggregators.append(self)
        await super().__aenter__()  # type: ignore[no-untyped-call]
        return self

    async def load_servers(self, *, force_connect: bool = False) -> None:
        attachments = self._attachments
        if attachments is None:
            await super().load_servers(force_connect=force_connect)
        elif force_connect or not self.initialized:
            await self._reset_runtime_indexes()
            registry = self._require_server_registry()
            names = [
                name
                for name in self._configured_server_names
                if name not in attachments.deferred
                and (
                    (settings := registry.get_server_config(name)) is None
                    or settings.load_on_start
                    or force_connect
                )
            ]
            await self._attach_all(names, attachments)
            self.initialized = True

    async def attach_deferred(self, names: frozenset[str]) -> bool:
        """Attach those of `names` that this agent is configured with; whether there was one."""
        attachments = self._attachments
        mine = [name for name in self._configured_server_names if name in names]
        if attachments is None or not mine:
            return False
        await self._attach_all(mine, attachments)
        return True

    def is_connected(self) -> bool:
        """Whether every connection that was made still stands, as far as can be told without asking."""
        manager = self._persistent_connection_manager
        return manager is None or all(server.is_healthy() for server in manager.running_servers.values())

    async def _attach_all(self, names: list[str], attachments: Attachments) -> None:
        """Attach all at the same time; the tools keep the order of the configuration, as prompt caches need."""
        await asyncio.gather(*(self._attach(name, attachments) for name in names))
        order = {name: place for place, name in enumerate(self._configured_server_names)}
        self._attached_server_names.sort(key=lambda name: order.get(name, len(order)))
        tools = sorted(
            self._namespaced_tool_map.items(), key=lambda item: order.get(item[1].server_name, len(order))
        )
        self._namespaced_tool_map.clear()
        self._namespaced_tool_map.update(tools)

    async def _attach(self, name: str, attachments: Attachments) -> None:
        began = time.monotonic()
        reachability = attachments.reachability
        if began < reachability.avoided.get(name, 0.0):
            attachments.unreachable[name] = "it did not answer a moment ago"
            return
        try:
            # Not `attach_server`: it lets one server wait for the other.
            async with self._attachment_locks.setdefault(name, asyncio.Lock()):
                await self._attach_server_locked(
                    server_name=name, server_config=None, options=MCPAttachOptions()
                )
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a server, the agent does without it
            now = time.monotonic()
            if now - began >= SLOW_ATTACH and _is_silence(error):
                reachability.avoided[name] = now + AVOID_FOR
            attachments.unreachable[name] = (str(error).strip() or type(error).__name__).splitlines()[0]
            if name not in reachability.down:
                reachability.down.add(name)
                if name not in attachments.callers:
                    reachability.lose(name)
                _trace.warning("%s: cannot attach %s", self.agent_name, name, server=name, exc_info=error)
        else:
            reachability.down.discard(name)

    async def _fetch_server_tools(self, server_name: str, *, cache_mode: Any = "use") -> list[Any]:
        remembered = self._remembered("tools", server_name, cache_mode)
        if remembered is None:
            tools = await super()._fetch_server_tools(server_name, cache_mode=cache_mode)
            self._remember("tools", server_name, ListToolsResult(tools=tools))
            return tools
        result = ListToolsResult.model_validate_json(remembered)
        # What the SDK's session derives from a listing, it must derive from this one, too.
        session = self._require_connection_manager().running_servers[server_name].client.session  # type: ignore[union-attr]
        return list(session._absorb_tool_listing(result, complete=True).tools)

    async def _fetch_server_prompts(
        self, server_name: str, *, strict: bool = False, cache_mode: Any = "use"
    ) -> list[Any]:
        remembered = self._remembered("prompts", server_name, cache_mode)
        if remembered is not None:
            return list(ListPromptsResult.model_validate_json(remembered).prompts)
        prompts = await super()._fetch_server_prompts(server_name, strict=strict, cache_mode=cache_mode)
        self._remember("prompts", server_name, ListPromptsResult(prompts=prompts))
        return prompts

    async def enter(self, connection: MCPClientConnection) -> MCPClientConnection:
        """Ask a server what it is only where it has not told a moment ago, and if no TLS is in between.

        That question makes the connection, too: with TLS, that is worth doing ahead of a call.
        """
        name, settings = connection.callbacks.server_name, connection.callbacks.server_config
        if name is None or not _may_believe(settings):
            return await _enter(connection)
        if (told := self._remembered("discover", name)) is not None:
            connection.client.prior_discover = DiscoverResult.model_validate_json(told)
            connection.client.mode = LATEST_MODERN_VERSION
            return await _enter(connection)
        entered = await _enter(connection)
        result = connection.discover_result
        if (reachability := self._common(name)) is not None:
            reachability.introduce(name, tuple(result.supported_versions) if result is not None else ())
        if result is not None:
            self._remember("discover", name, result)
        return entered

    def _common(self, server_name: str) -> Reachability | None:
        """What is known of a server that tells all callers the same; None of one that may know who calls.

        An agent that attaches a server while it works does so with settings of its call.
        """
        attachments = self._attachments
        if attachments is None or server_name in attachments.callers:
            return None
        configured = self._require_server_registry().get_server_origin(server_name) == "central"
        return attachments.reachability if configured else None

    def _remembered(self, kind: str, server_name: str, cache_mode: str = "use") -> bytes | None:
        if cache_mode != "use" or not self.connection_persistence:
            return None  # without a connection that lasts, there is no session that could be told of it
        reachability = self._common(server_name)
        return reachability.remembered(kind, server_name) if reachability is not None else None

    def _remember(self, kind: str, server_name: str, told: BaseModel) -> None:
        if (reachability := self._common(server_name)) is not None:
            reachability.remember(kind, server_name, told.model_dump_json(by_alias=True).encode())

    async def _collect_app_resources(self, *args: Any, **kwargs: Any) -> None:
        """Nobody looks at user interfaces here: what servers have of them is not listed."""

    def _create_callback_runtime(self, server_name: str) -> Any:
        """The same for all operations of an instance: to make it costs as much as an operation."""
        made = self.__dict__.setdefault("pallas_callbacks", {})
        if server_name not in made:
            made[server_name] = super()._create_callback_runtime(server_name)
        return made[server_name]

    async def _execute_on_server(
        self, server_name: str, operation_type: str, *args: Any, **kwargs: Any
    ) -> Any:
        began = time.monotonic()
        well = False
        try:
            result: Any = await super()._execute_on_server(server_name, operation_type, *args, **kwargs)
            well = not getattr(result, "is_error", False)
            return result
        finally:
            if self._attachments is not None:
                self._attachments.observe(server_name, operation_type, well, time.monotonic() - began)

    async def _execute_session_method(self, client: Any, **kwargs: Any) -> Any:
        try:
            return await super()._execute_session_method(client, **kwargs)
        except Exception as error:
            if self._attachments is not None:
                failed = self._attachments.reachability
                (failed.lose if _is_loss(error) else failed.doubt)(client.callbacks.server_name)
            # fast-agent makes one line for the LLM of this; operators need the traceback.
            server, method = client.callbacks.server_name, kwargs.get("method_name")
            tool = (kwargs.get("method_args") or {}).get("name")
            _trace.exception("%s: %s on %s failed", self.agent_name, method, server, server=server, tool=tool)
            raise


def _may_believe(settings: MCPServerSettings | None) -> bool:
    """Whether what the server was is good enough; where an era is prescribed, fast-agent's client asks in any case."""
    if settings is None or settings.protocol_mode != "auto":
        return False
    return (settings.url or "").startswith("http:")


async def _enter_connection(connection: MCPClientConnection) -> MCPClientConnection:
    """Enter a connection as the agent's aggregator does; those of others, as fast-agent does."""
    aggregator = connection.callbacks.aggregator
    return await (aggregator.enter(connection) if isinstance(aggregator, Aggregator) else _enter(connection))


_enter = MCPClientConnection.__aenter__


def _is_loss(error: Exception) -> bool:
    """Whether a server has failed, or is another one now, rather than answered that something is wrong."""
    if isinstance(error, MCPError):
        return error.code in (CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION)
    return not isinstance(error, RuntimeError)  # which says that an answer does not fit its schema


def _is_silence(error: Exception) -> bool:
    """Whether the server gave no answer at all; what it refuses, it may refuse to one caller's token only."""
    silent = (TimeoutError, httpx2.TimeoutException, httpx2.ConnectError)
    return any(isinstance(link, silent) for link in walk_exception_chain(error))


def take_shortcuts(*, debug: bool = False) -> None:
    """Leave out what fast-agent does for each call and nobody needs; again, it does nothing more.

    Args:
        debug: somebody wants to read what fast-agent says below a warning, and pays for it in each call.
    """
    _replace(mcp_connection_manager, "_wait_for_initialized_with_startup_budget", _initialized)
    _replace(mcp_connection_manager, "_subscription_filter", _no_subscription)
    _replace(MCPClientConnection, "__aenter__", _enter_connection)
    _replace(client_gateway, "httpx2", _SharedTls())
    if not debug:
        _replace(FastAgentLogger, "event", _log_event)
    for module in (paths, skill_registry):
        _replace(module, "default_skill_paths", _default_skill_paths)
    _replace(ClientSession, "_output_schema_validator", _output_schema_validator)
    _replace(function_tool_loader, "_wrap_default_tool_result", _wrap_function_tool)
    for model in COPIED:
        _replace(model, "__deepcopy__", deepcopy)
    _replace(fastagent_llm, "merge_request_params", _merge_request_params)


def _replace(module: ModuleType | type, name: str, replacement: object) -> None:
    if hasattr(module, name):
        setattr(module, name, replacement)
    else:
        _log.warning("%s.%s has moved: calls take longer", module.__name__, name)


def _log_event(
    logger: FastAgentLogger, etype: str, ename: str | None, message: str, context: object, data: object
) -> None:
    """One record at once, of warnings and errors; fast-agent makes a task, a model and a queue entry of each."""
    if etype in ("warning", "error"):
        sender = f"MCP server {logger.namespace}" if ename == "mcpserver.stderr" else logger.namespace
        _records.log(logging.getLevelNamesMapping()[etype.upper()], "[%s] %s", sender, message)


def _output_schema_validator(session: ClientSession, name: str, output_schema: dict[str, Any]) -> Any:
    """The validator of an equal schema, also where another session has made it: checking a schema is slow."""
    key = json.dumps(output_schema)
    validator = _validators.get(key)
    if validator is None:
        if len(_validators) >= MAX_VALIDATORS:
            _validators.clear()
        validator = _validators[key] = _make_validator(session, name, json.loads(key))
    return validator


_make_validator: Any = getattr(ClientSession, "_output_schema_validator", None)
_validators: dict[str, Any] = {}


def _wrap_function_tool(function: Any) -> Any:
    """The same wrapper for a module's function in every instance.

    What pydantic and FastMCP derive from a tool's signature is kept by function, thousands of times: a new wrapper for
    each instance would be derived from again in each call, and kept for good.
    """
    if not isinstance(function, FunctionType) or "<locals>" in function.__qualname__:
        return _make_wrapper(function)  # of an instance, with which it has to go
    if function not in _wrappers:
        _wrappers[function] = _make_wrapper(function)
    return _wrappers[function]


_make_wrapper: Any = getattr(function_tool_loader, "_wrap_default_tool_result", None)
_wrappers: dict[FunctionType, Any] = {}


def _merge_request_params(defaults: RequestParams, given: RequestParams) -> RequestParams:
    """What fast-agent's own does, with less work where it can be done with less."""
    merged: RequestParams = merged_plainly(defaults, given) or _merge_deeply(defaults, given)
    return merged


_merge_deeply: Any = getattr(fastagent_llm, "merge_request_params", None)


async def _initialized(connection: Any, startup_timeout_seconds: float | None, **_: object) -> None:
    """Wait for the connection's own event; fast-agent looks every 100 ms, to leave time for a browser."""
    async with asyncio.timeout(startup_timeout_seconds):
        await connection.wait_for_initialized()


def _default_skill_paths(
    settings: Settings | None = None, *, cwd: Path | None = None, override: str | Path | None = None
) -> list[Path]:
    """Where skills are looked for; fast-agent reads environment and `.env` again for it each time that it asks.

    Of those settings it looks at those alone that neither of the two may set.
    """
    if settings is not None or override is not None:
        return _read_skill_paths(settings, cwd=cwd, override=override)
    return list(_usual_skill_paths(cwd))


@functools.cache
def _usual_skill_paths(cwd: Path | None) -> list[Path]:
    return _read_skill_paths(Settings.model_construct(), cwd=cwd)


_read_skill_paths = paths.default_skill_paths


def _no_subscription(connection: object) -> None:
    """A connection that lives as long as one request has no use for a stream of change notifications."""


class _SharedTls:
    """The module `httpx2` as one of fast-agent's modules sees it: all clients share one TLS context.

    Each client would otherwise read the system's certificates again, also for a server without TLS.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(httpx2, name)

    def AsyncClient(self, **options: Any) -> httpx2.AsyncClient:  # noqa: N802 - it stands for a class
        """A client with the shared context, whose requests name the trace that they belong to."""
        hooks = dict(options.pop("event_hooks", None) or {})
        hooks["request"] = [*hooks.get("request", ()), add_trace_headers]
        return httpx2.AsyncClient(verify=shared_context(), event_hooks=hooks, **options)


_OPENAI_CLIENTS = ("llm_openai", "responses", "codex_responses")
"""Modules of fast-agent that make a client of the OpenAI API for each turn."""


def share_tls_with_providers() -> None:
    """Let clients of LLM providers share the TLS context, too: one is made for each turn, and would cost 60 ms.

    Does so in those modules that are loaded, so it is for when the first instance has been made.
    """
    for name in _OPENAI_CLIENTS:
        module = sys.modules.get(f"fast_agent.llm.provider.openai.{name}")
        made_by: Any = getattr(module, "DefaultAioHttpClient", None)
        if module is not None and not isinstance(made_by, functools.partial):
            shared = made_by and functools.partial(made_by, verify=shared_context())
            _replace(module, "DefaultAioHttpClient", shared)
