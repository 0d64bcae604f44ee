"""The guard around fast-agent's private names, and what is put in their places."""

from __future__ import annotations

import asyncio
import errno
import math
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fast_agent.core.fastagent import FastAgent
from fast_agent.core.logging.logger import Logger as FastAgentLogger
from fast_agent.core.logging.logger import get_logger
from fast_agent.core.managed_runtime import ManagedRuntimeMixin
from fast_agent.mcp import client_callback_runtime, client_gateway, mcp_connection_manager
from mcp_types import DiscoverResult, ServerCapabilities
from mcp_types.version import LATEST_MODERN_VERSION

from pallas_worker.downstreams.reachability import Attachments, Reachability
from pallas_worker.downstreams.tls import shared_context
from pallas_worker.fastagent import aggregator as connections
from pallas_worker.fastagent import application, shortcuts
from pallas_worker.interface.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def names_are_looked_for_anew() -> Iterator[None]:
    application.check_names.cache_clear()
    yield
    application.check_names.cache_clear()


def test_the_installed_version_has_all_names() -> None:
    application.check_names()


def test_a_name_that_has_moved_is_an_error_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ManagedRuntimeMixin, "_instantiate_agent_instance")
    with pytest.raises(AgentError) as caught:
        application.check_names()
    assert caught.value.permanent
    assert f"fast-agent {application.VERSION} is not supported" in str(caught.value)
    assert "FastAgent._instantiate_agent_instance" in str(caught.value)


def test_a_parameter_that_has_moved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def other(self: object) -> None: ...

    monkeypatch.setattr(FastAgent, "_finalize_initial_agent_instance", other)
    with pytest.raises(AgentError, match="_finalize_initial_agent_instance is not what it was"):
        application.check_names()


def test_who_decides_whether_the_llm_is_lent_must_know_the_decision_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name in `sampling` is replaced by one that says yes to all."""
    monkeypatch.delattr(client_callback_runtime, "resolve_auto_sampling_enabled")
    with pytest.raises(AgentError, match=r"client_callback_runtime\.resolve_auto_sampling_enabled"):
        application.check_names()


def test_a_server_for_which_no_descriptor_is_left_is_only_unattached(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(connections, "output_of", none_left)
    attachments = Attachments(lambda *_: None, Reachability())
    registry = SimpleNamespace(get_server_config=lambda _: SimpleNamespace(transport="stdio"))
    monkeypatch.setattr(connections.Aggregator, "_attachments", attachments)
    aggregator = object.__new__(connections.Aggregator)
    monkeypatch.setattr(aggregator, "_require_server_registry", lambda: registry)
    aggregator.agent_name = "demo"
    asyncio.run(aggregator._attach("files", attachments))
    assert attachments.unreachable["files"] == "the worker has no file descriptor left"
    attachments.reachability.avoided["search"] = math.inf
    asyncio.run(aggregator._attach("search", attachments))
    assert attachments.unreachable["search"] == "it did not answer a moment ago"


def test_a_shortcut_that_has_moved_is_only_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    originals = {
        (mcp_connection_manager, "_wait_for_initialized_with_startup_budget"),
        (mcp_connection_manager, "_subscription_filter"),
        (client_gateway, "httpx2"),
    }
    for module, name in originals:
        monkeypatch.setattr(module, name, getattr(module, name))  # so that it is put back afterwards
    monkeypatch.delattr(mcp_connection_manager, "_subscription_filter")
    shortcuts.take_shortcuts()
    assert "_subscription_filter has moved" in caplog.text
    assert not hasattr(mcp_connection_manager, "_subscription_filter")


def test_that_a_connection_fails_again_and_again_is_not_logged_by_fast_agent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FastAgentLogger, "event", shortcuts._log_event)
    get_logger("fast_agent.mcp.mcp_connection_manager").error("library: Lifecycle task encountered an error")
    get_logger("fast_agent.mcp.mcp_aggregator").error("something else")
    get_logger("fast_agent.mcp.mcp_connection_manager").warning("library: Ping failed")
    assert [record.getMessage() for record in caplog.records] == [
        "[fast_agent.mcp.mcp_aggregator] something else",
        "[fast_agent.mcp.mcp_connection_manager] library: Ping failed",
    ]


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, 1),
        ({"callers": frozenset({"tools"})}, 2),
        ({"origin": "runtime"}, 2),
        ({"persistent": False}, 2),
        ({"url": "https://localhost:1/mcp"}, 2),
        ({"url": None}, 2),
        ({"mode": "modern"}, 2),
    ],
    ids=["near", "knows-callers", "attached-by-a-call", "no-session", "tls", "stdio", "prescribed"],
)
def test_what_a_server_is_is_believed_where_a_connection_costs_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], asked: int
) -> None:
    usual = {"url": "http://localhost:1/mcp", "mode": "auto", "origin": "central", "persistent": True}
    case = SimpleNamespace(**usual | {"callers": frozenset()} | changes)
    told = DiscoverResult(
        supported_versions=[LATEST_MODERN_VERSION],
        capabilities=ServerCapabilities(),
        instructions="Mind the gap.",
        _meta={"io.modelcontextprotocol/serverInfo": {"name": "tools", "version": "1"}},
    )
    questions = []

    async def enter(connection: Any) -> Any:
        if connection.client.prior_discover is None:
            questions.append(connection)
        connection.discover_result = connection.client.prior_discover or told
        return connection

    monkeypatch.setattr(connections, "_enter", enter)
    attachments = Attachments(lambda *_: None, Reachability(), callers=case.callers)
    registry = SimpleNamespace(get_server_origin=lambda _: case.origin)
    monkeypatch.setattr(connections.Aggregator, "_attachments", attachments)
    aggregator = object.__new__(connections.Aggregator)
    monkeypatch.setattr(aggregator, "_require_server_registry", lambda: registry)
    aggregator.connection_persistence = case.persistent
    for _ in range(2):
        client = SimpleNamespace(mode="auto", prior_discover=None)
        settings = SimpleNamespace(url=case.url, protocol_mode=case.mode)
        callbacks = SimpleNamespace(aggregator=aggregator, server_name="tools", server_config=settings)
        connection: Any = SimpleNamespace(client=client, callbacks=callbacks)
        assert asyncio.run(connections.enter_connection(connection)).discover_result == told
    assert len(questions) == asked


def test_warnings_of_fast_agent_become_records_and_its_progress_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    logger = get_logger("tests.of.it")
    for kind in ("debug", "info", "warning", "error"):
        shortcuts._log_event(logger, kind, None, f"a {kind}", None, {})
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "[tests.of.it] a warning"),
        ("ERROR", "[tests.of.it] a error"),
    ]


def test_a_validator_is_made_once_for_equal_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def make(_session: object, _name: str, schema: dict[str, Any]) -> dict[str, Any]:
        made.append(schema)
        return schema

    monkeypatch.setattr(shortcuts, "_make_validator", make)
    monkeypatch.setattr(shortcuts, "_validators", {})
    session: Any = None
    schemas: list[dict[str, Any]] = [{"type": "object"}, {"type": "object"}, {"type": "array"}]
    for schema in schemas:
        assert shortcuts._output_schema_validator(session, "tool", schema) == schema
    assert made == [{"type": "object"}, {"type": "array"}]
    for number in range(shortcuts.MAX_VALIDATORS + 1):
        shortcuts._output_schema_validator(session, "tool", {"const": number})
    assert len(shortcuts._validators) <= shortcuts.MAX_VALIDATORS


async def a_modules_tool(text: str) -> str:
    """A function that every instance shares."""
    return text


def test_a_modules_function_is_wrapped_once_and_an_instances_own_each_time() -> None:
    def of_an_instance(text: str) -> str:
        return text

    assert shortcuts._wrap_function_tool(a_modules_tool) is shortcuts._wrap_function_tool(a_modules_tool)
    assert shortcuts._wrap_function_tool(of_an_instance) is not shortcuts._wrap_function_tool(of_an_instance)
    assert of_an_instance not in shortcuts._wrappers


def test_clients_of_a_provider_share_the_tls_context() -> None:
    from fast_agent.llm.provider.openai import llm_openai

    module: Any = llm_openai  # which does not say that it exports the class
    shortcuts.share_tls_with_providers()
    made = module.DefaultAioHttpClient
    assert made.keywords == {"verify": shared_context()}
    shortcuts.share_tls_with_providers()
    assert module.DefaultAioHttpClient is made, "once is enough"


def test_clients_of_anthropic_share_the_tls_context(monkeypatch: pytest.MonkeyPatch) -> None:
    from anthropic import _base_client
    from fast_agent.llm.provider.anthropic import llm_anthropic

    module: Any = llm_anthropic  # which does not say that it exports the class
    shared = _base_client.AsyncHttpxClientWrapper
    original: Any = getattr(shared, "func", shared)  # another test may have shared it already
    monkeypatch.setattr(_base_client, "AsyncHttpxClientWrapper", original)
    shortcuts.share_tls_with_providers()
    client = module.AsyncAnthropic(api_key="k")
    assert isinstance(client._client, original), "it closes itself, as before"
    assert client._client._transport._pool._ssl_context is shared_context()


def test_no_start_waits_for_a_tls_context_for_a_provider_that_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from anthropic import _base_client  # which every worker has loaded, from the zygote

    original: Any = getattr(
        _base_client.AsyncHttpxClientWrapper, "func", _base_client.AsyncHttpxClientWrapper
    )
    monkeypatch.setattr(_base_client, "AsyncHttpxClientWrapper", original)
    for name in [name for name in sys.modules if name.startswith("fast_agent.llm.provider.")]:
        monkeypatch.delitem(sys.modules, name)
    shortcuts.share_tls_with_providers()
    assert _base_client.AsyncHttpxClientWrapper is original


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://someone:secret@api.test:81/v1", "api.test:81"), ("nowhere", None), (None, None)],
)
def test_the_host_of_an_llm_is_told_without_credentials(url: str | None, host: str | None) -> None:
    assert application.host_of(SimpleNamespace(_base_url=lambda: url)) == host
    assert application.host_of(SimpleNamespace()) is None
