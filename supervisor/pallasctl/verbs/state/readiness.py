"""Which agents count as ready for people and scripts, and which are shown where there are many. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.problems import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

MOST_IDLE = 20
"""Idle agents that a table in a terminal lists; where there are more, it says how many there are."""

READY = frozenset({"ready", "idle"})
"""States of the status document that count as ready: it serves, or is there as soon as somebody connects."""

_WAKING = frozenset({"waiting", "starting", "stopping"})


def is_available(agent: Mapping[str, Any]) -> bool:
    """Whether the agent serves, or will as soon as somebody connects: calls wait for one that starts on demand."""
    if agent["state"] in READY:
        return True
    return agent.get("start") == "on-demand" and agent["desired"] == "up" and agent["state"] in _WAKING


def count_ready(agents: Sequence[Mapping[str, Any]], *, short: bool = False) -> str:
    """`5 of 5 agents ready (3 idle)`, of those that should run; in short without the word."""
    wanted = [agent for agent in agents if agent["desired"] == "up"]
    ready = sum(is_available(agent) for agent in wanted)
    idle = sum(agent["state"] == "idle" for agent in wanted)
    of_all = str(len(wanted)) if short else counted(len(wanted), "agent")
    return f"{ready} of {of_all} ready" + (f" ({idle} idle)" if idle else "")


def listed[A: Mapping[str, Any]](agents: Sequence[A], states: Collection[str], *, fold: bool) -> list[A]:
    """Those of these states, or all.

    Args:
        states: all of them if there are none.
        fold: leave out the idle ones where they are many.
    """
    if states:
        return [agent for agent in agents if agent["state"] in states]
    if fold and sum(agent["state"] == "idle" for agent in agents) > MOST_IDLE:
        return [agent for agent in agents if agent["state"] != "idle"]
    return list(agents)
