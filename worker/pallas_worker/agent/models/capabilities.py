"""What models can do: fast-agent's own database, completed by what the deployment declares.

Knows fast-agent's public model parser and database; must not know providers' keys or addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fast_agent.core.exceptions import ModelConfigError
from fast_agent.core.model_resolution import resolve_model_spec
from fast_agent.llm.model_database import ModelDatabase, ModelParameters
from fast_agent.llm.model_factory import ModelFactory
from fast_agent.llm.provider_types import Provider

from pallas_common.protocol.agent.images import MIME_TYPES
from pallas_common.protocol.agent.llm import ModelCapabilities, model_name
from pallas_worker.agent.models.agent_kinds import asks_a_model, image_readers
from pallas_worker.interface.vision import Vision, common_vision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fast_agent.context import Context


class ModelReference(NamedTuple):
    """A model as fast-agent understands its specification."""

    provider: str | None
    """fast-agent's name of the provider, or None where the specification names an unknown one."""
    name: str
    """The model's own name, as the provider knows it."""

    @property
    def needs_no_key(self) -> bool:
        """Whether fast-agent plays the model itself: passthrough, playback, silent, slow."""
        return self.provider == Provider.FAST_AGENT.config_name


def model_reference(model: str) -> ModelReference:
    """The provider and the name in `openai.gpt-5`, `gpt-4.1?temperature=0`, `sonnet` or `passthrough`."""
    try:
        parsed = ModelFactory.parse_model_spec(model)
    except ModelConfigError:
        return ModelReference(None, model_name(model))
    return ModelReference(parsed.provider.config_name, parsed.model_name)


class Overlay(NamedTuple):
    """What a model overlay, which is a file in fast-agent's home, says of the connection."""

    base_url: str | None = None
    api_key: str | None = None
    closed: bool = False
    """Whether the address may lead nowhere but where `pallas_common.http.reach` says."""


class AskedModel(NamedTuple):
    """A model that an agent asks, and how it is reached."""

    spec: str
    """As fast-agent gets it: `openai.gpt-5`, an alias, or the name of an overlay."""
    reference: ModelReference
    overlay: Overlay = Overlay()
    api_key: str | None = None
    """The key in the agent's definition."""


def asked_model(spec: str, api_key: str | None = None) -> AskedModel:
    """A model by its specification; to look for an overlay reads files."""
    return AskedModel(spec, model_reference(spec), _overlay_of(spec), api_key)


def overlaid_keys(specs: Iterable[str]) -> frozenset[str]:
    """The API keys of the models that are called by the names of overlays."""
    return frozenset(key for spec in specs if (key := _overlay_of(spec).api_key))


def _overlay_of(model: str) -> Overlay:
    """The connection of a model that is called by the name of an overlay; an empty one for all others."""
    try:
        resolved = ModelFactory.resolve_model_spec(model)
        options = resolved.llm_init_kwargs
    except ModelConfigError:
        return Overlay()
    base_url, api_key = options.get("base_url"), options.get("api_key")
    return Overlay(
        base_url if isinstance(base_url, str) else None,
        api_key if isinstance(api_key, str) else None,
        getattr(resolved.overlay, "closed", False) is True,
    )


def register_model(model: str, capabilities: ModelCapabilities) -> bool:
    """Register a model that fast-agent does not know; True if that was needed.

    Without it, fast-agent drops images without a word and guesses the sizes (technical reference, "Model
    Registration"). Calling it again with the same model does nothing.
    """
    if _parameters(model) is not None:
        return False
    tokenizes = ModelDatabase.QWEN_MULTIMODAL if capabilities.vision else ModelDatabase.TEXT_ONLY
    ModelDatabase.register_runtime_model_params(
        model,
        ModelParameters(
            context_window=capabilities.context_window,
            max_output_tokens=capabilities.max_output_tokens,
            tokenizes=tokenizes,
        ),
    )
    return True


def image_types(model: str) -> frozenset[str]:
    """The types of images that fast-agent will send to the model; none for one that it does not know."""
    if _parameters(model) is None:
        return frozenset()
    name, provider = _known_as(model)
    return frozenset(
        type_ for type_ in MIME_TYPES if ModelDatabase.supports_mime(name, type_, provider=provider)
    )


def supports_vision(model: str) -> bool:
    """Whether fast-agent will send images to the model; False for one that it does not know."""
    return bool(image_types(model))


def vision_of(agent: str, definitions: Mapping[str, Mapping[str, Any]], context: Context) -> Vision:
    """The images that reach every model which is shown a message to `agent`.

    `definitions` are the agents of the application, and `context` its own, where the default model is.
    """

    def types(name: str) -> frozenset[str]:
        model = resolve_model_spec(context, model=definitions[name]["config"].model).model
        return image_types(model) if model is not None else frozenset()

    readers = image_readers(agent, definitions)
    return common_vision(agent, ((name, types(name) if able else None) for name, able in readers))


def asked_models(
    agent: str, definitions: Mapping[str, Mapping[str, Any]], context: Context
) -> tuple[AskedModel, ...]:
    """The models of `agent` and of the agents that it is made of, each once, its own first.

    An agent that only hands messages on to others asks none, whatever the default is.
    """
    specs = {
        name: spec
        for name, data in definitions.items()
        if (spec := resolve_model_spec(context, model=data["config"].model).model) is not None
    }
    keys: dict[str, str] = {}
    for name, spec in specs.items():
        if (key := definitions[name]["config"].api_key) is not None:
            keys.setdefault(spec, key)
    order = [agent, *(name for name in specs if name != agent)]
    asked = dict.fromkeys(specs[name] for name in order if name in specs and asks_a_model(definitions[name]))
    return tuple(asked_model(spec, keys.get(spec)) for spec in asked)


def published_capabilities(
    model: str | None, default_model: str | None, capabilities: ModelCapabilities | None
) -> ModelCapabilities | None:
    """What the registry may say of an agent whose model is `model`.

    The declared `capabilities` are those of `default_model`. An agent with another model publishes what
    fast-agent knows of that one, and nothing if it knows nothing; a deployment that declares no capabilities
    publishes none (interface specification, "Schema"; technical reference, "Capabilities").
    """
    if capabilities is None or model is None:
        return capabilities
    if default_model is not None and model_reference(model) == model_reference(default_model):
        return capabilities
    if (parameters := _parameters(model)) is None:
        return None
    return ModelCapabilities(
        vision=supports_vision(model),
        context_window=parameters.context_window,
        max_output_tokens=parameters.max_output_tokens,
    )


def _known_as(model: str) -> tuple[str, Provider | None]:
    """By which name and provider fast-agent's database has it: an overlay may be called as another model is."""
    try:
        resolved = ModelFactory.resolve_model_spec(model)
    except ModelConfigError:
        return model, None
    if resolved.overlay is None:
        return model, None
    return resolved.model_config.model_name, resolved.provider


def _parameters(model: str) -> ModelParameters | None:
    """What fast-agent knows of the model."""
    name, provider = _known_as(model)
    try:
        return ModelDatabase.get_model_params(name, provider=provider)
    except ModelConfigError:  # a provider with a closed list of models, and this is none of them
        return None
