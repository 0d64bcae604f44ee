"""What an LLM lacks before it can be asked, by fast-agent's own LLMs."""

from __future__ import annotations

from typing import Any

import pytest
from fast_agent.config import AnthropicSettings, Settings
from fast_agent.context import Context
from fast_agent.core.exceptions import ProviderKeyError
from fast_agent.llm.model_factory import ModelFactory

from pallas_worker.agent.models.keys import key_remedy, missing_key


def llm(model: str, monkeypatch: pytest.MonkeyPatch, **sections: Any) -> Any:
    """The LLM of a model, without any key in the environment."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GROQ_API_KEY", "GOOGLE_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    agent: Any = type("Agent", (), {"name": "a"})()
    return ModelFactory.create_factory(model)(agent, context=Context(config=Settings(**sections)))


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        ("anthropic.claude-sonnet-4-5", "Anthropic: set ANTHROPIC_API_KEY in .env"),
        ("openai.gpt-4.1", "OpenAI: set OPENAI_API_KEY in .env"),
        ("responses.gpt-5-mini", "Responses: set OPENAI_API_KEY in .env"),
        ("groq.llama", "Groq: set GROQ_API_KEY in .env"),
    ],
)
def test_the_variable_is_named(model: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_key(llm(model, monkeypatch)) == f"no API key is configured for {remedy}"


@pytest.mark.parametrize("model", ["passthrough", "generic.qwen3", "hf.some/model"])
def test_models_that_lack_nothing(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need no key, or get the one of each caller."""
    assert missing_key(llm(model, monkeypatch)) is None


def test_a_key_in_a_file_or_in_the_environment_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    configured = llm(
        "anthropic.claude-sonnet-4-5", monkeypatch, anthropic=AnthropicSettings(api_key="sk-ant-x")
    )
    assert missing_key(configured) is None
    other = llm("openai.gpt-4.1", monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert missing_key(other) is None


def test_where_no_variable_helps_the_words_are_fast_agents_own_on_one_line() -> None:
    assert key_remedy(ProviderKeyError("Google ADC not found", "Log in.\nThen try again.")) == (
        "Google ADC not found: Log in. Then try again."
    )
