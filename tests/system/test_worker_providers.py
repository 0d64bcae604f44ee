"""Where a worker's LLM calls go: to the address that its check asks, whichever client of fast-agent makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from peers.llm_stub import Turn, run_llm_stub
from system.worker_process import run_worker
from system.worker_project import call, project, text

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-stub-0123456789"


@pytest.mark.parametrize(
    ("model", "settings", "environment"),
    [
        ("o3-mini", "", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{origin}/v1"}),
        ("gpt-5.4-mini", "", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{origin}/v1"}),
        ("openai.gpt-4.1", "", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{origin}/v1"}),
        ("o3-mini", "openai: {{api_key: {key}, base_url: '{origin}/v1'}}", {}),
        ("o3-mini", "openai: {{api_key: {key}}}", {"OPENAI_BASE_URL": "{origin}/v1"}),
        (
            "o3-mini",
            "openai: {{base_url: '{origin}/v1'}}\nresponses: {{api_key: {key}}}",
            {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        ),
        ("sonnet", "", {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{origin}/v1/"}),
        ("sonnet", "anthropic: {{api_key: {key}, base_url: '{origin}/v1'}}", {}),
        ("generic.m", "generic: {{api_key: {key}}}", {"GENERIC_BASE_URL": "{origin}/v1"}),
    ],
)
def test_calls_go_where_the_settings_say(
    tmp_path: Path, model: str, settings: str, environment: dict[str, str]
) -> None:
    with run_llm_stub() as stub:
        origin = stub.anthropic_url
        config = f"default_model: {model}\nllm_retries: 0\n{settings.format(key=KEY, origin=origin)}\n"
        named = {name: value.format(origin=origin) for name, value in environment.items()}
        with run_worker(project(tmp_path, config=config), environment=named, default_model=model) as worker:
            assert text(call(worker.url, "auto", "demo", message="where?")) == "echo: where?"
        assert [asked.bearer for asked in stub.asked] == [KEY]


@pytest.mark.parametrize("model", ["o3-mini", "openai.gpt-4.1", "sonnet"])
def test_a_failure_names_the_host_that_was_asked(tmp_path: Path, model: str) -> None:
    with run_llm_stub() as stub:
        origin = stub.anthropic_url
        config = (
            f"default_model: {model}\nllm_retries: 0\n"
            f"openai: {{api_key: {KEY}, base_url: '{origin}/v1'}}\n"
            f"anthropic: {{api_key: {KEY}, base_url: '{origin}'}}\n"
        )
        with run_worker(project(tmp_path, config=config), default_model=model) as worker:
            stub.script(Turn(status=400, text="too long"))
            refused = call(worker.url, "auto", "demo", message="x")
            stub.loopback.stop()
            silent = call(worker.url, "auto", "demo", message="x")
        for result in (refused, silent):
            assert result.is_error
            assert f"the LLM provider at {origin[7:]} " in text(result)
