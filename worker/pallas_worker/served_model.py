"""Which LLM the served agent uses, and what that model can take.

Knows fast-agent's model names and database; must not know providers' keys, nor ask a provider anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fast_agent.core.exceptions import FastAgentError
from fast_agent.core.model_resolution import resolve_model_spec
from fast_agent.llm.model_database import ModelDatabase
from fast_agent.llm.model_factory import ModelFactory

from pallas_registry.deployment import ModelCapabilities
from pallas_worker.images import MIME_TYPES

if TYPE_CHECKING:
    from fast_agent.context import Context
    from fast_agent.llm.provider_types import Provider


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model of an agent, or nothing at all: agents without an LLM, or whose model is not known."""

    provider: Provider | None = None
    name: str | None = None
    """The model's own name, without its provider."""

    @property
    def qualified(self) -> str | None:
        """`provider.model-name`."""
        return f"{self.provider.config_name}.{self.name}" if self.provider is not None else self.name

    def takes_image(self, mime_type: str) -> bool:
        """Whether the model is known to take images of this type."""
        return self.name is not None and ModelDatabase.supports_mime(
            self.name, mime_type, provider=self.provider
        )

    def capabilities(self) -> ModelCapabilities | None:
        """What fast-agent's database knows of the model; None where it does not know it."""
        if self.name is None:
            return None
        params = ModelDatabase.get_model_params(self.name, provider=self.provider)
        if params is None:
            return None
        return ModelCapabilities(
            vision=any(self.takes_image(mime_type) for mime_type in MIME_TYPES),
            context_window=params.context_window,
            max_output_tokens=params.max_output_tokens,
        )


def resolve_model(context: Context, declared: str | None) -> ServedModel:
    """The model that an agent gets whose decorator says `declared`: that, or the configuration's default."""
    try:
        spec = resolve_model_spec(context, model=declared).model
        if spec is None:
            return ServedModel()
        parsed = ModelFactory.parse_model_string(spec)
    except FastAgentError:
        return ServedModel()  # making the first instance says what is wrong, better than we could
    return ServedModel(parsed.provider, parsed.model_name)
