"""Texts of several lines as HTML: what people have written, and what programs give. Pure."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from pallas_common.http.html import Html, tag
from pallas_common.terminal_text import terminal_text
from pallas_common.times import rfc3339

if TYPE_CHECKING:
    import datetime as dt

_UNSHOWN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""What HTML cannot hold (HTML, 13.2.3.5), or nothing shows."""


def preformatted(text: str, longest: int) -> Html:
    """The text as it is, in a font of one width, with what is invisible as an escape; cut where it is longer."""
    return tag("pre", Html(_escaped(terminal_text(text[:longest]))), left_out(len(text) - longest))


def plain(text: str, longest: int) -> Html:
    """What a person has written: lines stay lines, and nothing in it means anything."""
    return tag("p", Html(_escaped(text[:longest])), left_out(len(text) - longest), class_="plain", dir="auto")


def verbatim(text: str) -> Html:
    """The text as it is, for a field of a form: the first line end in one does not count (HTML, 4.11.11)."""
    return Html(f"\n{_escaped(text)}")


def moment(at: dt.datetime) -> Html:
    """A time: in UTC, until a script says it as it is where the reader is."""
    return tag("time", f"{at:%Y-%m-%d %H:%M} UTC", datetime=rfc3339(at, "milliseconds"))


def left_out(characters: int) -> Html | None:
    """A word on what is not shown of a text; None where that is nothing."""
    return tag("span", f" … {characters:,} more characters", class_="soft") if characters > 0 else None


def _escaped(text: str) -> str:
    return escape(_UNSHOWN.sub("�", text), quote=False)
