"""A page as a whole document: its head, and what all pages have around their content. Pure.

Every address is relative, for the gateway may be below a path of a proxy: a page is `chat?…`, its parts are `chat/…`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.http.html import Html, join, tag

if TYPE_CHECKING:
    from pallas_common.http.html import Child


def document(
    title: str, *body: Child, assets: str, build: str, head: Child = None, class_: str | None = None
) -> Html:
    """The whole document.

    Args:
        title: of the page; the product's name follows it.
        assets: the relative path to script and style, with a slash at its end: `chat/static/` from `chat`, `static/`
            from `chat/login`.
        build: names the version of script and style.
        head: more of the head.
        class_: of the body.
    """
    return join(
        Html("<!doctype html>\n"),
        tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag("meta", name="color-scheme", content="light dark"),
                tag("title", f"{title} · Pallas"),
                tag("link", rel="icon", href=f"{assets}icon.svg", type="image/svg+xml"),
                tag("link", rel="stylesheet", href=f"{assets}page.css?{build}"),
                head,
            ),
            tag("body", *body, class_=class_),
            lang="en",
        ),
    )
