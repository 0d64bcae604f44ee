"""Markup as a browser reads it."""

from __future__ import annotations

from html.parser import HTMLParser


class Read(HTMLParser):
    """What a browser makes of markup: the tags, and the text between them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data
