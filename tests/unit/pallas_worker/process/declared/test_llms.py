"""The models of a definition: how they are reached, and what is wrong with them."""

from __future__ import annotations

import pytest

from pallas_common.protocol.agent.definition import AgentDefinition, LlmDefinition
from pallas_worker.fastagent.declared.models import NO_KEY
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.llms import declared_models

SECRETS = {"litellm/KEY": "sk-0123456789"}


def llm(**fields: str | None) -> LlmDefinition:
    said = {"name": "house", "provider": "openai", "model": "qwen3-thinking"} | fields
    return LlmDefinition(**said)  # type: ignore[arg-type]


def definition(own: LlmDefinition, *others: LlmDefinition) -> AgentDefinition:
    return AgentDefinition(instruction="", llm=own, models=others)


@pytest.mark.parametrize("reference", ["${secret:litellm/KEY}", "litellm/KEY"])
def test_an_address_and_a_key_are_the_model_s_own(reference: str) -> None:
    (model,) = declared_models(definition(llm(url="http://a/v1", api_key=reference)), SECRETS)
    assert model.compiled_model_spec == "openai.qwen3-thinking"
    assert model.llm_init_kwargs() == {
        "base_url": "http://a/v1",
        "api_key": "sk-0123456789",
        "default_headers": {},
    }
    assert "sk-0123456789" not in repr(model)


@pytest.mark.parametrize(
    ("fields", "made_with"),
    [
        ({}, {}),
        ({"api_key": "litellm/KEY"}, {"api_key": "sk-0123456789"}),
        ({"url": "http://a"}, {"base_url": "http://a", "default_headers": {}, "api_key": NO_KEY}),
        (
            {"provider": "anthropic", "url": "http://a/v1/"},
            {"base_url": "http://a", "default_headers": {}, "api_key": NO_KEY},
        ),
    ],
)
def test_only_an_address_of_its_own_keeps_the_deployment_s_key_away(
    fields: dict[str, str], made_with: dict[str, object]
) -> None:
    (model,) = declared_models(definition(llm(**fields)), SECRETS)
    assert model.llm_init_kwargs() == made_with


def test_a_model_s_name_may_begin_with_that_of_a_provider() -> None:
    (model,) = declared_models(definition(llm(model="openai/gpt-4.1")), {})
    assert model.compiled_model_spec == "openai.openai/gpt-4.1"


def test_an_unknown_model_may_think_aloud_and_has_no_limit_that_is_a_guess() -> None:
    unknown, known = declared_models(definition(llm(), llm(name="known", model="gpt-4.1")), {})
    parameters = unknown.build_model_parameters()
    assert parameters is not None
    assert parameters.reasoning == "stream"
    assert not parameters.max_output_tokens
    theirs = known.build_model_parameters()
    assert theirs is not None
    assert theirs.reasoning is None


def test_each_model_is_there_once() -> None:
    models = declared_models(definition(llm(), llm(name="other"), llm()), {})
    assert [model.name for model in models] == ["house", "other"]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"provider": "opena"}, "type: 'opena' is no provider of fast-agent's; did you mean openai?"),
        ({"provider": "mine"}, "type: 'mine' is no provider of fast-agent's; known are aliyun, anthropic, "),
        ({"model": " "}, "model: is empty: say what the provider calls the model"),
        (
            {"provider": "azure", "url": "http://a"},
            (
                "url: models of Azure are not asked at an address of their own; remove it, and set the address below "
                "`azure:` in fastagent.config.yaml"
            ),
        ),
        (
            {"api_key": "${secret:gone/KEY}"},
            "apiKeyRef: the secret gone has no key KEY: create it, or mend the reference",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_field_and_remedy(fields: dict[str, str], complaint: str) -> None:
    with pytest.raises(AgentError) as caught:
        declared_models(definition(llm(**fields)), SECRETS)
    assert str(caught.value).startswith(f"llm house: {complaint}")
    assert caught.value.permanent
