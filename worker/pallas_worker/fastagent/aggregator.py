"""fast-agent's connections of one agent to its servers, as a call needs them.

Why a class of our own: fast-agent makes these connections once for a long session. It attaches servers one after
another, asks each what it is and what it lists, and an agent with one server that cannot be reached is not made. A
worker makes an agent for each call: with three servers that took 0.4 s, and one server's outage was the agent's.
So `Aggregator` attaches all at the same time, leaves out what cannot be reached, and uses for a short time what a
server answered before (without that, such a call takes 1.9 times the CPU). Connections are not shared
between calls: a server's settings may hold its caller's token. fast-agent has no hook for any of this, only a class
that it looks up by its name; so this derives from that class, and overrides as little as it can.

Knows fast-agent from inside; must not know calls.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from fast_agent.agents import mcp_agent
from fast_agent.mcp import client_gateway, logger_textio, mcp_aggregator
from fast_agent.mcp.app_integrations.models import AppServerConfig
from fast_agent.mcp.client_connection import MCPClientConnection
from fast_agent.mcp.common import create_namespaced_name
from fast_agent.mcp.mcp_aggregator import MCPAggregator, MCPAttachOptions, NamespacedTool
from mcp_types import (
    DiscoverResult,
    ListPromptsResult,
    ListToolsResult,
)
from mcp_types.version import LATEST_MODERN_VERSION

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.mcp.chain import META
from pallas_common.protocol.mcp.lists import LISTS, read_list
from pallas_worker.downstreams.attach_errors import has_other_tools, is_loss, is_silence, why_unattached
from pallas_worker.downstreams.reachability import AVOID_FOR, SLOW_ATTACH
from pallas_worker.downstreams.stdio.server_output import ServerOutput, output_of
from pallas_worker.downstreams.stdio.transport import stdio_client
from pallas_worker.fastagent.current_call import current_call
from pallas_worker.interface.tools import history_prompt, list_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from fast_agent.config import MCPServerSettings
    from mcp.client.stdio import StdioServerParameters
    from pydantic import BaseModel

    from pallas_common.protocol.agent.sibling import Sibling
    from pallas_common.protocol.mcp.lists import Json, ListName
    from pallas_worker.downstreams.reachability import Attachments, Reachability

_LISTINGS: Mapping[str, tuple[ListName, str, str]] = {
    "list_tools": ("tools", "tools", "name"),
    "list_prompts": ("prompts", "prompts", "name"),
    "list_resources": ("resources", "resources", "uri"),
    "list_resource_templates": ("templates", "resource_templates", "uri_template"),
}
"""Method of a connection → the list that it gives a page of, the field of its result, and what names an entry."""

_trace = get_logger("pallas.forward.trace")


def use_own_aggregator() -> None:
    """Let agents be made with `Aggregator`: they look the class up here, the one hook into their making.

    Servers that run as a command get a stderr that is read, fast-agent's own is /dev/null, and the transport of ours.
    """
    mcp_agent.__dict__["MCPAggregator"] = Aggregator
    client_gateway.__dict__["get_stderr_handler"] = _stderr_of
    client_gateway.__dict__["tracking_stdio_client"] = _stdio


class Aggregator(MCPAggregator):
    """fast-agent's connections of one agent, except that they do without a server that cannot be reached."""

    @property
    def _attachments(self) -> Attachments | None:
        return getattr(self.context, "pallas_attachments", None)

    async def __aenter__(self) -> Self:
        if self._attachments is not None:
            self._attachments.aggregators.append(self)
        await super().__aenter__()  # type: ignore[no-untyped-call]  # fast-agent gives it no types
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
        """Whether every connection that was made still stands, as far as is known without asking."""
        manager = self._persistent_connection_manager
        return manager is None or all(server.is_healthy() for server in manager.running_servers.values())

    async def _attach_all(self, names: list[str], attachments: Attachments) -> None:
        """Attach all at the same time; those that start on demand, without a connection."""
        for name in attachments.siblings.keys() & set(names):
            await self._attach_sibling(name, attachments.siblings[name])
        others = [name for name in names if name not in attachments.siblings]
        await asyncio.gather(*(self._attach(name, attachments) for name in others))
        self._sort()

    def _sort(self) -> None:
        """Have servers and tools in the order of the configuration, for prompt caches; of two of one name the first."""
        order = {name: place for place, name in enumerate(self._configured_server_names)}
        self._attached_server_names.sort(key=lambda name: order.get(name, len(order)))
        found = self._namespaced_tool_map
        found.clear()
        for server in sorted(self._server_to_tool_map, key=lambda name: order.get(name, len(order))):
            for tool in self._server_to_tool_map[server]:
                first = found.setdefault(tool.namespaced_tool_name, tool)
                if first is not tool and self._attachments is not None:
                    self._attachments.reachability.doubled(
                        first.namespaced_tool_name, first.server_name, server
                    )
            self._server_to_tool_map[server] = [
                tool for tool in self._server_to_tool_map[server] if found[tool.namespaced_tool_name] is tool
            ]

    async def _attach_sibling(self, name: str, sibling: Sibling) -> None:
        """Have the tools that the agent lists, without asking it; `_wake` connects."""
        registry = self._require_server_registry()
        if (settings := registry.get_server_config(name)) is None:
            return
        self._attachment_configs[name] = settings
        registry.register_attachment(name, owner=self._attachment_owner)
        namespace = self.server_display_name(name)
        listed = list_tools(sibling.name, sibling.title, sibling.description, sibling.output_schema)
        discovery = mcp_aggregator._AttachmentDiscovery(
            tools=[
                NamespacedTool(
                    tool=tool,
                    server_name=name,
                    namespaced_tool_name=create_namespaced_name(namespace, tool.name),
                )
                for tool in listed
            ],
            prompts=[history_prompt(sibling.name)],
            skill_registry=None,
            app_integration_config=AppServerConfig(server_name=name),
            capabilities=None,
        )
        await self._commit_server_attachment(name, discovery)
        self._asleep.add(name)

    async def _wake(self, name: str) -> None:
        """Connect to an agent that starts on demand, and list anew: from here on, it is a server like all others."""
        self._asleep.discard(name)
        if (attachments := self._attachments) is not None:
            self._attached_server_names.remove(name)
            await self._attach(name, attachments)
            self._sort()

    @property
    def _asleep(self) -> set[str]:
        """The servers that start on demand and that this instance has not connected to."""
        asleep: set[str] = self.__dict__.setdefault("pallas_asleep", set())
        return asleep

    async def _attach(self, name: str, attachments: Attachments) -> None:
        began = time.monotonic()
        reachability = attachments.reachability
        if began < reachability.avoided.get(name, 0.0):
            attachments.unreachable[name] = "it did not answer a moment ago"
            return
        output, said = None, 0
        try:
            if self._runs_as_command(name) and (output := output_of(name)) is not None:
                said = output.lines
            # Not `attach_server`: it lets one server wait for the other.
            async with self._attachment_locks.setdefault(name, asyncio.Lock()):
                await self._attach_server_locked(
                    server_name=name, server_config=None, options=MCPAttachOptions()
                )
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a server, the agent does without it
            now = time.monotonic()
            if now - began >= SLOW_ATTACH and is_silence(error):
                reachability.avoided[name] = now + AVOID_FOR
            why = why_unattached(error, output.said_since(said) if output is not None else None)
            if output is not None:
                output.muted = True
            attachments.unreachable[name] = why
            if reachability.unattached(name, why) and name not in attachments.callers:
                reachability.lose(name)
            _trace.debug(f"{self.agent_name}: cannot attach {name}", server=name, exc_info=error)
        else:
            reachability.attached(name)
            if output is not None:
                output.muted = False

    def _runs_as_command(self, name: str) -> bool:
        settings = self._require_server_registry().get_server_config(name)
        return settings is not None and settings.transport == "stdio"

    async def _fetch_server_tools(self, server_name: str, *, cache_mode: Any = "use") -> list[Any]:
        remembered = self._remembered("tools", server_name, cache_mode)
        if remembered is None:
            tools = await super()._fetch_server_tools(server_name, cache_mode=cache_mode)
            self._remember("tools", server_name, ListToolsResult(tools=tools))
            return tools
        result = ListToolsResult.model_validate_json(remembered)
        # What the SDK's session derives from a listing, it must derive from this one, too.
        client = self._require_connection_manager().running_servers[server_name].client
        session = client.session  # type: ignore[union-attr]  # it is attached
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
        """Ask a server what it is, unless it has answered a moment ago and no TLS is in between.

        That question makes the connection, too: with TLS, that is worth doing ahead of a call.
        """
        name, settings = connection.callbacks.server_name, connection.callbacks.server_config
        if name is None or not _may_believe(settings):
            return await _enter(connection)
        if (answer := self._remembered("discover", name)) is not None:
            connection.client.prior_discover = DiscoverResult.model_validate_json(answer)
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
        """What is known of a server that answers all callers alike; None of one that may know who calls.

        An agent that attaches a server while it works does so with settings of its call.
        """
        attachments = self._attachments
        if attachments is None or server_name in attachments.callers:
            return None
        configured = self._require_server_registry().get_server_origin(server_name) == "central"
        return attachments.reachability if configured else None

    def _remembered(self, kind: str, server_name: str, cache_mode: str = "use") -> bytes | None:
        if cache_mode != "use" or not self.connection_persistence:
            return None  # without a connection that lasts, there is no session that could take it over
        reachability = self._common(server_name)
        return reachability.remembered(kind, server_name) if reachability is not None else None

    def _remember(self, kind: str, server_name: str, answer: BaseModel) -> None:
        if (reachability := self._common(server_name)) is not None:
            reachability.remember(kind, server_name, answer.model_dump_json(by_alias=True).encode())

    async def _handle_tool_list_changed(self, server_name: str) -> None:
        if self._attachments is not None:
            self._attachments.reachability.lose(server_name)
        await super()._handle_tool_list_changed(server_name)

    async def _collect_app_resources(self, *args: Any, **kwargs: Any) -> None:
        """A worker shows no user interfaces: those that servers have are not listed."""

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
        if server_name in self._asleep:
            await self._wake(server_name)
        try:
            with self._asking(server_name, kwargs):
                result: Any = await super()._execute_on_server(server_name, operation_type, *args, **kwargs)
            well = not getattr(result, "is_error", False)
            return result
        finally:
            if self._attachments is not None:
                self._attachments.observe(server_name, operation_type, well, time.monotonic() - began)

    def _asking(self, server_name: str, operation: dict[str, Any]) -> AbstractContextManager[None]:
        """Tell another agent by which ones the call has come, and the worker that it waits for one."""
        call, arguments = current_call(), operation.get("method_args") or {}
        if call is None or self._attachments is None or operation.get("method_name") != "call_tool":
            return nullcontext()
        if not self._attachments.asks_agent(server_name, str(arguments.get("name"))):
            return nullcontext()
        meta = {**(arguments.get("meta") or {}), META: list(call.chain)}
        operation["method_args"] = {**arguments, "meta": meta}
        return call.asking()

    async def _execute_session_method(self, client: Any, **kwargs: Any) -> Any:
        try:
            if kwargs.get("method_name") in _LISTINGS:
                return await self._read_list(client, **kwargs)
            result: Any = await super()._execute_session_method(client, **kwargs)
        except Exception as error:
            if self._attachments is not None:
                failed = self._attachments.reachability
                (failed.lose if is_loss(error) else failed.doubt)(client.callbacks.server_name)
            # fast-agent makes one line for the LLM of this; operators need the traceback.
            server, method = client.callbacks.server_name, kwargs.get("method_name")
            tool = (kwargs.get("method_args") or {}).get("name")
            _trace.exception(f"{self.agent_name}: {method} on {server} failed", server=server, tool=tool)
            raise
        if self._attachments is not None and has_other_tools(result):
            self._attachments.reachability.lose(client.callbacks.server_name)
        return result

    async def _read_list(self, client: Any, *, method_name: str, **kwargs: Any) -> Any:
        """All pages of a list as one; fast-agent would take the first for all."""
        name, field, key = _LISTINGS[method_name]
        pages: list[Any] = []
        arguments = dict(kwargs.pop("method_args", None) or {})

        async def ask(cursor: str | None) -> Json:
            more = {} if cursor is None else {"cursor": cursor}
            page: Any = await super(Aggregator, self)._execute_session_method(
                client, method_name=method_name, method_args=arguments | more, **kwargs
            )
            pages.append(page)
            found: Json = page.model_dump(mode="json", by_alias=True, exclude_none=True)
            return found

        listing = await read_list(name, ask)
        if self._attachments is not None:
            self._attachments.reachability.listed(client.callbacks.server_name, name, listing.note)
        found = [entry for page in pages for entry in getattr(page, field)]
        entries = {str(getattr(entry, key)): entry for entry in reversed(found)}
        used = [entries[entry[LISTS[name].key]] for entry in listing.entries]
        return pages[0].model_copy(update={field: used, "next_cursor": None})


def _stderr_of(server_name: str, *, on_line: Callable[[str], None] | None = None) -> Any:
    return output_of(server_name) or _dropped(server_name, on_line=on_line)


_dropped = logger_textio.get_stderr_handler


def _stdio(parameters: StdioServerParameters, *, channel_hook: object = None, errlog: Any) -> Any:
    name = errlog.name if isinstance(errlog, ServerOutput) else parameters.command
    return stdio_client(name, parameters, errlog.fileno())


def _may_believe(settings: MCPServerSettings | None) -> bool:
    """Whether what the server was is good enough; where an era is prescribed, fast-agent's client asks in any case."""
    if settings is None or settings.protocol_mode != "auto":
        return False
    return (settings.url or "").startswith("http:")


async def enter_connection(connection: MCPClientConnection) -> MCPClientConnection:
    """Enter a connection as the agent's aggregator does; those of others, as fast-agent does."""
    aggregator = connection.callbacks.aggregator
    return await (aggregator.enter(connection) if isinstance(aggregator, Aggregator) else _enter(connection))


_enter = MCPClientConnection.__aenter__
