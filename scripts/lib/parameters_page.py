"""docs/parameters.md: what becomes of each parameter of a chat completion with each provider, from the table of fates."""
# ruff: noqa: E501 - lines of the page

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.protocol.agent.parameters import (
    EFFORTS,
    LONGEST_STOP,
    MAX_BIASES,
    MAX_EXTRA_BYTES,
    MAX_EXTRA_DEPTH,
    MAX_STOPS,
    REFUSED_IN_EXTRA,
    TIERS,
)
from pallas_worker.agent.parameters.fates import FAMILIES, NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_worker.agent.parameters.fates import Family

_COLUMNS = 4
"""Families in one table: more do not fit a page."""

_TOP = f"""# Parameters of a chat completion

<!-- Made by scripts/generate from worker/pallas_worker/agent/parameters/fates.py: change it there. -->

`POST /v1/chat/completions` of an agent takes OpenAI's parameters, and some that servers of open models have besides. One
that is left out is as the agent's definition says; `null` takes back what the definition says, so that the provider's own
default counts. **None is dropped without a word**:

- A value of the wrong type or out of its range is refused with 400, and `error.param` names the field.
- What is empty, and what means "off" (`max_tokens: -1`, `top_k: -1`, `stop: []`), is as if it were absent.
- A hint that the model's provider does not have is left out and named in the header `Pallas-Ignored`, as in
  `Pallas-Ignored: top_k, seed`.
- A number that the provider has narrower bounds for is moved to the nearest one and named with what was sent, as in
  `Pallas-Ignored: max_tokens=16384`: `max_tokens` to the largest that the model has, or the smallest that its API takes.
- What is no hint (`tool_choice`, `parallel_tool_calls`, `extra`) and cannot be honoured is refused with 400.

| parameter | value |
|---|---|
| `temperature` | number, 0 to 2; Anthropic and Bedrock have 1 as their largest |
| `top_p`, `min_p` | number, 0 to 1 |
| `top_k` | whole number, at least 1 |
| `repetition_penalty` | number, 0 to 10 |
| `presence_penalty`, `frequency_penalty` | number, −2 to 2 |
| `logit_bias` | object of at most {MAX_BIASES} tokens' numbers, each with a number from −100 to 100 |
| `seed` | whole number of 64 bits |
| `max_tokens`, `max_completion_tokens` | whole number, at least 1; two names for the same limit, of each answer of the model |
| `stop` | a string, or 1 to {MAX_STOPS} of them, of 1 to {LONGEST_STOP} characters |
| `tool_choice` | `auto`, `none`, `required`, or `{{"type": "function", "function": {{"name": "server__tool"}}}}` with a tool as the agent lists it |
| `parallel_tool_calls` | `true` or `false` |
| `reasoning_effort` | {", ".join(f"`{effort}`" for effort in EFFORTS)}, of which each model has some |
| `service_tier` | {", ".join(f"`{tier}`" for tier in TIERS)} |
| `extra` | object of further fields for the body of the provider's request; see [below](#extra) |

`required`, or a named tool, holds for the first request of the turn; once the tool has answered, the model chooses itself.
Otherwise it would never come to an answer. `none` holds for the whole turn.

"""

_TRIED = """## By provider

Where each parameter stands in the body of the request that the provider gets, as a test of Pallas has seen it arrive. *named*:
left out, and named in `Pallas-Ignored`; *400*: refused.

"""
_OTHERS = """`passthrough` takes all, and has nobody to tell.

The following are written by what the source of fast-agent does and the providers' documents say; no test has seen them:

"""

_BOTTOM = f"""A model that thinks (`thinking`, `reasoning` above) is one that fast-agent knows as such. Those of OpenAI take no sampling
hints. Those of Anthropic take none while they think, cannot be made to call a tool then, and get a larger `max_tokens`
where it would leave no room beside their budget of thought; `reasoning_effort: none` lets those that can do without.
Newer ones of Anthropic take no sampling hints at all: they are named then, too.

## Which models of an agent get them

The served agent's own model. An agent that hands messages on passes them to the agents whose words are its answer, each by
its own provider: the last one of a chain (all of a cumulative one), what puts the answers of a parallel together (those
that answer side by side, if nothing does), each agent of a router, the generator of an evaluator and optimizer, MAKER's
worker. A planner has a model of its own. What a router decides by, and agents that a model calls as tools, are asked as
their definitions say. An agent on another machine (A2A) gets none of them: hints are named, the others refused.

## extra

For what only one provider has, as in `{{"extra": {{"metadata": {{"user_id": "u1"}}}}}}` for Anthropic. It goes into the body of
each request to the model as it is, and nowhere else: no header, no query, no time limit. At most
{MAX_EXTRA_BYTES // 1024} KiB of JSON, {MAX_EXTRA_DEPTH} levels deep. Refused with 400 are names that have a place here or belong to the agent or the
worker, whatever their case: {", ".join(f"`{name}`" for name in sorted(REFUSED_IN_EXTRA))}.

`extra` counts only with the worker's key in the header `Pallas-Key`, or where the agent's entry says `overrides: true`;
otherwise it is refused with 403.

## The model and the system prompt

| field | effect | who may |
|---|---|---|
| `system_append` | follows the agent's own system prompt; `system` messages do the same. It is text: `{{{{placeholders}}}}` in it are not filled in | everybody |
| `system_override` | stands in place of the agent's own system prompt, for this turn | with the key, or `overrides: true` |
| `model_override` | asks another model for this turn, one that `models:` of the agent's entry lists; images and parameters go by that one | with the key, or `overrides: true` |

Where an agent hands messages on, both prompts reach the same agents as the parameters do; `model_override` is refused, but
for a router and a planner, which have models of their own. A planner plans by its system prompt: one that stands in place
of it has to say how.
"""


def page() -> str:
    """The page's whole text."""
    tried = _tables([family for family in FAMILIES.values() if family.tried])
    others = _tables([family for family in FAMILIES.values() if not family.tried])
    return "".join((_TOP, _TRIED, *tried, _OTHERS, *others, _BOTTOM))


def _tables(families: Sequence[Family]) -> list[str]:
    return [_table(families[start : start + _COLUMNS]) + "\n" for start in range(0, len(families), _COLUMNS)]


def _table(families: Sequence[Family]) -> str:
    head = [
        f"| | {' | '.join(family.title for family in families)} |",
        f"|---|{'---|' * len(families)}",
        f"| providers | {' | '.join(', '.join(f'`{name}`' for name in family.providers) for family in families)} |",
    ]
    rows = [
        f"| {_row_title(name)} | {' | '.join(_cell(family, name) for family in families)} |" for name in NAMES
    ]
    return "\n".join((*head, *rows)) + "\n"


def _row_title(name: str) -> str:
    return {"named tool_choice": "`tool_choice` of a named tool"}.get(name, f"`{name}`")


def _cell(family: Family, name: str) -> str:
    fate = family.fate(name)
    match fate.how:
        case "ignored":
            return "*named*"
        case "refused":
            return "*400*"
        case "taken":
            return "taken"
    if not fate.wire:
        return "as it is"
    return " or ".join(f"`{wire}`" for wire in fate.wire.split(" or "))
