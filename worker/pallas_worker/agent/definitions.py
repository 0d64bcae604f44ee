"""The agents that the user's module defines: which one is served, what it is made of, and copies for one call.

Knows fast-agent's definitions; must not know how agents are made. Pure.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from fast_agent.core.validation import get_agent_dependencies
from fast_agent.types import RequestParams

from pallas_common.problems import did_you_mean, quoted
from pallas_worker.agent.models.agent_kinds import asks_a_model
from pallas_worker.interface.errors import AgentError, ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def served_agent(entry: str, agents: Mapping[str, Any]) -> str:
    """The name of the agent that the entry `entry` of agents.yaml stands for: the one of that name, or the only one.

    Raises:
        AgentError: there are several others, or none at all.
    """
    if entry in agents:
        return entry
    if not agents:
        raise AgentError("no agent is defined: decorate a function with @fast.agent(...)", permanent=True)
    if len(agents) > 1:
        found = ", ".join(sorted(agents))
        raise AgentError(
            f"there is no agent called {entry!r}, but several others: {found}; "
            "give the entry in agents.yaml the name of one of them",
            permanent=True,
        )
    return next(iter(agents))


def refuse_void_filters(agents: Mapping[str, Any]) -> None:
    """Refuse a tool filter that would hide nothing.

    fast-agent takes what is before the first `__` of a tool's name for the server, and finds no filter for that.

    Raises:
        AgentError: an agent filters the tools of a server with `__` in its name.
    """
    for name, data in agents.items():
        if void := next((server for server in data["config"].tools or () if "__" in server), None):
            raise AgentError(
                f"the filter of agent {name!r} for the tools of {void!r} would hide none of them, "
                "because the server's name has `__` in it: rename the server",
                permanent=True,
            )


def undefined_agents(agents: Mapping[str, Any]) -> Iterator[str]:
    """A warning for each agent that another one names and that is not defined: fast-agent leaves most of them out."""
    for name, data in agents.items():
        for child in sorted(get_agent_dependencies(data)):
            if child not in agents:
                near = did_you_mean(child, list(agents))
                remedy = f"did you mean {near!r}?" if near else "define it, or remove it there"
                yield f"agent {quoted(name)} names the agent {quoted(child)}, which is not defined; {remedy}"


def needed_by(agent: str, agents: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions of `agent` and of all that it is made of, in the order of their definition."""
    needed: set[str] = set()
    waiting = [agent]
    while waiting:
        name = waiting.pop()
        if name in agents and name not in needed:
            needed.add(name)
            waiting.extend(get_agent_dependencies(agents[name]))
    return {name: data for name, data in agents.items() if name in needed}


def copies_for_call(agents: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions with configurations of their own, which a call may change."""
    return {name: {**data, "config": _own_config(data["config"])} for name, data in agents.items()}


def with_model(agent: str, agents: Mapping[str, Any], model: str, *, same_provider: bool) -> dict[str, Any]:
    """The definitions, in which `agent` asks another model: with its own API key only at the same provider.

    Raises:
        ArgumentError: it asks none itself, whatever its definition says.
    """
    if not asks_a_model(agents[agent]):
        raise ArgumentError(
            "model_override: the agent hands messages on and asks no model itself; remove it",
            "model_override",
        )
    config = _own_config(agents[agent]["config"])
    config.model = model
    if not same_provider:
        config.api_key = None
    if (params := config.default_request_params) is not None and params.model is not None:
        params.model = None
        params.model_fields_set.discard("model")  # one that is set to None counts as a model
    return {**agents, agent: {**agents[agent], "config": config}}


def _own_config(config: Any) -> Any:
    """A copy of an agent's configuration that shares no container and no request parameters with it.

    What the containers hold is shared: a deep copy would duplicate the objects behind an agent's tools.
    """
    own = copy.copy(config)
    for name, value in vars(config).items():
        if isinstance(value, list | dict | set):
            setattr(own, name, copy.copy(value))
        elif isinstance(value, RequestParams):
            setattr(own, name, value.model_copy(deep=True))
    return own
