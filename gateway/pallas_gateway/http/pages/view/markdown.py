"""Markdown of models as HTML that may stand in a page: rendered by markdown-it-py, sanitised by nh3. Pure.

Three things hold a hostile answer, each alone: HTML in it is text (the parser has no such rule), what the renderer
makes is sanitised all the same, and the page's Content-Security-Policy runs no script and loads nothing from elsewhere.
An image is a link: fetched by itself, its address would tell its host that, and by whom, the answer was read.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pallas_common.http.html import Html
from pallas_gateway.http.pages.view.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 32_000
"""Characters that are rendered; a longer text is shown as it is. Rendering takes about a microsecond and a half a
character, of the worst texts ten."""
SHOWN = 100_000
"""Characters that are shown; an export has all."""
KEPT = 512
"""Rendered texts that are remembered: a thread is opened again and again, and its messages stay what they are."""

_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong", "s"),
    *("ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes={"a": {"href", "title"}, "ol": {"start"}},
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


class Blocks(NamedTuple):
    """A text that grows, in its parts at the top."""

    settled: Sequence[str]
    """The sources of those that more text does not change."""
    open: str
    """The source of the last one."""


def markdown(text: str) -> Html:
    """The text as a reader of Markdown sees it."""
    if len(text) > LONGEST:
        return plain(text, SHOWN)
    return _rendered(text)


@functools.lru_cache(maxsize=KEPT)
def _rendered(text: str) -> Html:
    return Html(_CLEANER.clean(_PARSER.render(text)))


def split(text: str) -> Blocks:
    """The parts of a text that is not at its end yet.

    A block of Markdown is changed by what comes behind it only while it is the last one (CommonMark, appendix "A
    parsing strategy"). Definitions of links are the exception: until the text is whole, a link by name may be text.
    """
    if len(text) > LONGEST:
        return Blocks((), text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parser counts lines
    begins = [
        token.map[0] for token in _PARSER.parse(text) if token.level == 0 and token.map and token.nesting >= 0
    ]
    if len(begins) < 2:
        return Blocks((), text)
    lines = _lines(text)
    ends = [*begins[1:], len(lines)]
    parts = ["".join(lines[begin:end]) for begin, end in zip([0, *begins[1:]], ends, strict=True)]
    return Blocks(parts[:-1], parts[-1])


def _lines(text: str) -> list[str]:
    """The lines with their ends; `str.splitlines` knows more of these than Markdown does."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.core.ruler.push("images_as_links", lambda state: _link_images(state.tokens))
    parser.core.ruler.push("headings_below", lambda state: _lower_headings(state.tokens))
    return parser


def _link_images(tokens: Sequence[Token]) -> None:
    """Put links in place of images."""
    for block in tokens:
        if not block.children or not any(each.type == "image" for each in block.children):
            continue
        inline: list[Token] = []
        for each in block.children:
            if each.type != "image":
                inline.append(each)
                continue
            source = str(each.attrGet("src") or "")
            label = Token("text", "", 0, content=each.content or source or "image")
            inline += [
                Token("link_open", "a", 1, attrs={"href": source}),
                label,
                Token("link_close", "a", -1),
            ]
        block.children = inline


def _lower_headings(tokens: Sequence[Token]) -> None:
    """Begin with the third level: the first is the conversation's, the second says who speaks."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"


_PARSER = _parser()
