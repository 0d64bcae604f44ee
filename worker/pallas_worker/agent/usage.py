"""Tokens and turns of one call, in the words of the metrics reference.

Knows fast-agent's public usage records; must not know where they are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fast_agent.llm.usage_tracking import UsageSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fast_agent.llm.usage_tracking import TurnUsage

    from pallas_worker.telemetry.metrics import TokenKind


@dataclass(frozen=True, slots=True)
class Turn:
    """One round-trip to an LLM provider: the model's own name, and tokens by kind; no kind has none."""

    model: str
    tokens: Mapping[TokenKind, int]


def turn_of(usage: TurnUsage) -> Turn:
    """One usage record of fast-agent; what the provider did not say counts as none.

    Anthropic's `input` leaves out what came from the cache, as its own figure does; everyone else's cached
    tokens are part of `input` and are called `cache_hit`.
    """
    prompt, completion = usage.prompt, usage.completion
    anthropic = usage.usage_schema is UsageSchema.ANTHROPIC
    tokens: dict[TokenKind, int | None] = {
        "input": prompt.uncached if anthropic else prompt.total,
        "output": completion.total,
        "cache_read" if anthropic else "cache_hit": prompt.cache_read,
        "cache_write": prompt.cache_write,
        "reasoning": completion.reasoning,
    }
    return Turn(usage.model, {kind: n for kind, n in tokens.items() if n})
