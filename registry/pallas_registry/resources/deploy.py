"""What a deployment becomes by resources: declared agents beside those of agents.yaml. Pure.

A resource that cannot be used is left out with what needs it, and says why; all others are there.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import MOST_PROBLEMS, Problem, did_you_mean, quoted
from pallas_common.protocol.agent.settings import settings_of
from pallas_registry.deployment.agent_entry import run_settings
from pallas_registry.deployment.dependencies import cycles
from pallas_registry.deployment.model import Agent, slug
from pallas_registry.reading import rules
from pallas_registry.resources.definitions import Definitions
from pallas_registry.resources.kinds.agent import START
from pallas_registry.resources.model import REFERRED_FIRST
from pallas_registry.resources.references import references_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from pallas_registry.deployment.model import Deployment
    from pallas_registry.resources.model import Resource, ResourceId, ResourceSet


class Deployed(NamedTuple):
    """Both together."""

    deployment: Deployment
    """The agents of agents.yaml, in its order, then those declared ones that can be used, by name."""
    problems: Mapping[ResourceId, tuple[Problem, ...]]
    """Of the resources that cannot be used."""
    doubles: tuple[Problem, ...] = ()
    """Those problems which say that an agent is both in agents.yaml and declared."""


def is_executable(path: Path) -> bool:
    """Whether an interpreter is there that may be run."""
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def deploy(
    base: Deployment,
    resources: ResourceSet,
    digest: Callable[[str], str],
    runs: Callable[[Path], bool] = is_executable,
) -> Deployed:
    """The deployment with the agents that the resources declare.

    Args:
        base: agents.yaml alone.
        digest: how a secret's value is told from another one without being shown.
        runs: whether there is such an interpreter.
    """
    checks = _Checks(base, resources, runs)
    checks.references()
    checks.agents()
    usable = [
        resource
        for name, resource in sorted(resources.of("agent").items())
        if resource.id not in checks.problems
    ]
    made = Definitions(resources, digest)
    declared = {resource.id.name: _agent(base, resource, made) for resource in usable}
    return Deployed(
        replace(base, agents={**base.agents, **declared}),
        {id_: tuple(found) for id_, found in checks.problems.items()},
        tuple(checks.doubles),
    )


def _agent(base: Deployment, resource: Resource, definitions: Definitions) -> Agent:
    name, spec = resource.id.name, resource.spec
    run = spec.get("run", {})
    title = run.get("title") or name.title()
    python = run.get("python")
    return Agent(
        **{**settings_of(base.defaults), "start": START, **run_settings(run)},
        name=name,
        definition=definitions.definition(resource),
        port=run.get("port"),
        title=title,
        description=spec.get("description") or title,
        depends_on=tuple(run.get("depends_on", ())),
        icon=run.get("icon"),
        output_schema=spec.get("outputSchema"),
        python=None if python is None else str(_interpreter(base, python)),
        env=run.get("env", {}),
    )


def _interpreter(base: Deployment, python: str) -> Path:
    return (base.path.parent / python).absolute()


class _Checks:
    """Finds what cannot be used."""

    def __init__(self, base: Deployment, resources: ResourceSet, runs: Callable[[Path], bool]) -> None:
        self.problems: dict[ResourceId, list[Problem]] = {}
        self.doubles: list[Problem] = []
        self._base = base
        self._resources = resources
        self._runs = runs
        self._by_kind = {kind: resources.of(kind) for kind in REFERRED_FIRST}

    def _refuse(self, resource: Resource, path: str, message: str, remedy: str) -> Problem:
        problem = Problem(resource.file or str(resource.id), resource.line(path), path, message, remedy)
        self.problems.setdefault(resource.id, []).append(problem)
        return problem

    def _near(self, name: str, known: Collection[str]) -> str | None:
        """What was probably meant; not searched any more once there are more problems than are shown."""
        return did_you_mean(name, known) if len(self.problems) < MOST_PROBLEMS else None

    def references(self) -> None:
        """Whether all is there that resources refer to, and can itself be used."""
        for kind in REFERRED_FIRST:
            for resource in self._by_kind[kind].values():
                for path, target, key in references_of(resource):
                    self._reference(resource, path, target, key)

    def _reference(self, resource: Resource, path: str, target: ResourceId, key: str | None) -> None:
        found = self._resources.get(target)
        if found is None:
            near = self._near(target.name, self._by_kind[target.kind])
            remedy = f"did you mean {quoted(near)}?" if near else "apply it as well, or name another one"
            self._refuse(resource, path, f"there is no {target.kind} {quoted(target.name)}", remedy)
        elif target in self.problems:
            self._refuse(resource, path, f"{target} cannot be used", "mend it first")
        elif key is not None and key not in found.spec["data"]:
            there = ", ".join(found.spec["data"])
            self._refuse(resource, path, f"{target} has no value {quoted(key)}", f"it has: {there}")

    def agents(self) -> None:
        """Whether agents can be there beside all others."""
        declared = self._by_kind["agent"]
        # Of two that want the same, the older one keeps it.
        by_age = sorted(declared.values(), key=lambda agent: (_created(agent), agent.id.name))
        self._names(by_age)
        self._ports(by_age)
        for agent in by_age:
            self._interpreter(agent)
        self._dependencies(declared)

    def _names(self, by_age: Iterable[Resource]) -> None:
        owners = {slug(name): f"{name} in {self._place(name)}" for name in self._base.agents}
        for agent in by_age:
            name = agent.id.name
            if name in self._base.agents:
                message = f"there is an agent {name} in {self._place(name)} as well"
                self.doubles.append(
                    self._refuse(agent, "metadata.name", message, "rename or remove one of the two")
                )
                continue
            if (owner := owners.setdefault(slug(name), str(agent.id))) != str(agent.id):
                message = f"is published as `{slug(name)}`, and so is {owner}"
                self._refuse(agent, "metadata.name", message, "rename one of the two")
            if (length := len(f"{self._base.namespace}/{slug(name)}")) > rules.SERVER_NAME_LENGTH:
                message = f"its server name has {length} characters, {rules.SERVER_NAME_LENGTH} are allowed"
                self._refuse(agent, "metadata.name", message, "shorten it, or the namespace in agents.yaml")

    def _place(self, name: str) -> str:
        line = self._base.agents[name].line
        return f"{self._base.path}:{line}" if line is not None else str(self._base.path)

    def _ports(self, by_age: Iterable[Resource]) -> None:
        takers = {self._base.registry_port: "the registry's port"}
        if self._base.gateway is not None:
            takers[self._base.gateway.port] = "the gateway's port"
        for name, agent in self._base.agents.items():
            if agent.port is not None:
                takers[agent.port] = f"the port of {name} ({self._place(name)})"
        for resource in by_age:
            port = resource.spec.get("run", {}).get("port")
            if port is None:
                continue
            if taker := takers.get(port):
                remedy = "choose another one, or leave it out: the agent is reached without one"
                self._refuse(resource, "spec.run.port", f"{port} is also {taker}", remedy)
            else:
                takers[port] = f"the port of {resource.id}"

    def _interpreter(self, agent: Resource) -> None:
        python = agent.spec.get("run", {}).get("python")
        if python is not None and not self._runs(path := _interpreter(self._base, python)):
            message = f"{quoted(str(path), 200)} is not an executable file"
            remedy = f"name the Python of the agent's own environment, relative to {self._base.path.parent}"
            self._refuse(agent, "spec.run.python", message, remedy)

    def _dependencies(self, declared: Mapping[str, Resource]) -> None:
        edges = {name: _needed(agent) for name, agent in declared.items()}
        known = {*self._base.agents, *declared}
        for name, needed in edges.items():
            for index, other in enumerate(needed):
                if other not in known:
                    near = self._near(other, known)
                    remedy = f"did you mean {quoted(near)}?" if near else "apply it as well, or remove it"
                    path = f"spec.run.depends_on[{index}]"
                    self._refuse(declared[name], path, f"there is no agent {quoted(other)}", remedy)
        for cycle in cycles(edges):
            circle = " → ".join((*cycle, cycle[0]))
            for name in cycle:
                message = f"is a cycle: {circle}"
                self._refuse(
                    declared[name], "spec.run.depends_on", message, "remove one of these dependencies"
                )
        self._spread(declared, edges)

    def _spread(self, declared: Mapping[str, Resource], edges: Mapping[str, tuple[str, ...]]) -> None:
        """Leave out who needs an agent that is left out."""
        dependants: dict[str, list[str]] = {}
        for name, needed in edges.items():
            for other in needed:
                dependants.setdefault(other, []).append(name)
        waiting = [id_.name for id_ in self.problems if id_.kind == "agent"]
        while waiting:
            bad = waiting.pop()
            if bad in self._base.agents:  # the one of agents.yaml is there
                continue
            for name in dependants.get(bad, ()):
                if (agent := declared[name]).id not in self.problems:
                    self._refuse(agent, "spec.run.depends_on", f"agent/{bad} cannot be used", "mend it first")
                    waiting.append(name)


def _needed(agent: Resource) -> tuple[str, ...]:
    return tuple(agent.spec.get("run", {}).get("depends_on", ()))


def _created(resource: Resource) -> str:
    """When it was applied first; what is new comes last."""
    return resource.metadata.created_at if resource.metadata is not None else "~"
