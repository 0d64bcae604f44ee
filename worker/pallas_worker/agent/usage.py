"""Tokens and turns of one call, in the words of the metrics reference.

Knows fast-agent's public usage records; must not know where they are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fast_agent.llm.usage_tracking import UsageSchema

from pallas_worker.interface.turn import ModelUsage

if TYPE_CHECKING:
    from fast_agent.llm.usage_tracking import TurnUsage

    from pallas_worker.interface.turn import TokenKind


def turn_of(usage: TurnUsage) -> ModelUsage:
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
    return ModelUsage(usage.model, {kind: n for kind, n in tokens.items() if n})
