"""What supervisor, catalogue and workers say of an LLM: what it can do, and its name without its provider's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """`model_capabilities` of `fastagent.config.yaml`. Sizes are in tokens."""

    vision: bool = False
    context_window: int = 131_072
    max_output_tokens: int = 16_384


HYPHENATED_PROVIDERS = frozenset({"anthropic-vertex", "fast-agent"})
"""fast-agent's providers that are not called by letters alone."""


def model_name(model: str) -> str:
    """The model's own name: what follows the provider's dot, `openai.gpt-4.1` → `gpt-4.1`.

    Providers are called by letters alone, but for a few, so that a model without one keeps its dots: `gpt-4.1` →
    `gpt-4.1`.
    """
    provider, dot, name = model.partition(".")
    return name if dot and (provider.isalpha() or provider in HYPHENATED_PROVIDERS) else model
