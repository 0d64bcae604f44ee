"""Secrets' values: shown by digests, kept where a digest is applied, and passed to the workers that need them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.problems import Problem
from pallas_registry.resources.model import ResourceId
from pallas_registry.resources.references import references_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pallas_common.protocol.agent.definition import AgentDefinition
    from pallas_registry.resources.model import Resource, ResourceSet

    type Digest = Callable[[Resource, str], str]
    """How one value of a secret, by its key, is shown."""


def shown(secret: Resource, digest: Digest) -> dict[str, Any]:
    """The spec as it may be shown: each value by its digest."""
    data = secret.spec["data"].items()
    return {
        "data": {
            key: {"digest": digest(secret, key)} if isinstance(value, str) else value for key, value in data
        }
    }


def with_values(
    resource: Resource, kept: Resource | None, digest: Digest
) -> tuple[Resource, tuple[Problem, ...]]:
    """The secret with its values in place of their digests, taken from the one that is `kept`; and what does not fit.

    Args:
        kept: of the same name; None where there is none.
        digest: how a value of the one that is kept is shown.
    """
    there = {} if kept is None else kept.spec["data"]
    data: dict[str, object] = {}
    problems = []
    for key, value in resource.spec["data"].items():
        data[key] = value
        if isinstance(value, str):
            continue
        old = there.get(key)
        if kept is not None and isinstance(old, str) and digest(kept, key) == value["digest"]:
            data[key] = old
            continue
        message = (
            "is shown by its digest, and there is no value to keep"
            if old is None
            else "is shown by a digest of another value than the one that is kept"
        )
        field = f"spec.data.{key}"
        problems.append(
            Problem(
                resource.file,
                resource.line(f"{field}.digest"),
                field,
                message,
                "write the value itself, as text",
            )
        )
    return resource.with_spec({"data": data}), tuple(problems)


def secret_values(resource: Resource, resources: ResourceSet) -> Iterator[tuple[str, str]]:
    """`NAME/KEY` of each secret that the llm or server itself refers to, and its value.

    Raises:
        KeyError: there is no such value.
    """
    for reference in references_of(resource):
        if reference.key is not None:
            yield (
                f"{reference.target.name}/{reference.key}",
                resources[reference.target].spec["data"][reference.key],
            )


def values_for(definition: AgentDefinition, resources: ResourceSet) -> dict[str, str]:
    """`NAME/KEY` → value, of all secrets of which the definition has a digest: what its worker is passed beside it.

    One that is gone since is not among them.
    """
    found = {}
    for reference in definition.secrets:
        name, _, key = reference.partition("/")
        secret = resources.get(ResourceId("secret", name))
        value = None if secret is None else secret.spec["data"].get(key)
        if isinstance(value, str):
            found[reference] = value
    return found
