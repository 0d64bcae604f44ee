"""Where a worker's LLM calls go: to the address that its check asks, whichever client of fast-agent makes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fakes.llm_stub import Turn, run_llm_stub
from support.worker.process import run_worker
from support.worker.project import call, project, text
from support.worker.secrets import leaked

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-stub-0123456789"
ONE = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="demo", instruction="You answer.", {})
async def demo(): ...
"""


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


@pytest.mark.parametrize("where", ["definition", "overlay"])
def test_a_key_that_is_neither_in_the_settings_nor_in_the_environment_is_told_to_nobody(
    tmp_path: Path, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    key = "not-like-a-key-at-all"
    with run_llm_stub() as stub:
        config = f"llm_retries: 0\nopenai: {{base_url: '{stub.openai_url}'}}\n"
        if where == "definition":
            source = ONE.format(f'model="openai.stub-model", api_key="{key}"')
        else:
            source = ONE.format('model="mine"')
        directory = project(tmp_path, config=config, agents=source)
        if where == "overlay":
            overlays = directory / ".fast-agent" / "model-overlays"
            overlays.mkdir(parents=True)
            (overlays / "mine.yaml").write_text(
                "name: mine\nprovider: openai\nmodel: stub-model\n"
                f"connection: {{base_url: '{stub.openai_url}', auth: secret_ref, secret_ref: mine}}\n"
            )
            (overlays.parent / "model-overlays.secrets.yaml").write_text(f"mine: {{api_key: {key}}}\n")
        with run_worker(directory) as worker:
            stub.script(Turn(status=400, text=f"what is {key}?"))
            said = text(call(worker.url, "auto", "demo", message="x"))
            worker.stop()
            worker.wait_until(lambda it: it.ended)
        assert [asked.bearer for asked in stub.asked] == [key]
        assert any("what is [redacted]?" in line for line in worker.messages("WARNING"))
        assert leaked(said + json.dumps(worker.records) + capfd.readouterr().err, [key]) == []


def test_credentials_that_are_no_key_are_good_enough(tmp_path: Path) -> None:
    """Only calls tell whether they are: nothing else could ask with them."""
    with run_llm_stub() as stub:
        config = f"default_model: sonnet\nllm_retries: 0\nanthropic: {{base_url: '{stub.anthropic_url}'}}\n"
        environment = {"ANTHROPIC_AUTH_TOKEN": KEY}
        directory = project(tmp_path, config=config)
        with run_worker(directory, environment=environment, default_model="sonnet") as worker:
            assert text(call(worker.url, "auto", "demo", message="x")) == "echo: x"
            assert json.loads(text(call(worker.url, "auto", "get_health")))["status"] == "ok"
        assert [request.path for request in stub.requests] == ["/v1/messages"]


CHAIN = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="first", instruction="You are first.", model="openai.stub-model")
async def first(): ...


@fast.agent(name="second", instruction="You are second.", model="SECOND")
async def second(): ...


@fast.chain(name="demo", sequence=["first", "second"], default=True)
async def demo(): ...
"""


@pytest.mark.parametrize(
    ("second", "provider"), [("anthropic.stub-model", "anthropic"), ("openai.stub-model", "openai")]
)
@pytest.mark.parametrize("status", [401, 404])
def test_the_provider_is_blamed_whose_llm_failed(
    tmp_path: Path, second: str, provider: str, status: int
) -> None:
    with run_llm_stub() as stub:
        config = (
            "default_model: openai.stub-model\nllm_retries: 0\n"
            f"openai: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
            f"anthropic: {{api_key: {KEY}, base_url: '{stub.anthropic_url}'}}\n"
        )
        directory = project(tmp_path, config=config, agents=CHAIN.replace("SECOND", second))
        with run_worker(directory, default_model="openai.stub-model") as worker:
            stub.script(Turn(text="go on"), Turn(status=status, text="no"))
            assert call(worker.url, "auto", "demo", message="x").is_error
            assert len(stub.asked) == 2
            health = json.loads(text(call(worker.url, "auto", "get_health")))
            assert health["status"] == ("degraded" if provider == "openai" else "ok")
