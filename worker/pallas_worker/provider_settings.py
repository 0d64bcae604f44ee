"""Which LLM providers are configured, and with what: read from fast-agent's settings and the environment.

Pure. Knows the providers that preflight can check; must not ask them anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from pallas_worker.models import model_reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fast_agent.config import Settings

ProviderName = Literal["anthropic", "openai"]

DEFAULT_URLS: Mapping[ProviderName, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
}
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_HINT = "<your-api-key-here>"
"""What fast-agent writes into a new secrets file in place of a key."""
_SAME_KEY: Mapping[str, ProviderName] = {"anthropic": "anthropic", "openai": "openai", "responses": "openai"}
"""fast-agent's providers that preflight can check, and whose key and address they use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """How one LLM provider is reached; `api_key` is None where none is configured."""

    name: ProviderName
    api_key: str | None = field(repr=False)
    base_url: str


def active_provider(model: str | None) -> ProviderName | None:
    """The provider of a model, if it is one that preflight can check.

    `openai.gpt-5` → `openai`; None for `passthrough` and its kind, and for other providers.
    """
    provider = model_reference(model).provider if model is not None else None
    return _SAME_KEY.get(provider) if provider is not None else None


def provider_settings(settings: Settings, environment: Mapping[str, str]) -> tuple[ProviderSettings, ...]:
    """Every provider that preflight can check, from its section or else from the environment.

    The variables are ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY and OPENAI_BASE_URL. A value that
    still holds a `${VAR}` counts as absent: see `forget_unresolved`.
    """
    return tuple(
        ProviderSettings(
            name=name,
            api_key=_value(settings, name, "api_key", environment),
            base_url=_value(settings, name, "base_url", environment) or DEFAULT_URLS[name],
        )
        for name in DEFAULT_URLS
    )


def forget_unresolved(settings: Settings) -> tuple[str, ...]:
    """Set to None every provider's key and address that refers to an unset variable; one warning each.

    fast-agent leaves such a `${VAR}` as it is and sends it as a key, or takes it for an address; as None it
    falls back to the environment and to the provider's own default.
    """
    warnings = []
    for section_name, section in _sections(settings):
        for key in ("api_key", "base_url"):
            value = getattr(section, key, None)
            if isinstance(value, str) and (unset := _PLACEHOLDER.search(value)):
                setattr(section, key, None)
                warnings.append(
                    f"{section_name}.{key} refers to {unset[0]}, which is not set: it counts as absent"
                )
    return tuple(warnings)


def _sections(settings: Settings) -> list[tuple[str, Any]]:
    """The sections of the settings, by name; those of providers are among them."""
    values = ((name, getattr(settings, name)) for name in type(settings).model_fields)
    return [(name, value) for name, value in values if isinstance(value, BaseModel)]


def _value(settings: Settings, name: ProviderName, key: str, environment: Mapping[str, str]) -> str | None:
    configured = getattr(getattr(settings, name, None), key, None)
    for value in (configured, environment.get(f"{name}_{key}".upper())):
        if isinstance(value, str) and value and value != _HINT and not _PLACEHOLDER.search(value):
            return value
    return None
