"""The shapes beside the words for state and health, so that colour alone never carries a meaning. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.http.html import Html, join, tag

if TYPE_CHECKING:
    from collections.abc import Mapping

_CIRCLE = '<circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="2"{more}/>'
_SQUARE = (
    '<rect x="3.5" y="3.5" width="9" height="9" rx="1.5" fill="none" stroke="currentColor" stroke-width="2"/>'
)
_STROKE = 'fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"'

SHAPES: Mapping[str, str] = {
    "ready": '<circle cx="8" cy="8" r="6" fill="currentColor"/>',
    "starting": _CIRCLE.format(more="") + '<path d="M8 3a5 5 0 0 1 0 10z" fill="currentColor"/>',
    "waiting": _CIRCLE.format(more=' stroke-dasharray="2.6 2.6"'),
    "idle": f'<path d="M12.8 9.9A5.6 5.6 0 1 1 6.1 3.2a4.6 4.6 0 0 0 6.7 6.7z" {_STROKE}/>',
    "stopping": _SQUARE + '<path d="M3.5 8h9v4.5h-9z" fill="currentColor"/>',
    "killing": _SQUARE + f'<path d="M6 6l4 4M10 6l-4 4" {_STROKE}/>',
    "stopped": _SQUARE,
    "backoff": f'<path d="M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3" {_STROKE}/>',
    "failed": (
        '<path fill-rule="evenodd" fill="currentColor" d="M5 1h6l4 4v6l-4 4H5l-4-4V5z'
        'M5.5 4.4L4.4 5.5L6.9 8l-2.5 2.5l1.1 1.1L8 9.1l2.5 2.5l1.1-1.1L9.1 8l2.5-2.5l-1.1-1.1L8 6.9z"/>'
    ),
    "ok": f'<path d="M3 8.5l3.5 3.5L13 4.5" {_STROKE}/>',
    "degraded": f'<path d="M8 2.5L14 13H2zM8 6.5v3M8 11.2v.1" {_STROKE}/>',
    "error": f'<path d="M4 4l8 8M12 4l-8 8" {_STROKE}/>',
    "other": f'<path d="M4 8h8" {_STROKE}/>',
}
"""Of 16 by 16 units; in the colour of the text."""


def symbols() -> Html:
    """The definitions, once a page."""
    shapes = [
        tag("symbol", Html(shape), id=f"glyph-{name}", viewBox="0 0 16 16") for name, shape in SHAPES.items()
    ]
    arrow = tag(
        "marker",
        tag("path", d="M0 0.5L7 4L0 7.5z", class_="arrow"),
        id="arrow",
        viewBox="0 0 8 8",
        refX="7",
        refY="4",
        markerWidth="7",
        markerHeight="7",
        orient="auto",
    )
    return tag("svg", tag("defs", *shapes, arrow), class_="symbols", aria_hidden="true", width=0, height=0)


def glyph(name: str, **place: int) -> Html:
    """One of the shapes; hidden from screen readers, which read the word beside it."""
    known = name if name in SHAPES else "other"
    use = tag("use", href=f"#glyph-{known}")
    return tag("svg", use, class_="glyph", aria_hidden="true", width=16, height=16, **place)


def word(name: str) -> Html:
    """A state or a health: shape and word, in its colour."""
    return tag("span", glyph(name), join(" ", name), class_=f"word is-{name}")
