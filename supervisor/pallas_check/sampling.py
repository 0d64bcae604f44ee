"""Which agents a check tries, where trying all of them would take many minutes. Pure.

Declared agents have no code of their own: with the same model, servers and interpreter one is as right or wrong as
another. Agents of `agents.yaml` are all tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pallas_registry.deployment.model import Agent

MOST_DECLARED = 50
"""Declared agents that are tried, unless they are named; those first that most others are like."""


class Sample(NamedTuple):
    """What is tried, and what is not."""

    tried: Mapping[str, tuple[str, ...]]
    """In the order of the deployment; of each the others that are like it."""
    left_out: tuple[str, ...] = ()
    """Agents that are not tried, and none that is like them."""


def sample(agents: Mapping[str, Agent], named: Collection[str] = ()) -> Sample:
    """The agents to try.

    Args:
        named: exactly those; none: all that differ in what can be wrong with them.
    """
    if named:
        return Sample({name: () for name in agents if name in named})
    groups: dict[str, list[str]] = {}
    for name, agent in agents.items():
        if agent.definition is not None:
            groups.setdefault(_nature(agent), []).append(name)
    by_size = sorted(groups.values(), key=len, reverse=True)
    alike = {names[0]: tuple(names[1:]) for names in by_size[:MOST_DECLARED]}
    too_many = {name for names in by_size[MOST_DECLARED:] for name in names}
    tried = {
        name: alike.get(name, ())
        for name, agent in agents.items()
        if agent.definition is None or name in alike
    }
    return Sample(tried, tuple(name for name in agents if name in too_many))


def _nature(agent: Agent) -> str:
    """The same text for agents of which one trial says all; a prompt or a parameter's value cannot be wrong here."""
    definition = agent.definition
    assert definition is not None
    made_of = (definition.llm, definition.model, definition.models, definition.servers)
    run = (agent.python, sorted(agent.env.items()), agent.memory_limit, agent.models)
    return repr((made_of, run, sorted(definition.parameters), agent.output_schema is None))
