"""The guard around fast-agent's private names, and what one call's instance may share with another's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from fast_agent.agents.agent_types import AgentConfig
from fast_agent.core.fastagent import FastAgent
from fast_agent.core.logging.logger import get_logger
from fast_agent.core.managed_runtime import ManagedRuntimeMixin
from fast_agent.mcp import client_gateway, mcp_connection_manager
from fast_agent.types import PromptMessageExtended, RequestParams
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic import BaseModel

from pallas_worker import fastagent, runtime
from pallas_worker.errors import AgentError
from pallas_worker.tls import shared_context

if TYPE_CHECKING:
    from pathlib import Path


def test_the_installed_version_has_all_names() -> None:
    fastagent.check_names()


def test_a_name_that_has_moved_is_an_error_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ManagedRuntimeMixin, "_instantiate_agent_instance")
    with pytest.raises(AgentError) as caught:
        fastagent.check_names()
    assert caught.value.permanent
    assert f"fast-agent {fastagent.VERSION} is not supported" in str(caught.value)
    assert "FastAgent._instantiate_agent_instance" in str(caught.value)


def test_a_parameter_that_has_moved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def other(self: object) -> None: ...

    monkeypatch.setattr(FastAgent, "_finalize_initial_agent_instance", other)
    with pytest.raises(AgentError, match="_finalize_initial_agent_instance is not what it was"):
        fastagent.check_names()


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
    fastagent.take_shortcuts()
    assert "_subscription_filter has moved" in caplog.text
    assert not hasattr(mcp_connection_manager, "_subscription_filter")


@pytest.mark.parametrize("variable", ["HOME", "FAST_AGENT_HOME", "FAST_AGENT_RUNTIME_HOME", "NO_HOME"])
def test_where_skills_are_is_read_once_and_as_fast_agent_reads_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"{variable}={tmp_path / 'third'}\n")
    read = Mock(wraps=fastagent._read_skill_paths)
    monkeypatch.setattr(fastagent, "_read_skill_paths", read)
    fastagent._usual_skill_paths.cache_clear()
    first = fastagent._default_skill_paths(cwd=tmp_path)
    assert first == read(cwd=tmp_path)
    first.clear()
    assert fastagent._default_skill_paths(cwd=tmp_path) == read(cwd=tmp_path)
    assert read.call_count == 3
    fastagent._default_skill_paths(cwd=tmp_path, override=tmp_path / "home")
    assert read.call_count == 4
    fastagent._usual_skill_paths.cache_clear()


def test_configurations_of_two_calls_share_no_container() -> None:
    def tool() -> None: ...

    params = RequestParams(temperature=0.5)
    original = AgentConfig("a", servers=["s"], function_tools=[tool], default_request_params=params)
    own: Any = runtime._own_config(original)
    own.servers.append("t")
    own.default_request_params.temperature = 1.0
    assert original.servers == ["s"]
    assert original.default_request_params is not None
    assert original.default_request_params.temperature == 0.5
    assert own.function_tools == [tool]


def test_only_what_the_served_agent_is_made_of_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # fast-agent reads its configuration there
    fast = FastAgent("tests", parse_cli_args=False)

    @fast.agent(name="leaf")
    async def leaf() -> None: ...

    @fast.agent(name="middle", agents=["leaf"])
    async def middle() -> None: ...

    @fast.agent(name="other")
    async def other() -> None: ...

    @fast.chain(name="top", sequence=["middle", "leaf"])
    async def top() -> None: ...

    assert list(runtime._needed_by("top", fast.agents)) == ["leaf", "middle", "top"]
    assert list(runtime._needed_by("other", fast.agents)) == ["other"]


def test_a_copy_of_a_message_shares_nothing_that_can_change() -> None:
    image = ImageContent(type="image", data="aGk=", mime_type="image/png")
    result = CallToolResult(
        content=[TextContent(type="text", text="42")], structured_content={"a": [1, {"b": 2}]}, is_error=False
    )
    original = PromptMessageExtended(
        role="user",
        content=[TextContent(type="text", text="hello"), image],
        tool_results={"one": result},
        channels={"reasoning": [TextContent(type="text", text="hm")]},
    )
    theirs = BaseModel.__deepcopy__(original)
    ours = fastagent._deepcopy(original)
    assert ours == theirs == original
    assert ours.model_fields_set == original.model_fields_set
    ours.content.append(image)
    assert ours.tool_results is not None
    structured: Any = ours.tool_results["one"].structured_content
    structured["a"][1]["b"] = 3
    ours.tool_results["two"] = result
    assert ours.channels is not None
    assert isinstance(ours.channels, dict)
    ours.role = "assistant"
    assert original == theirs


def test_warnings_of_fast_agent_become_records_and_its_progress_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    logger = get_logger("tests.of.it")
    for kind in ("debug", "info", "warning", "error"):
        fastagent._log_event(logger, kind, None, f"a {kind}", None, {})
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "[tests.of.it] a warning"),
        ("ERROR", "[tests.of.it] a error"),
    ]


def test_a_validator_is_made_once_for_equal_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(
        fastagent, "_make_validator", lambda session, name, schema: made.append(schema) or schema
    )
    monkeypatch.setattr(fastagent, "_validators", {})
    session: Any = None
    schemas: list[dict[str, Any]] = [{"type": "object"}, {"type": "object"}, {"type": "array"}]
    for schema in schemas:
        assert fastagent._output_schema_validator(session, "tool", schema) == schema
    assert made == [{"type": "object"}, {"type": "array"}]
    for number in range(fastagent.MAX_VALIDATORS + 1):
        fastagent._output_schema_validator(session, "tool", {"const": number})
    assert len(fastagent._validators) <= fastagent.MAX_VALIDATORS


async def a_modules_tool(text: str) -> str:
    """A function that every instance shares."""
    return text


def test_a_modules_function_is_wrapped_once_and_an_instances_own_each_time() -> None:
    def of_an_instance(text: str) -> str:
        return text

    assert fastagent._wrap_function_tool(a_modules_tool) is fastagent._wrap_function_tool(a_modules_tool)
    assert fastagent._wrap_function_tool(of_an_instance) is not fastagent._wrap_function_tool(of_an_instance)
    assert of_an_instance not in fastagent._wrappers


def test_clients_of_a_provider_share_the_tls_context() -> None:
    from fast_agent.llm.provider.openai import llm_openai

    fastagent.share_tls_with_providers()
    made: Any = llm_openai.DefaultAioHttpClient
    assert made.keywords == {"verify": shared_context()}
    fastagent.share_tls_with_providers()
    assert llm_openai.DefaultAioHttpClient is made, "once is enough"
