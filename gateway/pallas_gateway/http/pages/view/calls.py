"""A call of a tool as it is shown: folded, with what was asked and what came of it. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.http.html import Html, tag
from pallas_gateway.http.pages.view.text import preformatted

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 20_000
"""Characters of arguments, and of a result, that are shown."""
DEEPEST = 20
"""Lists and objects inside each other that are shown one below the other: of some kilobytes that are deeper, the
indentation alone would have a hundred megabytes."""


class CallView(NamedTuple):
    """One call."""

    id: str
    tool: str
    agent: str
    """Whose model has called it, where that is another agent than the one that was asked."""
    arguments: Mapping[str, object] | str
    """The model's text where it is no object."""
    ok: bool | None = None
    """None while it is under way, or where nothing is known of its end."""
    result: str = ""


def call_view(call: CallView, *, waits: bool = True) -> Html:
    """The call, folded.

    Args:
        waits: whether a call without a result is under way.
    """
    state, word = _state(call, waits=waits)
    return tag(
        "details",
        tag(
            "summary",
            tag("code", call.tool),
            tag("span", f" of {call.agent}", class_="soft") if call.agent else None,
            " ",
            tag("span", word, class_=f"state is-{state}"),
        ),
        tag("p", "Arguments", class_="label"),
        preformatted(_arguments(call.arguments), LONGEST),
        (tag("p", "Result", class_="label"), preformatted(call.result, LONGEST)) if call.result else None,
        class_="call",
        data_call=call.id,
    )


def _state(call: CallView, *, waits: bool) -> tuple[str, str]:
    if call.ok is None:
        return ("busy", "running…") if waits else ("failed", "not finished")
    return ("ok", "done") if call.ok else ("failed", "failed")


def _arguments(arguments: Mapping[str, object] | str) -> str:
    if isinstance(arguments, str):
        return arguments
    text = json.dumps(arguments, ensure_ascii=False)
    if len(text) > LONGEST or not _is_within(arguments, DEEPEST):
        return text
    return json.dumps(arguments, indent=2, ensure_ascii=False)


def _is_within(value: object, deepest: int) -> bool:
    """Whether a value has no more lists and objects inside each other."""
    match value:
        case dict():
            return deepest > 0 and all(_is_within(each, deepest - 1) for each in value.values())
        case list():
            return deepest > 0 and all(_is_within(each, deepest - 1) for each in value)
    return True
