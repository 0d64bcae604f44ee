"""`llm`: a model, where it is asked, and by which key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from pallas_registry.resources.kinds import names
from pallas_registry.resources.kinds.common import described, extras, said

if TYPE_CHECKING:
    from pallas_registry.reading.fields import Fields

KEYS = ("description", "type", "model", "url", "apiKeyRef", "extras")

PROVIDERS = (
    *("openai", "responses", "anthropic", "generic", "google", "azure", "bedrock", "openrouter", "deepseek"),
    *(
        "groq",
        "xai",
        "hf",
        "aliyun",
        "moonshot",
        "zai",
        "metaai",
        "tensorzero",
        "googleoai",
        "anthropic-vertex",
    ),
    *("openresponses", "codexresponses", "copilot", "fast-agent"),
)
"""As fast-agent calls them."""

_OTHER_WORDS = {
    **dict.fromkeys(("vllm", "litellm", "lmstudio", "openai-compatible"), "openai"),
    "ollama": "generic",
    "gemini": "google",
    "huggingface": "hf",
}


def read(_name: str, fields: Fields) -> dict[str, Any]:
    """The spec."""
    fields.only(KEYS)
    fields.require("type", "name the provider, as in `type: openai`")
    fields.require("model", "name the model as the provider does, as in `model: gpt-4.1`")
    return said(
        KEYS,
        {
            "description": described(fields),
            "type": _provider(fields),
            "model": fields.text("model", names.one_word),
            "url": fields.text("url", names.url),
            "apiKeyRef": _key(fields),
            "extras": extras(fields),
        },
    )


def _provider(fields: Fields) -> str | None:
    word = fields.text("type")
    if word is None or word in PROVIDERS:
        return word
    if (other := _OTHER_WORDS.get(word.lower())) is not None:
        fields.refuse(
            "type", f"`{word}` is not a known value", f"use `{other}`, with `url:` where it listens"
        )
        return None
    return fields.choice("type", PROVIDERS)


def _key(fields: Fields) -> str | None:
    """`NAME/KEY`, also of `{name: …, key: …}`."""
    if not isinstance(fields.node("apiKeyRef"), yaml.MappingNode):
        return fields.text("apiKeyRef", names.key_reference)
    section = fields.section("apiKeyRef")
    if section is None:
        return None
    section.only(("name", "key"))
    section.require("name", "name the secret")
    section.require("key", "name the key in the secret")
    name = section.text("name", lambda text: names.resource_name("secret", text))
    key = section.text("key", names.secret_key)
    return f"{name}/{key}" if name is not None and key is not None else None
