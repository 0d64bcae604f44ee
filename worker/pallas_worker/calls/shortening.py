"""A conversation without its oldest turns, for a model that cannot take it whole. Pure.

A turn begins with a message of the user and has all that followed: a call and its result stay together, or go together.
"""

from __future__ import annotations

from copy import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pallas_worker.interface.turn import TurnRequest


class Shortened(NamedTuple):
    """A request with a shorter history."""

    request: TurnRequest
    turns: int
    """How many were left out."""


def shortened(request: TurnRequest) -> Shortened | None:
    """The request without the older half of its earlier turns; None where there is none that could be left out.

    A request without a message of its own goes on with the last turn of its history, which stays.
    """
    rows = request.history.rows
    begins = [index for index, row in enumerate(rows) if row.role == "user" or not index]
    goes_on = request.resume or not (request.message or request.images)
    spare = len(begins) - goes_on
    if spare <= 0:
        return None
    turns = (spare + 1) // 2
    kept = rows[begins[turns] :] if turns < len(begins) else ()
    return Shortened(replace(request, history=replace(request.history, rows=kept)), turns)
