"""What pages show, as facts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence


class Viewer(NamedTuple):
    """Who looks at a page."""

    name: str
    csrf: str
    """Proof that a form of theirs is from a page of ours."""
    has_session: bool = True
    """Whether there is something to log out of."""


class AgentFacts(NamedTuple):
    """An agent to talk to."""

    name: str
    title: str
    description: str
    state: str
    """In the words of `pallasctl status`."""
    health: str
    message: str
    """Why it is not well."""


class ThreadFacts(NamedTuple):
    """A conversation in a list."""

    id: str
    title: str
    agent: str
    active: dt.datetime
    is_running: bool = False


class ThreadList(NamedTuple):
    """Conversations, the newest activity first."""

    threads: Sequence[ThreadFacts]
    query: str = ""
    """The words that were searched for."""
    is_first: bool = True
    more: str | None = None
    """The cursor of the page behind this one."""
    current: str | None = None
    """The id of the conversation that is looked at."""


class Notice(NamedTuple):
    """What went wrong, and what the person had written by then."""

    message: str
    written: str = ""
