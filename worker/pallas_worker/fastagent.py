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
import logging
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any, Self

import httpx2
from fast_agent.agents import mcp_agent
from fast_agent.core.exceptions import walk_exception_chain
from fast_agent.core.fastagent import FastAgent, RunRuntime
from fast_agent.core.harness import AgentHarness
from fast_agent.mcp import client_gateway, mcp_connection_manager
from fast_agent.mcp.mcp_aggregator import MCPAggregator, MCPAttachOptions
from mcp.shared.exceptions import MCPError

from pallas_worker.errors import AgentError
from pallas_worker.reachability import AVOID_FOR, SLOW_ATTACH

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

    from fast_agent.config import Settings
    from fast_agent.core.fastagent import AgentInstance

    from pallas_worker.reachability import Attachments

VERSION = metadata.version("fast-agent-mcp")

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
    (MCPAggregator, "_execute_on_server", ("server_name", "operation_type")),
    (MCPAggregator, "_execute_session_method", ("client", "method_name")),
)

_log = logging.getLogger("pallas.worker.fastagent")
_trace = logging.getLogger("pallas.forward.trace")


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
                reachability.losses += 1
                _trace.warning("%s: cannot attach %s", self.agent_name, name, exc_info=error)
        else:
            reachability.down.discard(name)

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

    async def _execute_session_method(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._execute_session_method(*args, **kwargs)
        except Exception as error:
            if self._attachments is not None and not isinstance(error, MCPError):
                self._attachments.reachability.losses += 1
            # fast-agent makes one line for the LLM of this; operators need the traceback.
            _trace.exception("%s: %s failed downstream", self.agent_name, kwargs.get("method_name"))
            raise


def _is_silence(error: Exception) -> bool:
    """Whether the server gave no answer at all; what it refuses, it may refuse to one caller's token only."""
    silent = (TimeoutError, httpx2.TimeoutException, httpx2.ConnectError)
    return any(isinstance(link, silent) for link in walk_exception_chain(error))


def take_shortcuts() -> None:
    """Leave out what fast-agent does for each connection and nobody needs; again, it does nothing more."""
    _replace(mcp_connection_manager, "_wait_for_initialized_with_startup_budget", _initialized)
    _replace(mcp_connection_manager, "_subscription_filter", _no_subscription)
    _replace(client_gateway, "httpx2", _SharedTls())


def _replace(module: ModuleType, name: str, replacement: object) -> None:
    if hasattr(module, name):
        setattr(module, name, replacement)
    else:
        _log.warning("%s.%s has moved: calls take longer", module.__name__, name)


async def _initialized(connection: Any, startup_timeout_seconds: float | None, **_: object) -> None:
    """Wait for the connection's own event; fast-agent looks every 100 ms, to leave time for a browser."""
    async with asyncio.timeout(startup_timeout_seconds):
        await connection.wait_for_initialized()


def _no_subscription(connection: object) -> None:
    """A connection that lives as long as one request has no use for a stream of change notifications."""


class _SharedTls:
    """The module `httpx2` as one of fast-agent's modules sees it: all clients share one TLS context.

    Each client would otherwise read the system's certificates again, also for a server without TLS.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(httpx2, name)

    def AsyncClient(self, **options: Any) -> httpx2.AsyncClient:  # noqa: N802 - it stands for a class
        """A client with the shared context."""
        return httpx2.AsyncClient(verify=_tls(), **options)


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()
