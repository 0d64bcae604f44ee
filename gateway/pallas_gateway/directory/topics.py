"""The names of what changes by the supervisor's doing, and of threads, as it is published. Pure."""

from __future__ import annotations

from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.identity.principal import TENANT

AGENTS = Topic("agents")
"""Which agents there are, and what a list says of each."""

SUPERVISOR = Topic("supervisor")
"""Whether the supervisor is there, and what it is."""

PROJECTS = Topic("projects")
"""Which projects there are."""

LISTS = ("tools", "prompts", "resources")
"""Of each compositor and project server."""


def agent_info(name: str) -> Topic:
    """What an agent is declared to be."""
    return Topic("agent info", name)


def agent_state(name: str) -> Topic:
    """How an agent is."""
    return Topic("agent state", name)


def agent_snapshot(name: str) -> Topic:
    """Both."""
    return Topic("agent snapshot", name)


def threads_with(agent: str, owner: str, tenant: str = TENANT) -> Topic:
    """Somebody's threads with an agent, and what is said in them.

    Args:
        owner: a principal's subject.
    """
    return Topic(f"threads with {agent}", owner, tenant)


def threads_of(owner: str, tenant: str = TENANT) -> Topic:
    """All of somebody's threads."""
    return Topic("threads", owner, tenant)


def resources(kind: str) -> Topic:
    """Which resources of a kind there are, and what they say."""
    return Topic("declared", kind)


def lists_of_agent(name: str) -> list[Topic]:
    """All that an agent's servers list: its compositor, and the server that is the agent."""
    return [Topic(kind, f"agent/{name}") for kind in LISTS]


def lists_of_project(name: str) -> list[Topic]:
    """All that a project's server lists."""
    return [Topic(kind, f"project/{name}") for kind in LISTS]
