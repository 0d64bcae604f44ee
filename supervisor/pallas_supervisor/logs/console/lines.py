"""What a terminal is told, before it has a width or colours: an agent as it is, and one thing to say.

Plain values, made by `story` and drawn by `layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

type Tone = Literal["good", "bad", "warn", "dim", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """What is told of an agent."""

    name: str
    state: str
    url: str
    desired: str = "up"
    health: str = "unknown"
    message: str = ""
    """Why it is in its state, or why it is not well; one line."""
    generation: int = 0
    failures: int = 0
    pid: int | None = None
    last_exit: str | None = None
    needs: tuple[str, ...] = ()
    on_demand: bool = False
    """Whether it runs only while somebody calls."""


def view_of(entry: Mapping[str, Any]) -> AgentView:
    """The agent that an entry of the status document is about."""
    return AgentView(
        name=entry["name"],
        state=entry["state"],
        url=entry.get("url") or "",
        desired=entry["desired"],
        health=entry["health"],
        message=entry["message"],
        generation=entry["generation"],
        failures=entry["failures"],
        pid=entry["pid"],
        on_demand=entry.get("start") == "on-demand",
        last_exit=entry["last_exit"],
        needs=tuple(entry["depends_on"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """What the first lines say."""

    name: str
    version: str
    """Of Pallas."""
    file: str
    page: str | None
    """Address of the status page."""
    agents: tuple[str, ...]
    gateway: str | None = None
    """Its address, where there is one."""
    token: str | None = None
    """The file with the gateway's first token; never the token."""


@dataclass(frozen=True, slots=True)
class Say:
    """One thing to say; it may take several lines."""

    text: str
    word: str = ""
    """What has happened, in one word, or how bad it is."""
    tone: Tone = "plain"
    """Colour of the word."""
    about: str = ""
    """The agent, or `pallas` itself; empty for a line without columns."""
    note: str = ""
    """Beside the text: how long it took."""
    details: tuple[str, ...] = ()
    """Lines below, such as the last ones that an agent has printed."""
    problem: bool = False
    """Whether it is said to those as well who want to hear of problems alone."""
