"""Work that fast-agent does for each call and a worker does not need: left out.

Why here, and not in fast-agent: it is written for one long session, in which all this is done once; a worker makes an
instance for each call. Each replacement was measured, as CPU time of a call without it over that with it, on calls with
one downstream server unless another is named: a common TLS context 2.9 (for LLM clients 2.5 to 3.1), no subscriptions
1.6, copies 1.4 (with 40 rows of history), no third copy 1.3 (with 10,000 rows), validators 1.3, what a server is 1.2,
records 1.2, nothing painted 1.06, wrapped functions 1.05 and no growth of memory. What merging request parameters and
keeping model factories gain each could not be told from noise; without both a call took 15.9 ms of CPU time, with them
14.8 (medians of three runs in turn).
A name that has moved in fast-agent only costs time: there is one warning, and its own code runs.

Knows fast-agent from inside; must not know calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import json
import logging
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

import httpx2
import yaml
from fast_agent import config
from fast_agent.agents.llm_agent import LlmAgent
from fast_agent.agents.llm_decorator import LlmDecorator
from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.config import Settings
from fast_agent.core.logging.logger import Logger as FastAgentLogger
from fast_agent.llm import fastagent_llm
from fast_agent.mcp import client_gateway, mcp_connection_manager
from fast_agent.mcp.client_connection import MCPClientConnection
from fast_agent.tools import function_tool_loader
from fast_agent.ui.console_display import ConsoleDisplay
from mcp.client.session import ClientSession
from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource, PydanticBaseSettingsSource

from pallas_common.http.reach import is_closed
from pallas_common.logs.setup import get_logger
from pallas_worker.downstreams.closed import ClosedTransport
from pallas_worker.downstreams.tls import shared_context
from pallas_worker.fastagent.aggregator import enter_connection
from pallas_worker.fastagent.copies import COPIED, deepcopy, merged_plainly
from pallas_worker.fastagent.current_call import current_call
from pallas_worker.telemetry.tracing import add_trace_headers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from fast_agent.types import PromptMessageExtended, RequestParams
    from pydantic.fields import FieldInfo
    from pydantic_settings import BaseSettings

MAX_VALIDATORS = 256
"""Output schemas whose validators are kept."""

MAX_MAPPINGS = 16
"""Texts of configuration files whose contents are kept."""

_log = get_logger("pallas.worker.fastagent")
_records = logging.getLogger("fast_agent")


def take_shortcuts(*, debug: bool = False) -> None:
    """Put the replacements into their places; a second time changes nothing.

    Args:
        debug: fast-agent's records below a warning are wanted, which costs time in each call.
    """
    _replace(fastagent_llm, "merge_request_params", _merge_request_params)
    _replace(mcp_connection_manager, "_wait_for_initialized_with_startup_budget", _initialized)
    _replace(mcp_connection_manager, "_subscription_filter", _no_subscription)
    _replace(MCPClientConnection, "__aenter__", enter_connection)
    _replace(client_gateway, "httpx2", _SharedTls())
    _replace(FastAgentLogger, "event", _own_log_event if debug else _log_event)
    _replace(ClientSession, "_output_schema_validator", _output_schema_validator)
    _replace(function_tool_loader, "_wrap_default_tool_result", _wrap_function_tool)
    _replace(ConsoleDisplay, "_apply_console_theme", _no_theme)
    _replace(LlmDecorator, "_merge_trailing_tool_result_turn", staticmethod(_merge_trailing_results))
    for agent in (LlmAgent, McpAgent):
        _replace(agent, "show_assistant_message", _show_nothing)
    for model in COPIED:
        _replace(model, "__deepcopy__", deepcopy)


def take_shortcuts_at_start() -> None:
    """The same for what fast-agent does once in a process, before the agent's source is loaded."""
    _replace(Settings, "_without_ambiguous_home_source", staticmethod(_source_of_settings))
    _replace(config, "load_yaml_mapping", _load_yaml_mapping)


def _replace(module: ModuleType | type, name: str, replacement: object) -> None:
    if hasattr(module, name):
        setattr(module, name, replacement)
    else:
        _log.warning(f"{module.__name__}.{name} has moved: calls take longer")


def _log_event(
    logger: FastAgentLogger, etype: str, ename: str | None, message: str, context: object, data: object
) -> None:
    """One record at once, of warnings and errors; fast-agent makes a task, a model and a queue entry of each.

    That a connection to a server has failed is logged by `reachability`; fast-agent repeats it at each attempt.
    """
    if logger.namespace == mcp_connection_manager.__name__ and etype == "error":
        return
    if etype in ("warning", "error"):
        sender = f"MCP server {logger.namespace}" if ename == "mcpserver.stderr" else logger.namespace
        _records.log(logging.getLevelNamesMapping()[etype.upper()], "[%s] %s", sender, message)


_own_log_event: Any = getattr(FastAgentLogger, "event", None)


def _merge_trailing_results(messages: list[PromptMessageExtended]) -> list[PromptMessageExtended]:
    """The messages of a request, where results and the user's message behind them are one.

    fast-agent copies all messages for it, which are copies already, in each turn and whether or not there are such.
    """
    match messages:
        case [*_, before, last] if before.tool_results and last.role == "user" and not last.tool_results:
            return _merge_copies(messages)  # type: ignore[no-any-return]
    return messages


_merge_copies: Any = getattr(LlmDecorator, "_merge_trailing_tool_result_turn", None)


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


async def _initialized(connection: Any, startup_timeout_seconds: float | None, **_: object) -> None:
    """Wait for the connection's own event; fast-agent looks every 100 ms, to leave time for a browser."""
    async with asyncio.timeout(startup_timeout_seconds):
        await connection.wait_for_initialized()


def _no_subscription(connection: object) -> None:
    """A connection that lives as long as one request has no use for a stream of change notifications."""


def _no_theme(_display: ConsoleDisplay) -> None:
    """Consoles of a worker are quiet: there is no theme to look for on the disk, three times for each instance."""


async def _show_nothing(_agent: LlmAgent, message: object, *_: object, **__: object) -> None:
    """What an agent says is not painted either, nor is all put together that would stand around it."""


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
        return httpx2.AsyncClient(event_hooks=hooks, **_way_out(), **options)


def _way_out() -> dict[str, Any]:
    """How a client that is made now connects: with the shared context, and no farther than it may."""
    context = shared_context()
    return (
        {"verify": context, "transport": ClosedTransport(verify=context)}
        if is_closed()
        else {"verify": context}
    )


_PROVIDERS = "fast_agent.llm.provider"
_PROVIDERS_CLIENTS = (
    (f"{_PROVIDERS}.openai.llm_openai", f"{_PROVIDERS}.openai.llm_openai", "DefaultAioHttpClient"),
    (f"{_PROVIDERS}.openai.responses", f"{_PROVIDERS}.openai.responses", "DefaultAioHttpClient"),
    (f"{_PROVIDERS}.openai.responses_websocket", "openai._base_client", "AsyncHttpxClientWrapper"),
    (f"{_PROVIDERS}.openai.codex_responses", f"{_PROVIDERS}.openai.codex_responses", "DefaultAioHttpClient"),
    (f"{_PROVIDERS}.anthropic.llm_anthropic", "anthropic._base_client", "AsyncHttpxClientWrapper"),
)
"""The module that is loaded where a provider is used; and what makes its HTTP client for each turn: module, name."""


class _NotingClients(functools.partial[Any]):
    """Makes HTTP clients, each noted in the call that it is made for."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        client = super().__call__(*args, **{**options, **_way_out()})
        call = current_call()
        if call is not None:
            call.clients.add(client)
        return client


def share_tls_with_providers() -> None:
    """Let clients of LLM providers share the TLS context, too: one is made for each turn, and would cost 60 ms.

    Each is noted in its call, too, whose end closes it. Does so for those providers that are loaded, so it is for when
    the first instance has been made. The others' workers need not wait at their start until there is a context.
    """
    for loaded_where_used, module_name, name in _PROVIDERS_CLIENTS:
        module = sys.modules.get(module_name) if loaded_where_used in sys.modules else None
        made_by: Any = getattr(module, name, None)
        if module is not None and not isinstance(made_by, functools.partial):
            shared = made_by and _NotingClients(made_by, verify=shared_context())
            _replace(module, name, shared)


@contextlib.contextmanager
def without_tls() -> Iterator[None]:
    """Within the block, clients of the providers that are loaded read no certificates: no connection uses TLS."""
    own = []
    for _, module_name, name in _PROVIDERS_CLIENTS:
        module = sys.modules.get(module_name)
        if module is not None and (made_by := getattr(module, name, None)) is not None:
            own.append((module, name, made_by))
            setattr(module, name, functools.partial(made_by, verify=False))
    try:
        yield
    finally:
        for module, name, made_by in own:
            setattr(module, name, made_by)


def _merge_request_params(defaults: RequestParams, given: RequestParams) -> RequestParams:
    """What fast-agent's own does, with less work where it can be done with less."""
    merged: RequestParams = merged_plainly(defaults, given) or _merge_deeply(defaults, given)
    return merged


_merge_deeply: Any = getattr(fastagent_llm, "merge_request_params", None)


def _source_of_settings(source: PydanticBaseSettingsSource) -> PydanticBaseSettingsSource:
    """What the environment, or `.env`, says of the settings; found at once where none of its variables is a setting's.

    pydantic-settings would take apart the types of all settings, each several times, at every start.
    """
    if isinstance(source, EnvSettingsSource) and _says_nothing(source):
        # fast-agent keeps what a `.env` says beyond its settings.
        others = source.env_vars.items() if isinstance(source, DotEnvSettingsSource) else ()
        return _Extras(source.settings_cls, {name: value for name, value in others if value})
    return _settings_source(source)  # type: ignore[no-any-return]


_load_mapping: Any = getattr(config, "load_yaml_mapping", None)


def _load_yaml_mapping(path: Path | None) -> dict[str, Any]:
    """What a configuration file says; fast-agent reads its YAML twice, and it is that of all agents here."""
    try:
        text = "" if path is None else path.read_text("utf-8")
        if text not in _mappings:
            if len(_mappings) >= MAX_MAPPINGS:
                _mappings.clear()
            _mappings[text] = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError):
        return _load_mapping(path)  # type: ignore[no-any-return] # which says what is wrong with it
    mapping = _mappings[text]
    return config.resolve_env_vars(copy.deepcopy(mapping)) if isinstance(mapping, dict) else {}


_mappings: dict[str, Any] = {}

_settings_source: Any = getattr(Settings, "_without_ambiguous_home_source", None)


def _says_nothing(source: EnvSettingsSource) -> bool:
    """Whether none of the variables is called as a setting, or as a part of one; False if that cannot be told."""
    fields, delimiter = source.settings_cls.model_fields, source.env_nested_delimiter
    if source.env_prefix or source.case_sensitive or not delimiter:
        return False
    if isinstance(source, DotEnvSettingsSource):
        if source.dotenv_filtering or source.config.get("extra") != "allow":
            return False
        ignored = set()
    else:
        ignored = {"home"}  # which everybody has, and fast-agent does not take
    if any(field.validation_alias is not None for field in fields.values()):
        return False
    names = {name.partition(delimiter)[0] for name in source.env_vars}
    return names.isdisjoint(fields.keys() - ignored)


class _Extras(PydanticBaseSettingsSource):
    """Says what it is given."""

    def __init__(self, settings: type[BaseSettings], values: dict[str, Any]) -> None:
        super().__init__(settings)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Nothing: no setting is among them."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """Them."""
        return self._values
