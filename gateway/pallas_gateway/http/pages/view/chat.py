"""The pages to talk: the agents, a new conversation, a conversation. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from pallas_common.http.html import Html, join, tag
from pallas_gateway.http.pages.view.layout import document
from pallas_gateway.http.pages.view.lists import UNTITLED, agent_list, agent_state, thread_list
from pallas_gateway.http.pages.view.text import verbatim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_common.http.html import Child
    from pallas_gateway.http.pages.view.facts import AgentFacts, Notice, ThreadFacts, ThreadList, Viewer

ASSETS = "chat/static/"
IMAGE_TYPES = "image/png,image/jpeg,image/gif,image/webp"
REFRESH = 2
"""Seconds after which a browser without scripts looks again at an answer that is under way."""


def home_page(agents: Sequence[AgentFacts], listed: ThreadList, viewer: Viewer, build: str) -> Html:
    """All agents that one may talk to."""
    return _page("Agents", viewer, listed, build, tag("h1", "Agents"), agent_list(agents), is_list=True)


def new_page(
    agent: AgentFacts, listed: ThreadList, viewer: Viewer, build: str, notice: Notice | None = None
) -> Html:
    """A conversation with an agent that has not begun."""
    head = tag(
        "header",
        tag("h1", agent.title, " ", agent_state(agent)),
        tag("p", agent.description, class_="soft") if agent.description else None,
        tag("p", agent.message, class_="failure") if agent.message and agent.health == "error" else None,
    )
    return _page(
        f"New conversation with {agent.title}",
        viewer,
        listed,
        build,
        head,
        _log(None, None, agent.title, False),
        composer({"agent": agent.name}, viewer, agent.title, notice, is_running=False),
    )


def thread_page(
    thread: ThreadFacts,
    agent: AgentFacts,
    messages: Html,
    listed: ThreadList,
    viewer: Viewer,
    build: str,
    *,
    can_retry: bool,
    is_own: bool = True,
    earlier: int | None = None,
    notice: Notice | None = None,
) -> Html:
    """A conversation.

    Args:
        messages: as `messages.conversation` shows them.
        can_retry: whether the last turn can be taken again.
        is_own: whether the viewer goes on with it; others only read it.
        earlier: the index before which there are more messages; None where these are all.
    """
    title = thread.title or UNTITLED
    more = None
    if earlier is not None:
        query = urlencode({"thread": thread.id, "until": earlier})
        more = tag("p", tag("a", "Earlier messages", href=f"chat?{query}"), class_="pages")
    foot: Child = tag("p", "This conversation is somebody else's: you can read it.", class_="soft")
    if is_own:
        fields = {"thread": thread.id}
        foot = (
            _retry(thread.id, viewer, is_shown=can_retry and not thread.is_running),
            composer(fields, viewer, agent.title, notice, is_running=thread.is_running),
        )
    return _page(
        title,
        viewer,
        listed,
        build,
        tag(
            "header",
            tag("h1", title, dir="auto"),
            tag("p", agent.title, " ", agent_state(agent), class_="soft"),
            _more(thread, viewer, is_own=is_own),
        ),
        more,
        _log(thread.id, messages, agent.title, thread.is_running),
        foot,
        head=tag("noscript", tag("meta", http_equiv="refresh", content=REFRESH))
        if thread.is_running
        else None,
    )


def composer(
    fields: dict[str, str], viewer: Viewer, agent: str, notice: Notice | None, *, is_running: bool
) -> Html:
    """Where a person writes; the other button ends the answer that is under way."""
    return tag(
        "form",
        tag("p", notice.message if notice else "", role="alert", id="problem", hidden=notice is None),
        _hidden(viewer, **fields),
        tag("label", f"Message to {agent}", for_="message", class_="unseen"),
        tag(
            "textarea",
            verbatim(notice.written) if notice else "",
            id="message",
            name="message",
            rows=3,
            placeholder=f"Message to {agent}",
            aria_describedby="keys",
            autofocus=True,
            dir="auto",
        ),
        tag(
            "div",
            tag("label", "Images", for_="images"),
            tag("input", type="file", id="images", name="images", accept=IMAGE_TYPES, multiple=True),
            tag("span", "Enter sends, Shift+Enter begins a line.", id="keys", class_="soft"),
            tag("button", "Stop", type="submit", id="stop", formaction="chat/stop", hidden=not is_running),
            tag("button", "Send", type="submit", id="send", class_="main"),
            class_="row",
        ),
        id="composer",
        method="post",
        action="chat",
        enctype="multipart/form-data",
    )


def _log(thread: str | None, messages: Html | None, agent: str, is_running: bool) -> Html:
    """The conversation. What is spoken is not read out piece by piece: the line below it says when it is there."""
    busy = f"{agent} is answering…"
    live = tag(
        "article",
        tag("h2", agent),
        tag("div", id="pieces"),
        class_="said answer",
        id="live",
        hidden=not is_running,
        aria_busy="true" if is_running else None,
    )
    return join(
        tag("div", messages, id="log", data_thread=thread, data_running=is_running),
        live,
        tag(
            "p",
            busy if is_running else "",
            role="status",
            id="status",
            class_="soft",
            data_busy=busy,
            data_done=f"{agent} has answered.",
        ),
    )


def _retry(thread: str, viewer: Viewer, *, is_shown: bool) -> Html:
    return tag(
        "form",
        _hidden(viewer, thread=thread, retry="true"),
        tag("button", "Try again", type="submit"),
        id="retry",
        method="post",
        action="chat",
        hidden=not is_shown,
    )


def _more(thread: ThreadFacts, viewer: Viewer, *, is_own: bool) -> Html:
    """What else can be done with a conversation."""
    export = tag("p", tag("a", "Export", href=f"chat/export/{thread.id}", download=True))
    if not is_own:
        return export
    return tag(
        "details",
        tag("summary", "More"),
        tag(
            "form",
            _hidden(viewer, thread=thread.id),
            tag("label", "Title", for_="title"),
            tag("input", id="title", name="title", value=thread.title, maxlength=200, required=True),
            tag("button", "Rename", type="submit"),
            method="post",
            action="chat/rename",
            class_="row",
        ),
        export,
        tag(
            "form",
            _hidden(viewer, thread=thread.id),
            tag("button", "Delete this conversation", type="submit", class_="danger"),
            method="post",
            action="chat/delete",
            id="delete",
        ),
        class_="more",
    )


def _hidden(viewer: Viewer, **fields: str) -> Html:
    said = {"csrf": viewer.csrf, **fields}
    return join(tag("input", type="hidden", name=name, value=value) for name, value in said.items())


def _page(
    title: str,
    viewer: Viewer,
    listed: ThreadList,
    build: str,
    *main: Child,
    head: Child = None,
    is_list: bool = False,
) -> Html:
    return document(
        title,
        tag("a", "To the conversation", href="#main", class_="skip"),
        tag(
            "header",
            tag("a", "Pallas", href="chat", class_="brand"),
            tag("span", viewer.name, class_="soft"),
            tag(
                "form",
                _hidden(viewer),
                tag("button", "Log out", type="submit"),
                method="post",
                action="chat/logout",
            )
            if viewer.has_session
            else None,
            class_="banner",
        ),
        tag(
            "div",
            tag("nav", _search(listed), thread_list(listed), aria_label="Conversations"),
            tag("main", *main, id="main", tabindex=-1),
            class_="list" if is_list else "talk",
        ),
        assets=ASSETS,
        build=build,
        head=(tag("script", src=f"{ASSETS}page.js?{build}", type="module"), head),
    )


def _search(listed: ThreadList) -> Html:
    return join(
        tag("p", tag("a", "New conversation", href="chat", class_="new wide")),
        tag("p", tag("a", "All agents and conversations", href="chat", class_="new narrow")),
        tag(
            "form",
            tag("label", "Search conversations", for_="q", class_="unseen"),
            tag(
                "input",
                type="search",
                id="q",
                name="q",
                value=listed.query,
                placeholder="Search",
                maxlength=200,
            ),
            method="get",
            action="chat",
            role="search",
        ),
    )
