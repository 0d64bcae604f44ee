"""What becomes of each parameter of a call with each of fast-agent's providers: one table, and the page of it.

Pure data; `docs/parameters.md` is made from it, and a test compares it with what stand-ins of the providers receive.
Must not know how a parameter is put.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    type How = Literal["field", "body", "tools", "effort", "taken", "ignored", "refused"]


class Fate(NamedTuple):
    """How a parameter reaches the provider, or what the caller is told instead."""

    how: How
    """field: a field of fast-agent's request parameters; body: a key of the request's body as it is; tools: with
    requests that offer tools; effort: fast-agent's setting of the model's reasoning; taken: there is no provider."""
    wire: str = ""
    """Where it stands in the body of the request."""


IGNORED = Fate("ignored")
REFUSED = Fate("refused")
_TAKEN = Fate("taken")

HINTS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "stop",
    "max_tokens",
    "reasoning_effort",
    "service_tier",
)
"""Where a provider lacks one of them, it is left out and named; the others are refused."""

NAMES = (*HINTS, "tool_choice", "named tool_choice", "parallel_tool_calls", "extra")
"""The rows of the table; `named tool_choice` is one that names a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that are asked in the same way."""

    title: str
    providers: tuple[str, ...]
    """fast-agent's names."""
    tried: bool = False
    """Its column is compared with what a stand-in receives; the others are as the source of fast-agent says."""
    fates: Mapping[str, Fate]
    """What is not in it is ignored or refused."""
    largest_temperature: float = 2
    fewest_tokens: int = 1
    """The smallest limit that fast-agent sends; a smaller one becomes this."""

    def fate(self, name: str) -> Fate:
        """What becomes of a parameter."""
        return self.fates.get(name) or (IGNORED if name in HINTS else REFUSED)


def _fields(*names: str, **wires: str) -> dict[str, Fate]:
    return {name: Fate("field", name) for name in names} | {n: Fate("field", w) for n, w in wires.items()}


def _body(*names: str) -> dict[str, Fate]:
    return {name: Fate("body", name) for name in names}


def _without(fates: Mapping[str, Fate], *names: str) -> dict[str, Fate]:
    return {name: fate for name, fate in fates.items() if name not in names}


_EXTRA = {"extra": Fate("body", "")}
_CHOICES = {name: Fate("tools", "tool_choice") for name in ("tool_choice", "named tool_choice")}
_EFFORT = {"reasoning_effort": Fate("effort", "reasoning_effort")}

_CHAT = (
    _fields("temperature", "top_p", "presence_penalty", "frequency_penalty", "max_tokens", "stop")
    | _fields("parallel_tool_calls")
    | _body("logit_bias", "seed", "service_tier")
    | _CHOICES
    | _EXTRA
)
_CHAT_REASONING = (
    _fields(max_tokens="max_completion_tokens")
    | _body("seed", "service_tier")
    | _EFFORT
    | _CHOICES
    | {"parallel_tool_calls": Fate("tools", "parallel_tool_calls")}
    | _EXTRA
)
_OPEN = _body("top_k", "min_p", "repetition_penalty")
_COMPATIBLE = _without(_CHAT, "service_tier") | _OPEN | _EFFORT
_RESPONSES = (
    _fields("temperature", "top_p", "parallel_tool_calls", max_tokens="max_output_tokens")
    | _body("service_tier")
    | _CHOICES
    | _EXTRA
)
_RESPONSES_EFFORT = {"reasoning_effort": Fate("effort", "reasoning.effort")}
_RESPONSES_REASONING = _without(_RESPONSES, "temperature", "top_p") | _RESPONSES_EFFORT
_ANTHROPIC = (
    _fields("temperature", "top_p", "top_k", "max_tokens", stop="stop_sequences")
    | {"parallel_tool_calls": Fate("tools", "tool_choice.disable_parallel_tool_use")}
    | {"reasoning_effort": Fate("effort", "thinking or output_config.effort")}
    | _CHOICES
    | _EXTRA
)
_ANTHROPIC_THINKING = _without(
    _ANTHROPIC, "temperature", "top_p", "top_k", "tool_choice", "named tool_choice"
)

FAMILIES: Mapping[str, Family] = {
    "chat": Family(title="OpenAI chat", providers=("openai", "azure"), tried=True, fates=_CHAT),
    "chat-reasoning": Family(
        title="OpenAI chat, reasoning", providers=("openai", "azure"), tried=True, fates=_CHAT_REASONING
    ),
    "compatible": Family(
        title="compatible", providers=("generic", "openrouter", "hf"), tried=True, fates=_COMPATIBLE
    ),
    "responses": Family(
        title="Responses", providers=("responses",), tried=True, fates=_RESPONSES, fewest_tokens=16
    ),
    "responses-reasoning": Family(
        title="Responses, reasoning",
        providers=("responses",),
        tried=True,
        fates=_RESPONSES_REASONING,
        fewest_tokens=16,
    ),
    "anthropic": Family(
        title="Anthropic",
        providers=("anthropic", "anthropic-vertex"),
        tried=True,
        fates=_ANTHROPIC,
        largest_temperature=1,
    ),
    "anthropic-thinking": Family(
        title="Anthropic, thinking",
        providers=("anthropic", "anthropic-vertex"),
        tried=True,
        fates=_ANTHROPIC_THINKING,
    ),
    "fast-agent": Family(
        title="passthrough", providers=("fast-agent",), tried=True, fates=dict.fromkeys(NAMES, _TAKEN)
    ),
    "openresponses": Family(
        title="OpenResponses",
        providers=("openresponses",),
        fates=_without(_RESPONSES, "service_tier") | _OPEN | _RESPONSES_EFFORT,
        fewest_tokens=16,
    ),
    "xai": Family(
        title="xAI, MetaAI",
        providers=("xai", "metaai"),
        fates=_without(_RESPONSES, "service_tier") | _RESPONSES_EFFORT,
        fewest_tokens=16,
    ),
    "deepseek": Family(
        title="DeepSeek",
        providers=("deepseek",),
        fates=_without(_RESPONSES, "service_tier", "parallel_tool_calls") | _RESPONSES_EFFORT,
        fewest_tokens=16,
    ),
    "codex": Family(
        title="Codex",
        providers=("codexresponses",),
        fates=_without(_RESPONSES_REASONING, "max_tokens", "service_tier", "parallel_tool_calls"),
    ),
    "groq": Family(
        title="Groq",
        providers=("groq",),
        fates=_without(_CHAT, "presence_penalty", "frequency_penalty", "logit_bias") | _EFFORT,
    ),
    "aliyun": Family(
        title="Aliyun",
        providers=("aliyun",),
        fates=_without(_CHAT, "frequency_penalty", "logit_bias", "service_tier")
        | _body("top_k", "repetition_penalty")
        | _EFFORT,
    ),
    "plain": Family(
        title="Z.ai, Google by OpenAI's API",
        providers=("zai", "googleoai"),
        fates=_fields("temperature", "top_p", "max_tokens", "stop", "parallel_tool_calls")
        | _EFFORT
        | _CHOICES
        | _EXTRA,
    ),
    "moonshot": Family(
        title="Moonshot",
        providers=("moonshot",),
        fates=_fields("stop", max_tokens="max_completion_tokens") | _EFFORT | _CHOICES | _EXTRA,
    ),
    "tensorzero": Family(
        title="TensorZero",
        providers=("tensorzero",),
        fates=_without(_CHAT, "logit_bias", "service_tier") | _EFFORT,
    ),
    "google": Family(
        title="Google",
        providers=("google",),
        fates=_fields(
            "temperature",
            "top_p",
            "top_k",
            "presence_penalty",
            "frequency_penalty",
            max_tokens="max_output_tokens",
            stop="stop_sequences",
        )
        | {"tool_choice": Fate("tools", "tool_config")}
        | {"reasoning_effort": Fate("effort", "thinking_config")},
    ),
    "bedrock": Family(
        title="Bedrock",
        providers=("bedrock",),
        fates=_fields(
            "temperature",
            max_tokens="inferenceConfig.maxTokens",
            stop="inferenceConfig.stopSequences",
        )
        | {"tool_choice": Fate("tools", "toolConfig.toolChoice")}
        | {"reasoning_effort": Fate("effort", "outputConfig.effort")},
        largest_temperature=1,
    ),
    "copilot": Family(
        title="Copilot, and what is not listed",
        providers=("copilot",),
        fates=_fields("max_tokens") | {"tool_choice": Fate("tools", "tool_choice")} | _EFFORT,
    ),
}
"""By name. A provider belongs to the first that has it, or with models that think to the one of `_REASONING`."""

_REASONING = {
    **dict.fromkeys(("chat", "compatible", "groq", "aliyun", "plain", "tensorzero"), "chat-reasoning"),
    "responses": "responses-reasoning",
    "anthropic": "anthropic-thinking",
}


def family_of(provider: str, *, reasons: bool) -> Family:
    """The family of a provider of fast-agent's; `reasons`: the model thinks, as `Family.title` says it."""
    for key, family in FAMILIES.items():
        if provider in family.providers:
            return FAMILIES[_REASONING.get(key, key)] if reasons else family
    return FAMILIES["copilot"]
