"""HTML from nested calls: text is escaped unless it is markup already. Pure.

Knows HTML's syntax; nothing of what is said in it.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPECIAL = re.compile("[&<>\"']").search
_VOID = frozenset({"link", "meta"})


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


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str):
        return escape(child, quote=False) if _SPECIAL(child) else child
    return "".join(_child(part) for part in child)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(text) if _SPECIAL(text) else text}"'
