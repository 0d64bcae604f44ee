"""Registration of models and what the registry publishes, on fast-agent's real model database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fast_agent.llm.model_database import ModelDatabase
from fast_agent.llm.provider_types import Provider

from pallas_common.protocol.agent.llm import ModelCapabilities, model_name
from pallas_worker.agent.models.capabilities import (
    ModelReference,
    model_reference,
    published_capabilities,
    register_model,
    supports_vision,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEING = ModelCapabilities(vision=True, context_window=200_000, max_output_tokens=32_000)
READING = ModelCapabilities(vision=False)


@pytest.fixture(autouse=True)
def _fresh_database() -> Iterator[None]:
    yield
    ModelDatabase.clear_runtime_model_params()


@pytest.mark.parametrize(
    ("model", "reference", "needs_no_key"),
    [
        ("openai.my-model", ModelReference("openai", "my-model"), False),
        ("openai.my.model-v2", ModelReference("openai", "my.model-v2"), False),
        ("openai.org/model:8b", ModelReference("openai", "org/model:8b"), False),
        ("gpt-4.1", ModelReference("openai", "gpt-4.1"), False),
        (
            "anthropic.claude-sonnet-4-5?reasoning=high",
            ModelReference("anthropic", "claude-sonnet-4-5"),
            False,
        ),
        ("passthrough", ModelReference("fast-agent", "passthrough"), True),
        ("playback", ModelReference("fast-agent", "playback"), True),
        ("silent", ModelReference("fast-agent", "silent"), True),
        ("slow", ModelReference("fast-agent", "slow"), True),
        ("nobody.knows", ModelReference(None, "knows"), False),
        ("unknown", ModelReference(None, "unknown"), False),
    ],
)
def test_specifications_are_read_as_fast_agent_reads_them(
    model: str, reference: ModelReference, needs_no_key: bool
) -> None:
    assert model_reference(model) == reference
    assert model_reference(model).needs_no_key is needs_no_key


@pytest.mark.parametrize("capabilities", [SEEING, READING])
def test_an_unknown_model_is_registered_once_as_declared(capabilities: ModelCapabilities) -> None:
    assert not supports_vision("openai.my-model")
    assert register_model("openai.my-model", capabilities)
    assert not register_model("openai.my-model", READING)
    parameters = ModelDatabase.get_model_params("openai.my-model")
    assert parameters is not None
    assert parameters.context_window == capabilities.context_window
    assert parameters.max_output_tokens == capabilities.max_output_tokens
    expected = ModelDatabase.QWEN_MULTIMODAL if capabilities.vision else ModelDatabase.TEXT_ONLY
    assert parameters.tokenizes == expected
    assert supports_vision("openai.my-model") is capabilities.vision


@pytest.mark.parametrize("provider", Provider)
def test_the_published_name_is_without_any_provider_that_fast_agent_knows(provider: Provider) -> None:
    assert model_name(f"{provider.config_name}.some-model-4.1") == "some-model-4.1"


@pytest.mark.parametrize(
    "model", ["gpt-4.1", "claude-3.5-sonnet", "passthrough", "qwen2.5", "fast-agentic.x"]
)
def test_a_name_without_a_provider_keeps_its_dots(model: str) -> None:
    assert model_name(model) == model


@pytest.mark.parametrize("model", ["openai.gpt-4.1", "sonnet", "passthrough"])
def test_a_known_model_is_left_alone(model: str) -> None:
    before = ModelDatabase.get_model_params(model)
    assert not register_model(model, ModelCapabilities(context_window=1, max_output_tokens=1))
    assert ModelDatabase.get_model_params(model) == before
    assert ModelDatabase.list_runtime_models() == []


def test_a_model_that_is_not_on_its_providers_closed_list_is_unknown() -> None:
    assert not supports_vision("copilot.nope")
    assert published_capabilities("copilot.nope", "openai.my-model", SEEING) is None


def test_vision() -> None:
    assert supports_vision("openai.gpt-4.1")
    assert not supports_vision("passthrough")
    assert not supports_vision("openai.my-model")


@pytest.mark.parametrize(
    ("model", "default_model", "capabilities", "published"),
    [
        ("openai.my-model", "openai.my-model", SEEING, SEEING),
        ("openai.my-model?temperature=0", "openai.my-model", SEEING, SEEING),
        ("openai.gpt-4.1", "openai.gpt-4.1", READING, READING),
        (None, "openai.my-model", SEEING, SEEING),
        (None, None, SEEING, SEEING),
        ("openai.my-model", "openai.my-model", None, None),
        ("openai.gpt-4.1", "openai.my-model", None, None),
        ("openai.other", "openai.my-model", SEEING, None),
        ("openai.my-model", "generic.my-model", SEEING, None),
        (
            "passthrough",
            "openai.my-model",
            SEEING,
            ModelCapabilities(vision=False, context_window=1_000_000, max_output_tokens=100_000),
        ),
        (
            "openai.gpt-4.1",
            "openai.my-model",
            READING,
            ModelCapabilities(vision=True, context_window=1_047_576, max_output_tokens=32_768),
        ),
    ],
)
def test_what_an_agent_publishes(
    model: str | None,
    default_model: str | None,
    capabilities: ModelCapabilities | None,
    published: ModelCapabilities | None,
) -> None:
    assert published_capabilities(model, default_model, capabilities) == published
