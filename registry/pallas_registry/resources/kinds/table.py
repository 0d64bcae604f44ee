"""The table of kinds: how each is read, and its plural."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_registry.resources.kinds import agent, llm, project, secret, server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_registry.reading.fields import Fields


class KindRules(NamedTuple):
    """What is to be known of a kind."""

    keys: tuple[str, ...]
    """Of its spec, in the order in which they are written."""
    read: Callable[[str, Fields], dict[str, Any]]
    """The spec of the resource of this name in canonical form, as far as it could be read."""


TABLE: Mapping[str, KindRules] = {
    "agent": KindRules(agent.KEYS, agent.read),
    "llm": KindRules(llm.KEYS, llm.read),
    "secret": KindRules(secret.KEYS, secret.read),
    "server": KindRules(server.KEYS, server.read),
    "project": KindRules(project.KEYS, project.read),
}
