"""Why a turn has ended without a whole answer, as workers say it and everybody tells it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

type Reason = Literal["max_iterations", "max_tokens", "content_filter", "empty"]

SENTENCES: Mapping[Reason, str] = {
    "max_iterations": "the agent was stopped at its limit of rounds before it had an answer; "
    "ask it to go on, or raise its `max_iterations`",
    "max_tokens": "the answer was cut off at its limit of tokens; ask for the rest, or raise `max_tokens`",
    "content_filter": "the model's provider cut the answer off because of what it says; ask in another way",
    "empty": "the model ended its turn without a word; ask again",
}
"""What a person reads: what has happened, and what to do."""


def read_reason(value: object) -> Reason | None:
    """The reason that a program gives; None where it gives none that is known."""
    return next((reason for reason in get_args(Reason.__value__) if reason == value), None)
