"""The page that says why there is no other one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.http.html import tag
from pallas_gateway.http.pages.view.layout import document

if TYPE_CHECKING:
    from pallas_common.http.html import Html

_TITLES = {403: "Not allowed", 404: "Not here", 409: "Busy", 429: "Too much at a time", 503: "Not now"}


def problem_page(message: str, status: int, path: str, build: str) -> Html:
    """What is wrong, and the way back.

    Args:
        message: what is wrong and what to do.
        status: of HTTP.
        path: that was asked, below the gateway's address: from there the way back is found.
        build: names the version of script and style.
    """
    up = "../" * (path.strip("/").count("/"))
    title = _TITLES.get(status, "That did not work")
    return document(
        title,
        tag(
            "main",
            tag("h1", title),
            tag("p", f"{message[:1].upper()}{message[1:]}", role="alert"),
            tag("p", tag("a", "Back to the agents", href=f"{up}chat")),
            class_="alone",
        ),
        assets=f"{up}chat/static/",
        build=build,
    )
