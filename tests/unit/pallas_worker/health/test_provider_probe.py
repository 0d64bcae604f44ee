"""Preflight of LLM providers against a fake server, and where its settings come from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from fast_agent.config import AnthropicSettings, GenericSettings, OpenAISettings, Settings

from fakes.llm_stub import Fault, LlmStub, run_llm_stub
from pallas_worker.agent.models.capabilities import AskedModel, asked_model
from pallas_worker.agent.models.providers import (
    ProviderName,
    ProviderSettings,
    forget_unresolved,
    provider_of,
    settle_addresses,
)
from pallas_worker.health.provider_probe import MAX_ANSWER, ProviderCheck, check_provider, checks_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pallas_common.protocol.reports import ProviderHealth

KEY = "sk-s3cret"


@pytest.fixture
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(models=["good-model", "org/model:8b"]) as running:
        yield running


def openai(stub: LlmStub, **fields: Any) -> ProviderSettings:
    return ProviderSettings(**{"name": "openai", "api_key": KEY, "base_url": stub.openai_url, **fields})


def anthropic(stub: LlmStub, **fields: Any) -> ProviderSettings:
    return ProviderSettings(**{"name": "anthropic", "api_key": KEY, "base_url": stub.anthropic_url, **fields})


def check(provider: ProviderSettings, model: str = "good-model") -> str | None:
    return asyncio.run(check_provider(provider, model))


def test_openai_lists_its_models(stub: LlmStub) -> None:
    assert check(openai(stub), "good-model") is None
    assert check(openai(stub), "org/model:8b") is None
    assert check(openai(stub, base_url=stub.openai_url + "/"), "good-model") is None
    assert check(openai(stub), "bad-model") == "model 'bad-model' not found"
    for request in stub.requests:
        assert (request.method, request.path) == ("GET", "/v1/models")
        assert request.headers["authorization"] == f"Bearer {KEY}"


def test_anthropic_is_asked_for_the_model(stub: LlmStub) -> None:
    assert check(anthropic(stub), "good-model") is None
    assert check(anthropic(stub, base_url=stub.anthropic_url + "/v1"), "org/model:8b") is None
    assert check(anthropic(stub), "bad-model") == "model 'bad-model' not found"
    paths = [request.path for request in stub.requests]
    names = ["good-model", "org/model:8b", "bad-model"]
    assert paths == [f"/v1/models/{name}" for name in names]
    for request in stub.requests:
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in request.headers


@pytest.mark.parametrize("make", [openai, anthropic])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=401, body=KEY), "HTTP 401: the API key is not accepted"),
        (Fault(status=403, body=KEY), "HTTP 403: the API key is not accepted"),
        (Fault(status=500, body=KEY), "HTTP 500"),
        (Fault(status=302, headers={"location": "http://127.0.0.1:9/"}), "HTTP 302"),
        (Fault(reset=True), "the connection broke off"),
    ],
)
def test_failures_are_said_without_the_key(stub: LlmStub, make: Any, fault: Fault, error: str) -> None:
    stub.loopback.fault = lambda _: fault
    assert check(make(stub), "good-model") == error


def test_openai_compatible_servers_that_answer_something_else(stub: LlmStub) -> None:
    wrong = openai(stub, base_url=stub.anthropic_url)
    assert check(wrong) == "HTTP 404 for the list of models: is base_url right?"
    deep = "[" * 100_000
    for body in ("[]", "{}", '{"data": 1}', '{"data": [{}]}', '{"data": [{"id": []}]}', "<html>", deep):
        stub.loopback.fault = lambda _, body=body: Fault(status=200, body=body)
        assert check(openai(stub), "good-model") == "the answer is not a list of models"
    stub.loopback.fault = lambda _: Fault(status=200, body=" " * (MAX_ANSWER + 1))
    assert check(openai(stub), "good-model") == "the list of models is too long"


def test_what_cannot_be_asked(stub: LlmStub) -> None:
    assert check(openai(stub, api_key=None)) == "no API key is configured: set OPENAI_API_KEY in .env"
    assert check(anthropic(stub, api_key=None)) == "no API key is configured: set ANTHROPIC_API_KEY in .env"
    assert check(openai(stub, api_key="s3crét\n")) == "a configured header is not valid"
    assert check(openai(stub, base_url="nonsense")) == "the URL is not valid"
    port = stub.loopback.port
    stub.loopback.stop()
    assert check(openai(stub, base_url=f"http://127.0.0.1:{port}/v1")) == "cannot connect"
    assert KEY not in repr(openai(stub))


def test_a_provider_that_does_not_answer_is_given_up(stub: LlmStub) -> None:
    stub.loopback.fault = lambda _: Fault(hold=True)

    health = asked(ProviderCheck(openai(stub), "good-model", timeout=0.2))
    assert outcome(health) == ("openai", False, "no answer within 0.2 s")


def asked(check: ProviderCheck) -> ProviderHealth:
    async def run() -> ProviderHealth:
        return await check()

    return asyncio.run(run())


def among(*providers: ProviderSettings) -> Callable[[AskedModel], ProviderSettings | None]:
    """Finds the provider of a model among these."""
    return lambda model: next((it for it in providers if it.name == model.reference.provider), None)


def outcome(health: ProviderHealth) -> tuple[str, bool, str | None]:
    assert health.latency is not None
    assert health.latency >= 0
    return health.name, health.up, health.error


def test_a_check_says_how_it_ended_and_how_long_it_took(stub: LlmStub) -> None:
    (check,) = checks_for([asked_model("openai.good-model")], among(anthropic(stub), openai(stub)))
    assert check is not None
    assert outcome(asked(check)) == ("openai", True, None)
    stub.models.clear()
    assert outcome(asked(check)) == ("openai", False, "model 'good-model' not found")
    assert [request.path for request in stub.requests] == ["/v1/models"] * 2


def test_only_providers_of_models_that_are_asked_are_checked(stub: LlmStub) -> None:
    providers = among(anthropic(stub, api_key=None), openai(stub))
    unasked = map(asked_model, ["passthrough", "generic.qwen3", "unknown"])
    assert checks_for(unasked, providers) == (None, None, None)
    models = map(asked_model, ["openai.good-model", "playback", "anthropic.bad-model"])
    checks = checks_for(models, providers)
    assert [check and (check.provider.name, check.model) for check in checks] == [
        ("openai", "good-model"),
        None,
        ("anthropic", "bad-model"),
    ]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai.my-model", "openai"),
        ("gpt-5", "openai"),
        ("responses.gpt-5", "openai"),
        ("sonnet", "anthropic"),
        ("anthropic.claude-sonnet-4-5", "anthropic"),
        ("passthrough", None),
        ("generic.qwen3", None),
        ("unknown", None),
    ],
)
def test_a_model_has_the_provider_whose_api_it_is_asked_by(model: str, name: ProviderName | None) -> None:
    provider = provider_of(asked_model(model), settings(), {})
    assert (provider and provider.name) == name


def settings(**sections: Any) -> Settings:
    """Settings as from a file with these sections, without looking for files."""
    made = Settings.model_construct()
    for name, section in sections.items():
        setattr(made, name, section)
    return made


def key_for(model: str, made: Settings, **environment: str) -> str | None:
    provider = provider_of(asked_model(model), made, environment)
    assert provider is not None
    return provider.api_key


def test_settings_come_from_the_file_then_the_environment_then_the_default() -> None:
    environment = {
        "OPENAI_API_KEY": "env-openai",
        "OPENAI_BASE_URL": "http://env.example/v1",
        "ANTHROPIC_API_KEY": "",
    }
    made = settings(openai=OpenAISettings(api_key="file-openai"), anthropic=AnthropicSettings())
    assert provider_of(asked_model("openai.m"), made, environment) == ProviderSettings(
        name="openai", api_key="file-openai", base_url="http://env.example/v1"
    )
    assert provider_of(asked_model("anthropic.m"), made, environment) == ProviderSettings(
        name="anthropic", api_key=None, base_url="https://api.anthropic.com"
    )
    hinted = settings(openai=OpenAISettings(api_key="<your-api-key-here>"))
    assert key_for("openai.m", hinted) is None


def test_unset_variables_count_as_absent_with_a_warning() -> None:
    made = settings(
        openai=OpenAISettings(api_key="${OPENAI_API_KEY}", base_url="${OPENAI_BASE_URL}"),
        anthropic=AnthropicSettings(api_key="resolved"),
    )
    assert (key_for("anthropic.m", made), key_for("openai.m", made)) == ("resolved", None)
    assert forget_unresolved(made) == (
        "openai.api_key refers to ${OPENAI_API_KEY}, which is not set: it counts as absent",
        "openai.base_url refers to ${OPENAI_BASE_URL}, which is not set: it counts as absent",
    )
    assert made.openai is not None
    assert (made.openai.api_key, made.openai.base_url) == (None, None)
    assert forget_unresolved(made) == ()
    assert key_for("openai.m", made, OPENAI_API_KEY="env") == "env"


@pytest.mark.parametrize(
    ("model", "sections", "environment", "expected"),
    [
        ("openai.m", {}, {}, "https://api.openai.com/v1"),
        ("responses.m", {}, {}, "https://api.openai.com/v1"),
        ("responses.m", {}, {"OPENAI_BASE_URL": "http://e/v1"}, "http://e/v1"),
        ("responses.m", {"openai": "http://o/v1"}, {"OPENAI_BASE_URL": "http://e/v1"}, "http://o/v1"),
        ("responses.m", {"openai": "http://o/v1", "responses": None}, {}, "http://o/v1"),
        ("responses.m", {"openai": "http://o/v1", "responses": "http://r/v1"}, {}, "http://r/v1"),
        ("openai.m", {"openai": "http://o/v1", "responses": "http://r/v1"}, {}, "http://o/v1"),
        ("anthropic.m", {}, {}, "https://api.anthropic.com"),
        ("anthropic.m", {"anthropic": "http://a1:8011/v1/"}, {}, "http://a1:8011"),
        ("anthropic.m", {}, {"ANTHROPIC_BASE_URL": "http://e/v1"}, "http://e"),
    ],
)
def test_one_address_for_the_check_and_for_all_clients(
    model: str, sections: dict[str, str | None], environment: dict[str, str], expected: str
) -> None:
    kinds = {"anthropic": AnthropicSettings, "openai": OpenAISettings, "responses": OpenAISettings}
    settings = Settings(**{name: kinds[name](base_url=url) for name, url in sections.items()})
    settle_addresses(settings, environment)
    provider = provider_of(asked_model(model), settings, environment)
    assert provider is not None
    assert provider.base_url == expected
    settle_addresses(settings, environment)
    assert provider_of(asked_model(model), settings, environment) == provider
    named = model.partition(".")[0]
    there = getattr(settings, named) or (settings.openai if named == "responses" else None)
    assert there is None or there.base_url == expected


@pytest.mark.parametrize(
    ("sections", "environment", "address"),
    [
        ({"openai": {"api_key": "k"}}, {}, None),
        ({}, {"OPENAI_BASE_URL": "http://elsewhere/v1"}, None),
        ({"openai": {"service_tier": "flex"}}, {"OPENAI_BASE_URL": "http://elsewhere/v1"}, None),
        ({"openai": {"base_url": "http://both/v1"}}, {}, "http://both/v1"),
        ({"codexresponses": {"base_url": "http://own/v1"}, "openai": {}}, {}, "http://own/v1"),
    ],
)
def test_the_token_of_a_chatgpt_account_goes_where_it_went(
    sections: dict[str, Any], environment: dict[str, str], address: str | None
) -> None:
    settings = Settings(**sections)
    settle_addresses(settings, environment)
    assert settings.codexresponses is not None
    assert settings.codexresponses.base_url == address
    assert settings.codexresponses.api_key is None


def test_a_generic_section_without_an_address_means_the_local_server() -> None:
    for environment, expected in (
        ({}, "http://localhost:11434/v1"),
        ({"GENERIC_BASE_URL": "http://g"}, "http://g"),
    ):
        settings = Settings(generic=GenericSettings(api_key="k"))
        settle_addresses(settings, environment)
        assert settings.generic is not None
        assert settings.generic.base_url == expected


def test_a_model_of_an_overlay_has_its_own_address_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlays = tmp_path / ".fast-agent" / "model-overlays"
    overlays.mkdir(parents=True)
    (overlays / "mine.yaml").write_text(
        "name: mine\nprovider: openai\nmodel: m\n"
        "connection: {base_url: 'http://overlay/v1', auth: env, api_key_env: OVERLAY_KEY}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERLAY_KEY", "k2")
    settings = Settings(openai=OpenAISettings(api_key="k1", base_url="http://o/v1"))
    own = ProviderSettings(name="openai", api_key="k2", base_url="http://overlay/v1")
    assert provider_of(asked_model("mine", "k3"), settings, {}) == own
    agents = ProviderSettings(name="openai", api_key="k3", base_url="http://o/v1")
    assert provider_of(asked_model("openai.m", "k3"), settings, {}) == agents
    assert provider_of(asked_model("passthrough"), settings, {}) is None
