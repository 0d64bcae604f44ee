"""Which LLM providers are configured, and with what: read from fast-agent's settings and the environment.

Pure. Knows the providers that preflight can check; must not ask them anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from fast_agent.config import AnthropicSettings, CodexResponsesSettings, OpenAISettings
from pydantic import BaseModel

from pallas_common.secrets.references import referred

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fast_agent.config import Settings

    from pallas_worker.agent.models.capabilities import AskedModel

ProviderName = Literal["anthropic", "openai"]

DEFAULT_URLS: Mapping[ProviderName, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
}
_GENERIC_URL = "http://localhost:11434/v1"
"""Where fast-agent's `generic` provider finds Ollama, unless an address is configured."""
_HINT = "<your-api-key-here>"
"""What fast-agent writes into a new secrets file in place of a key."""
_CHECKED: Mapping[str, tuple[ProviderName, tuple[str, ...]]] = {
    "anthropic": ("anthropic", ("anthropic",)),
    "openai": ("openai", ("openai",)),
    "responses": ("openai", ("responses", "openai")),
}
"""fast-agent's providers that preflight can check: whose API it is, and the sections with key and address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """How one LLM provider is reached; `api_key` is None where none is configured."""

    name: ProviderName
    api_key: str | None = field(repr=False)
    base_url: str
    closed: bool = False
    """Whether the address may lead nowhere but where `pallas_common.http.reach` says."""


def provider_of(
    model: AskedModel, settings: Settings, environment: Mapping[str, str]
) -> ProviderSettings | None:
    """Where the calls of a model really go, and with which key; None for a provider that preflight cannot check.

    Sections come first, then ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY and OPENAI_BASE_URL. A value that
    still holds a `${VAR}` counts as absent: see `forget_unresolved`. Models of the responses API have a section of
    their own, and those of a model overlay its address. The key in an agent's definition outranks those of sections.

    Args:
        model: of the agent.
        settings: after `settle_addresses`.
        environment: of the process.
    """
    provider = model.reference.provider
    if provider is None or provider not in _CHECKED:
        return None
    found = _settings_for(*_CHECKED[provider], settings, environment)
    return replace(
        found,
        base_url=model.overlay.base_url or found.base_url,
        closed=model.overlay.closed,
        api_key=model.overlay.api_key or model.api_key or found.api_key,
    )


def health_name(provider: str) -> str:
    """What health calls a provider of fast-agent's: those that preflight can check, by the API that they have."""
    return _CHECKED[provider][0] if provider in _CHECKED else provider


def settle_addresses(settings: Settings, environment: Mapping[str, str]) -> None:
    """Write into the settings where calls go, for every client to read it there, and the check as well.

    Left to themselves, some clients know no variable and ask the public address, with prompt and key: the responses
    API's over a WebSocket, and the one of a `generic` section without an address. fast-agent's client of Anthropic
    strips single characters off an address that ends in `/v1`, and asks another host or port.
    """
    if settings.codexresponses is None:
        settings.codexresponses = _codex_beside(settings.openai)
    if settings.anthropic is None and _from_environment("anthropic", "base_url", environment):
        settings.anthropic = AnthropicSettings()
    if settings.openai is None and _from_environment("openai", "base_url", environment):
        settings.openai = OpenAISettings()
    for section, (name, sections) in _CHECKED.items():
        if (configured := getattr(settings, section)) is not None:
            configured.base_url = _settings_for(name, sections, settings, environment).base_url
    if settings.generic is not None and not settings.generic.base_url:
        settings.generic.base_url = environment.get("GENERIC_BASE_URL") or _GENERIC_URL


def _codex_beside(openai: OpenAISettings | None) -> CodexResponsesSettings:
    """What fast-agent's client of Codex takes from a section of OpenAI for want of its own, which it goes on to have.

    Without one, the address that is written into OpenAI's section would get the token of a ChatGPT account.
    """
    asked = openai.model_fields_set - {"api_key"} if openai is not None else ()
    taken = {name: getattr(openai, name) for name in asked}
    if taken.get("service_tier") == "flex":  # OpenAI's alone
        del taken["service_tier"]
    return CodexResponsesSettings(**taken)


def forget_unresolved(settings: Settings) -> tuple[str, ...]:
    """Set to None every provider's key and address that refers to an unset variable; one warning each.

    fast-agent leaves such a `${VAR}` as it is and sends it as a key, or takes it for an address; as None it
    falls back to the environment and to the provider's own default.
    """
    warnings = []
    for section_name, section in _sections(settings):
        for key in ("api_key", "base_url"):
            value = getattr(section, key, None)
            if isinstance(value, str) and (unset := referred(value)):
                setattr(section, key, None)
                warnings.append(
                    f"{section_name}.{key} refers to ${{{unset[0]}}}, which is not set: it counts as absent"
                )
    return tuple(warnings)


def _sections(settings: Settings) -> list[tuple[str, Any]]:
    """The sections of the settings, by name; those of providers are among them."""
    values = ((name, getattr(settings, name)) for name in type(settings).model_fields)
    return [(name, value) for name, value in values if isinstance(value, BaseModel)]


def _settings_for(
    name: ProviderName, sections: tuple[str, ...], settings: Settings, environment: Mapping[str, str]
) -> ProviderSettings:
    """The provider as the first of its sections that is there says it, else the next ones, else the environment."""
    base_url = _value(settings, name, sections, "base_url", environment) or DEFAULT_URLS[name]
    if name == "anthropic":  # whose client adds `/v1` itself
        base_url = base_url.rstrip("/").removesuffix("/v1")
    there = [section for section in sections if getattr(settings, section, None) is not None][:1]
    key = _value(settings, name, (*there,), "api_key", environment)
    return ProviderSettings(name=name, api_key=key, base_url=base_url)


def _value(
    settings: Settings,
    name: ProviderName,
    sections: tuple[str, ...],
    key: str,
    environment: Mapping[str, str],
) -> str | None:
    for section in sections:
        if _counts(value := getattr(getattr(settings, section, None), key, None)):
            return cast("str", value)
    return _from_environment(name, key, environment)


def _from_environment(name: str, key: str, environment: Mapping[str, str]) -> str | None:
    value = environment.get(f"{name}_{key}".upper())
    return value if _counts(value) else None


def _counts(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value != _HINT and not referred(value)
