"""The lists of agents and of conversations. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from pallas_common.http.html import Html, tag
from pallas_common.problems import shortened
from pallas_gateway.http.pages.view.text import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_gateway.http.pages.view.facts import AgentFacts, ThreadFacts, ThreadList

UNTITLED = "Untitled"
LONGEST_DESCRIPTION = 400
"""Characters of an agent's description in the list."""

_WELL = ("ok", "unknown")


def agent_list(agents: Sequence[AgentFacts]) -> Html:
    """The agents that one may talk to."""
    if not agents:
        return tag(
            "p", "There is no agent that you may run. Who administers this place can grant you `run:agents`."
        )
    return tag("ul", [_agent(each) for each in agents], class_="agents")


def _agent(agent: AgentFacts) -> Html:
    return tag(
        "li",
        tag("a", agent.title, href=f"chat?{urlencode({'agent': agent.name})}"),
        tag("span", agent.name, class_="soft") if agent.name != agent.title else None,
        agent_state(agent),
        tag("p", shortened(agent.description, LONGEST_DESCRIPTION)) if agent.description else None,
    )


def agent_state(agent: AgentFacts) -> Html:
    """How an agent is, in a word, and why where it is not well."""
    is_well = agent.health in _WELL
    word = agent.state if is_well else agent.health
    kind = {"ready": "ok", "idle": "ok", "degraded": "warn"}.get(word, "failed" if not is_well else "busy")
    if agent.state in ("failed", "stopped"):
        word, kind = agent.state, "failed"
    return tag("span", word, class_=f"state is-{kind}", title=agent.message or None)


def thread_list(listed: ThreadList) -> Html:
    """The conversations, with the search; also alone, for the script."""
    if not listed.threads:
        shown = tag("p", "Nothing was found." if listed.query else "No conversations yet.", class_="soft")
    else:
        shown = tag("ul", [_thread(each, listed.current) for each in listed.threads])
    return tag(
        "div",
        shown,
        _turn(listed),
        id="threads",
    )


def _thread(thread: ThreadFacts, current: str | None) -> Html:
    return tag(
        "li",
        tag(
            "a",
            tag("span", thread.title or UNTITLED, class_="title", dir="auto"),
            tag(
                "span",
                thread.agent,
                " · ",
                "answering…" if thread.is_running else moment(thread.active),
                class_="soft",
            ),
            href=f"chat?{urlencode({'thread': thread.id})}",
            aria_current="page" if thread.id == current else None,
        ),
    )


def _turn(listed: ThreadList) -> Html | None:
    """Links to other pages of the list."""
    about = {"q": listed.query} if listed.query else {}
    newest = tag("a", "Newest", href=f"chat?{urlencode(about)}") if not listed.is_first else None
    older = (
        tag("a", "Older", href=f"chat?{urlencode({**about, 'before': listed.more})}") if listed.more else None
    )
    return tag("p", newest, " ", older, class_="pages") if newest or older else None
