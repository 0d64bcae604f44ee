"""What a definition says of turns, as the worker's rooms take it."""

from __future__ import annotations

import pytest

from pallas_common.protocol.agent.definition import AgentDefinition, LlmDefinition
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.spec import WorkerSpec
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.turns import defaults_of, other_models, permitted_tools


def llm(name: str) -> LlmDefinition:
    return LlmDefinition(name=name, provider="openai", model="m")


def spec(definition: AgentDefinition | None, models: tuple[str, ...] = ()) -> WorkerSpec:
    return WorkerSpec(
        agent="deployer",
        source=AgentSource("definition", "deployer"),
        title="",
        description="",
        version="",
        deployment="",
        port=1,
        generation=1,
        directory="",
        allowed_hosts=(),
        metrics_directory="",
        metrics_slot="",
        log_level="",
        root_log_level="",
        definition=definition,
        models=models,
    )


def test_an_agent_of_another_source_has_nothing_of_this() -> None:
    module = spec(None, ("openai.gpt-4.1",))
    assert (defaults_of(module), permitted_tools(module)) == (None, None)
    assert other_models(module) == ("openai.gpt-4.1",)


def test_models_go_by_the_names_of_their_llms_each_once() -> None:
    declared = AgentDefinition(instruction="", models=(llm("small"), llm("large")))
    assert other_models(spec(declared, ("small",))) == ("small", "large")


def test_no_patterns_mean_all_tools_and_an_empty_list_none() -> None:
    assert permitted_tools(spec(AgentDefinition(instruction=""))) is None
    nothing = permitted_tools(spec(AgentDefinition(instruction="", tools=())))
    assert nothing is not None
    assert not nothing.permit("web__echo")


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"temperature": 3}, "defaultParams.temperature: must be from 0 to 2, not 3"),
        ({"temprature": 1}, "defaultParams: unknown field 'temprature'; did you mean temperature?"),
        ({"system_override": "x"}, "defaultParams: unknown field 'system_override'; "),
        ({"response_format": {"type": "xml"}}, "defaultParams.response_format.type: "),
    ],
)
def test_a_bad_default_is_the_definition_s_mistake(parameters: dict[str, object], complaint: str) -> None:
    with pytest.raises(AgentError) as caught:
        defaults_of(spec(AgentDefinition(instruction="", parameters=parameters)))
    assert str(caught.value).startswith(f"agent deployer: {complaint}")
    assert caught.value.permanent
