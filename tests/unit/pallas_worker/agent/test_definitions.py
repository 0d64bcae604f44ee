"""What one call's definitions may share with another's, and which of them are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fast_agent.agents.agent_types import AgentConfig
from fast_agent.core.fastagent import FastAgent
from fast_agent.types import RequestParams

from pallas_worker.agent.definitions import copies_for_call, needed_by, undefined_agents, with_model
from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path


def test_configurations_of_two_calls_share_no_container() -> None:
    def tool() -> None: ...

    params = RequestParams(temperature=0.5)
    original = AgentConfig("a", servers=["s"], function_tools=[tool], default_request_params=params)
    own: Any = copies_for_call({"a": {"config": original}})["a"]["config"]
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

    assert list(needed_by("top", fast.agents)) == ["leaf", "middle", "top"]
    assert list(needed_by("other", fast.agents)) == ["other"]


def test_agents_that_others_name_and_nobody_defines() -> None:
    fast = FastAgent("test", parse_cli_args=False, quiet=True)

    @fast.agent(name="one", agents=["two", "twoo", "nobody"])
    async def one() -> None: ...

    @fast.agent(name="two")
    async def two() -> None: ...

    assert list(undefined_agents(fast.agents)) == [
        "agent 'one' names the agent 'nobody', which is not defined; define it, or remove it there",
        "agent 'one' names the agent 'twoo', which is not defined; did you mean 'two'?",
    ]


@pytest.mark.parametrize(("same_provider", "key"), [(True, "sk-own"), (False, None)])
def test_another_model_gets_the_key_of_the_definition_at_the_same_provider_alone(
    same_provider: bool, key: str | None
) -> None:
    own = AgentConfig(name="a", model="openai.one", api_key="sk-own")
    agents = {"a": {"type": "basic", "config": own}}
    config = with_model("a", agents, "generic.two", same_provider=same_provider)["a"]["config"]
    assert (config.model, config.api_key) == ("generic.two", key)
    assert (own.model, own.api_key) == ("openai.one", "sk-own")


def test_an_agent_that_hands_messages_on_has_no_model_to_replace() -> None:
    agents = {"c": {"type": "chain", "config": AgentConfig(name="c")}}
    with pytest.raises(ArgumentError, match="model_override: the agent hands messages on"):
        with_model("c", agents, "openai.two", same_provider=True)
