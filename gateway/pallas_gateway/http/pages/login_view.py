"""What people see at the login, and where something is refused."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import HTMLResponse

from pallas_common.http.html import Html, join, tag
from pallas_gateway.http.pages.files import build
from pallas_gateway.http.pages.view.layout import document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from pallas_common.http.html import Child


def login_page(status: int, *, next_: str, problem: str | None = None, issuer: str | None = None) -> Response:
    """The form to log in.

    Args:
        next_: where it goes on, as `chat?…`.
        problem: why nobody is logged in yet.
        issuer: host of the issuer by which people may log in as well.
    """
    form = tag(
        "form",
        tag("input", type="hidden", name="next", value=next_),
        tag("label", "Token", for_="token"),
        tag(
            "input",
            type="password",
            id="token",
            name="token",
            autocomplete="current-password",
            required=True,
            maxlength=200,
            autofocus=issuer is None,
            aria_describedby="problem" if problem else "hint",
        ),
        tag(
            "p",
            "A token of a person, as ",
            tag("code", "pallasctl token create"),
            " shows it once.",
            id="hint",
            class_="soft",
        ),
        tag("button", "Log in", type="submit", class_="main"),
        method="post",
        action="login",
    )
    by_issuer = None
    if issuer is not None:
        # A link: `form-action 'self'` would keep a form from being led on to the issuer.
        by_issuer = tag(
            "p", tag("a", f"Log in with {issuer}", href=f"oidc?next={quote(next_, safe='')}", class_="button")
        )
    return _page(
        status,
        "Log in",
        "",
        tag("h1", "Log in"),
        tag("p", f"{problem[:1].upper()}{problem[1:]}", role="alert", id="problem", class_="problem")
        if problem
        else None,
        by_issuer,
        form,
        root="../",
    )


def error_page(
    status: int, message: str, root: str, headers: Mapping[str, str] | None = None, *, login: bool = False
) -> Response:
    """Why something was not done.

    Args:
        root: the relative way to the gateway's root.
        login: whether logging in would help.
    """
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    way = ("Log in", f"{root}chat/login") if login else ("To the conversations", f"{root}chat")
    answer = _page(
        status,
        title,
        "",
        tag("h1", title),
        tag("p", f"{message[:1].upper()}{message[1:]}"),
        tag("p", tag("a", way[0], href=way[1])),
        root=root,
    )
    answer.headers.update(headers or {})
    return answer


def go_on_page(target: str, root: str) -> Response:
    """A page that goes on to another one of ours by itself.

    What another site has led to is sent no cookie that is Strict, also not after a redirection; what a page of ours has
    led to is.
    """
    refresh = Html(f'<meta http-equiv="refresh" content="0;url={_in_refresh(target)}">')
    return _page(200, "Going on", refresh, tag("p", tag("a", "Go on", href=target)), root=root)


def _in_refresh(target: str) -> str:
    """An address as it may stand in an attribute; it is one of ours already."""
    return target.replace("&", "&amp;").replace('"', "%22").replace("<", "%3C").replace("'", "%27")


def _page(status: int, title: str, head: Child, *body: Child, root: str) -> HTMLResponse:
    page = document(
        title,
        tag("main", join(*body), id="main", class_="alone"),
        assets=f"{root}chat/static/",
        build=build(),
        head=head,
    )
    return HTMLResponse(str(page), status)
