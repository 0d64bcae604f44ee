"""Which tool calls of a history have results, and which results calls: no provider takes one without the other.

Pure. Knows rows; must not know agents, nor log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_worker.interface.history import MAX_NAMED, History, LeftOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_worker.interface.history import Row


def paired(history: History, *, resume: bool = False) -> History:
    """The history without calls that have no result and results that have no call, each of which is named.

    A result belongs to the nearest assistant's row before it, with nothing but results in between: some models
    number their calls anew in each round. Of two results of one call the first counts. A row that is empty without
    its calls goes, too. The order is kept.

    Args:
        resume: the calls of the last row that has any may be without results, if only results follow it.
    """
    rows: list[Row] = []
    faults: list[LeftOut] = []
    place = 0
    while place < len(history.rows):
        row = history.rows[place]
        end = place + 1
        while row.role == "assistant" and end < len(history.rows) and history.rows[end].role == "tool":
            end += 1
        last = resume and end == len(history.rows)
        kept, of_round = _round(row, history.rows[place + 1 : end], pending=last)
        rows += kept
        faults += of_round
        place = end
    if not faults:
        return history
    faults = sorted((*history.left_out, *faults), key=lambda fault: fault.index)
    return History(tuple(rows), tuple(faults[:MAX_NAMED]), history.more + len(faults[MAX_NAMED:]))


def pending_calls(history: History) -> tuple[str, ...]:
    """The ids of the calls at the end of a paired history that have no result yet."""
    results: set[str] = set()
    for row in reversed(history.rows):
        if row.role != "tool":
            return tuple(call.id for call in row.calls if call.id not in results)
        results.add(row.call_id)
    return ()


def ends_with_results(history: History) -> bool:
    """Whether a model has the next word without the user's saying anything."""
    return bool(history.rows) and history.rows[-1].role == "tool" and not pending_calls(history)


def _round(row: Row, results: Sequence[Row], *, pending: bool) -> tuple[list[Row], list[LeftOut]]:
    """One row with the results that follow it."""
    if row.role == "tool":
        return [], [_orphan(row)]
    faults: list[LeftOut] = []
    called = {call.id for call in row.calls}
    answered: dict[str, Row] = {}
    for result in results:
        if result.call_id not in called:
            faults.append(_orphan(result))
        elif result.call_id in answered:
            faults.append(LeftOut(result.index, f"there is a result of {result.call_id!r} already"))
        else:
            answered[result.call_id] = result
    kept = row.calls if pending else tuple(call for call in row.calls if call.id in answered)
    if len(kept) == len(row.calls):
        return [row, *answered.values()], faults
    missing = [repr(call.id) for call in row.calls if call not in kept]
    reason = f"tool_calls without a result: {', '.join(missing[:5])}"
    if not kept and not row.content and not row.images:
        return [], [LeftOut(row.index, reason), *faults]
    # What its provider would need again speaks of all calls.
    whole = replace(row, calls=kept, channels={})
    return [whole, *answered.values()], [LeftOut(row.index, reason, "calls"), *faults]


def _orphan(row: Row) -> LeftOut:
    return LeftOut(
        row.index, f"tool_call_id {row.call_id!r} is that of no call of the assistant's row before it"
    )
