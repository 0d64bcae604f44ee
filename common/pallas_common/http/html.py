"""HTML from nested calls: text is escaped unless it is markup already. Pure.

Knows HTML's syntax; nothing of the contents. Text is shown as it is: what would be invisible, or change the order of
what stands around it, is an escape, and long text is cut.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from pallas_common.problems import shortened
from pallas_common.terminal_text import terminal_line

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TEXT = 1000
"""Characters of a text that are shown."""

_SPECIAL = re.compile(r"[^A-Za-z0-9 !#$%()*+,\-./:;=?@\[\\\]^_`{|}~]").search
"""Finds what few texts have: characters with a meaning in HTML, and all that is not printable ASCII."""
_VOID = frozenset({"img", "input", "link", "meta"})


class Html(str):
    """Text that is markup: it goes into other markup as it is."""

    __slots__ = ()


type Child = str | Iterable[Child] | None
"""Markup, text, several of them, or nothing."""

type Attribute = str | float | bool | None
"""False and None leave the attribute out, True gives it no value."""


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element; `class_` and `aria_label` are the attributes `class` and `aria-label`."""
    head = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Markup side by side."""
    return Html("".join(_child(child) for child in children))


def _text(text: str) -> str:
    """What a reader is shown of a text."""
    text = shortened(text, MAX_TEXT)
    return escape(terminal_line(text), quote=False) if _SPECIAL(text) else text


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str):
        return _text(child)
    return "".join(_child(part) for part in child)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(terminal_line(text)) if _SPECIAL(text) else text}"'
