"""What resources refer to, who uses one, and what follows from that for its deletion. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.problems import Problem
from pallas_registry.resources.kinds.names import referred_secrets
from pallas_registry.resources.model import ResourceId, ResourceSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pallas_registry.resources.model import Kind, Resource

MOST_NAMED = 5
"""Users of a resource that a message names."""


class Reference(NamedTuple):
    """One place of a resource that names another one."""

    path: str
    """Of the field: `spec.llm`, `spec.servers[0]`."""
    target: ResourceId
    key: str | None = None
    """Of a secret: which of its values."""


def references_of(resource: Resource) -> list[Reference]:
    """What the resource refers to; not what an agent depends on, which may be in agents.yaml."""
    return list(_references(resource))


def _references(resource: Resource) -> Iterator[Reference]:
    spec = resource.spec
    match resource.id.kind:
        case "agent":
            yield from _named(spec, "llm", "llm")
            yield from _all_named(spec, "models", "llm")
            yield from _named(spec, "project", "project")
            yield from _all_named(spec, "servers", "server")
        case "llm":
            if (key := spec.get("apiKeyRef")) is not None:
                yield _secret("spec.apiKeyRef", key)
        case "server":
            yield from _in_text("spec.url", spec.get("url", ""))
            for index, text in enumerate(spec.get("args", ())):
                yield from _in_text(f"spec.args[{index}]", text)
            for field in ("headers", "env"):
                for name, text in spec.get(field, {}).items():
                    yield from _in_text(f"spec.{field}.{name}", text)
        case "project":
            yield from _all_named(spec, "servers", "server")
        case "secret":
            pass


def is_closed(resource: Resource, resources: ResourceSet) -> bool:
    """Whether the URL of an llm or a server may not lead to this machine: by its own writer, or a secret's in it."""
    if resource.is_closed:
        return True
    named = (each.target for each in references_of(resource) if each.path == "spec.url")
    return any(resources[each].is_closed for each in named if each in resources)


def _named(spec: Mapping[str, Any], field: str, kind: Kind) -> Iterator[Reference]:
    if (name := spec.get(field)) is not None:
        yield Reference(f"spec.{field}", ResourceId(kind, name))


def _all_named(spec: Mapping[str, Any], field: str, kind: Kind) -> Iterator[Reference]:
    for index, name in enumerate(spec.get(field, ())):
        yield Reference(f"spec.{field}[{index}]", ResourceId(kind, name))


def _in_text(path: str, text: str) -> Iterator[Reference]:
    for reference in dict.fromkeys(referred_secrets(text)):
        yield _secret(path, reference)


def _secret(path: str, reference: str) -> Reference:
    name, _, key = reference.partition("/")
    return Reference(path, ResourceId("secret", name), key)


def users_of(id_: ResourceId, resources: ResourceSet) -> tuple[ResourceId, ...]:
    """The resources that refer to this one, or are agents that depend on it."""
    return _users({id_}, resources).get(id_, ())


def without(
    gone: Collection[ResourceId], resources: ResourceSet
) -> tuple[ResourceSet, dict[ResourceId, Problem]]:
    """What is left of the resources without these, and why some of these have to stay, which then are left too.

    What others use stays, unless these go as well; but a project leaves its agents, which have none then.
    """
    wanted = set(gone)
    used = _users(wanted, resources)
    stay = _needed_by_others(wanted, used)
    left = {id_: resource for id_, resource in resources.items() if id_ not in wanted or id_ in stay}
    problems = {}
    for id_ in gone:
        users = [user for user in used.get(id_, ()) if user in left]
        if id_.kind == "project":
            for user in users:
                spec = {key: value for key, value in left[user].spec.items() if key != "project"}
                left[user] = left[user].with_spec(spec)
        elif id_ in stay:
            more = len(users) - MOST_NAMED
            named = ", ".join(map(str, users[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
            remedy = "let them use another one, or delete them first"
            problems[id_] = Problem(str(id_), None, "", f"is used by {named}", remedy)
    return ResourceSet(left.values()), problems


def _needed_by_others(
    wanted: Collection[ResourceId], used: Mapping[ResourceId, tuple[ResourceId, ...]]
) -> set[ResourceId]:
    """Those of the wanted that something uses which is not among them, or which has to stay itself."""
    uses: dict[ResourceId, list[ResourceId]] = {}
    for target, users in used.items():
        if target.kind != "project":
            for user in users:
                uses.setdefault(user, []).append(target)
    stay: set[ResourceId] = set()
    reached = [user for user in uses if user not in wanted]
    while reached:
        needed = [each for each in uses.get(reached.pop(), ()) if each not in stay]
        stay.update(needed)
        reached += needed
    return stay


def _users(
    wanted: Collection[ResourceId], resources: ResourceSet
) -> dict[ResourceId, tuple[ResourceId, ...]]:
    """Of each of the wanted that is used: by whom, by kind and name."""
    found: dict[ResourceId, dict[ResourceId, None]] = {}
    for id_, resource in resources.items():
        for reference in _references(resource):
            if reference.target in wanted:
                found.setdefault(reference.target, {})[id_] = None
        for name in resource.spec.get("run", {}).get("depends_on", ()) if id_.kind == "agent" else ():
            if (target := ResourceId("agent", name)) in wanted:
                found.setdefault(target, {})[id_] = None
    return {id_: tuple(sorted(users)) for id_, users in found.items()}
