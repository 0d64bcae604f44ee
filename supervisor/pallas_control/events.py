"""Events of the supervisor as they come, over its restarts, too: whoever reads them misses nothing unawares.

Knows positions and when to ask again; nothing of what events say.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

from pallas_control.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_control.client import Control
    from pallas_control.documents import EventDocument, EventPosition

SILENCE = 60.0
"""Seconds without even an empty line after which a followed supervisor counts as gone; it sends one every 15 s."""

RETRY = 0.5
"""Seconds between attempts to reach a supervisor that is gone."""

_NO_POSITION: EventPosition = {"epoch": "", "seq": 0}
"""Of no life of any supervisor: it answers with a gap and all that it has."""


def read_events(control: Control, query: Mapping[str, Any]) -> Iterator[EventDocument]:
    """The events of one answer, as long as it goes on; raises as `Control.lines` does.

    Args:
        query: of `GET /v1/events`.
    """
    timeout = SILENCE if query.get("follow") else None
    for line in control.lines("/v1/events", query, timeout=timeout):
        if line.strip() and (event := parse_event(line)) is not None:
            yield event


def follow_events(
    control: Control, query: Mapping[str, Any], after: EventPosition | None = None
) -> Iterator[EventDocument | None]:
    """The events for ever: after a position, or first the newest that the query asks for with `n`.

    While the supervisor is gone it is looked for again and again: there is one None for that.

    Args:
        query: `kind`, `name` and `n` of `GET /v1/events`.

    Raises:
        ControlError: the supervisor cannot be asked the first time, or refuses.
    """
    chosen = {name: value for name, value in query.items() if name != "n"}
    asked: Mapping[str, Any] = query if after is None else {**chosen, **after}
    lost = reached = False
    position = after or _NO_POSITION
    while True:
        try:
            for event in read_events(control, {**asked, "follow": 1}):
                reached, lost = True, False
                position = {"epoch": event["epoch"], "seq": event["seq"]}
                yield event
            reached = True
        except ControlError:
            if not reached:
                raise
        if not lost:
            lost = True
            yield None
        asked = {**chosen, **position}
        time.sleep(RETRY)


def parse_event(line: bytes) -> EventDocument | None:
    """The event in a line of `GET /v1/events`; None for what is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("seq"), int):
        return None
    if not all(isinstance(event.get(key), str) for key in ("epoch", "time", "kind", "name", "event")):
        return None
    return cast("EventDocument", event)
