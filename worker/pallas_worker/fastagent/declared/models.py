"""Declared models: asked at their own address with their own key, whatever else is configured for their provider.

fast-agent has this as overlays, files in its home, and looks them up by the name that an agent gives as its model.
Those of an agent's definition are added to them here, from memory: no key is written anywhere.

Knows fast-agent's model factory from inside; must not know definitions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fast_agent.llm import model_factory
from fast_agent.llm.model_database import ModelDatabase, ModelParameters
from fast_agent.llm.model_overlays import (
    LoadedModelOverlay,
    ModelOverlayDefaults,
    ModelOverlayManifest,
    ModelOverlayRegistry,
    load_model_overlay_registry,
)
from fast_agent.llm.provider_types import Provider
from fast_agent.llm.resolved_model import resolve_base_model_params

from pallas_common.protocol.agent.llm import ModelCapabilities

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_KEY = "no-key"
"""Stands for a key towards an address that is declared without one: clients of providers want some.

Too short to be taken for a secret, which would be taken out of texts.
"""

UNKNOWN_LIMIT = 16_000
"""Tokens that a model of Anthropic's may write of which nothing is known."""

_THINK_ALOUD = frozenset({Provider.OPENAI, Provider.GENERIC, Provider.OPENROUTER, Provider.AZURE})
"""Providers that stand for servers of all kinds of models, which may send what they think beside the answer."""
_BY_SETTINGS = frozenset(
    {Provider.AZURE, Provider.BEDROCK, Provider.COPILOT, Provider.FAST_AGENT, Provider.ANTHROPIC_VERTEX}
)
"""Providers whose address is not one URL, or whose clients do not take it from here."""
_HEADERS_OF_ENVIRONMENT = (
    "ANTHROPIC_CUSTOM_HEADERS",
    "OPENAI_CUSTOM_HEADERS",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
)
"""Variables from which clients of providers add headers to every request, whatever its address."""


def provider_called(name: str) -> Provider | None:
    """fast-agent's provider of this name."""
    return next((provider for provider in Provider if provider.config_name == name), None)


def provider_names() -> list[str]:
    """What fast-agent calls its providers."""
    return sorted(provider.config_name for provider in Provider)


def takes_address(provider: Provider) -> bool:
    """Whether a model of this provider can be asked at an address of its own."""
    return provider not in _BY_SETTINGS


@dataclass(frozen=True, slots=True)
class DeclaredModel(LoadedModelOverlay):
    """A model, its address and its key."""

    url: str | None = None
    key: str | None = field(default=None, repr=False)
    closed: bool = False
    """Whether its address may lead nowhere but where `pallas_common.http.reach` says."""

    @property
    def compiled_model_spec(self) -> str:
        """Always with the provider before it: the model's own name may begin with that of a provider, too."""
        return f"{self.provider.config_name}.{self.model_name}"

    def llm_init_kwargs(self) -> dict[str, object]:
        """What its LLMs are made with. The headers of the provider's settings are for the provider's own address."""
        options: dict[str, object] = {}
        if self.url is not None:
            options |= {"base_url": self.url, "default_headers": {}, "api_key": self.key or NO_KEY}
        elif self.key is not None:
            options["api_key"] = self.key
        return options

    def build_model_parameters(self) -> ModelParameters | None:
        """What is known of it; of an unknown one, that it may think aloud, and no limit that would be a guess."""
        model = self.model_name.partition("?")[0]
        known = resolve_base_model_params(provider=self.provider, model_name=model)
        if self.provider not in _THINK_ALOUD:
            return known
        if known is not None:
            if self.url is None or known.reasoning is not None:
                return known
            return known.model_copy(update={"reasoning": "stream"})
        return ModelParameters.model_construct(
            context_window=ModelCapabilities().context_window,
            max_output_tokens=None,
            tokenizes=list(ModelDatabase.TEXT_ONLY),
            reasoning="stream",
            default_provider=self.provider,
        )


def declared_model(
    name: str, provider: Provider, model: str, url: str | None, key: str | None, *, closed: bool = False
) -> DeclaredModel:
    """A model that agents call `name`.

    Args:
        closed: its address may lead nowhere but where `pallas_common.http.reach` says.
    """
    if url is not None and provider is Provider.ANTHROPIC:  # whose client adds `/v1` itself
        url = url.rstrip("/").removesuffix("/v1")
    # Only Anthropic's API wants a limit in each request, and fast-agent has none for a model that it does not know.
    unknown = resolve_base_model_params(provider=provider, model_name=model.partition("?")[0]) is None
    limit = UNKNOWN_LIMIT if unknown and provider.config_name.startswith("anthropic") else None
    manifest = ModelOverlayManifest(
        name=name, provider=provider, model=model, defaults=ModelOverlayDefaults(max_tokens=limit)
    )
    return DeclaredModel(manifest, Path(), None, url, key, closed=closed and url is not None)


def use_models(models: Iterable[DeclaredModel]) -> None:
    """Let agents of this process ask these, by their names; what a file in fast-agent's home calls so counts less.

    An address that is declared gets the headers of nobody else.
    """
    declared = tuple(models)

    def load(*, start_path: Path | None = None, home: str | Path | None = None) -> ModelOverlayRegistry:
        found = load_model_overlay_registry(start_path=start_path, home=home)
        return ModelOverlayRegistry((*found.overlays, *declared), found.home_root)

    model_factory.__dict__["load_model_overlay_registry"] = load
    if any(model.url is not None for model in declared):
        for variable in _HEADERS_OF_ENVIRONMENT:
            os.environ.pop(variable, None)
