"""What of a resource is shown to somebody who may view it, and not change it, and which names nobody is told. Pure.

Values of variables and headers are where people write keys, though there are secrets for that. Who may only view is
told their names, and those of a secret's values; who may change the resource has to see what it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pallas_gateway.access.predicate import may_see_agent
from pallas_gateway.access.writing import may_on
from pallas_registry.resources.model import KINDS, ResourceId
from pallas_registry.resources.references import references_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pallas_gateway.identity.principal import Principal
    from pallas_registry.resources.model import Resource

HIDDEN = "(hidden)"
"""In place of a value."""

_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_REFERENCE = rf"(?<![\w./-])(?P<kind>{'|'.join(KINDS)})/(?P<name>{_NAME})"


def shown(principal: Principal, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a resource as the principal may see it, which may view it.

    Args:
        document: as the control API tells it, with `kind`, `metadata` and `spec`.
    """
    kind, spec = document["kind"], document.get("spec") or {}
    found = dict(document)
    status = document.get("status")
    if isinstance(status, dict) and "usedBy" in status:
        used_by = [each for each in status["usedBy"] if may_on(principal, "view", *each.split("/", 1))]
        found["status"] = {**status, "usedBy": used_by}
    if may_on(principal, "edit", kind, document["metadata"]["name"]):
        return found
    if kind == "server":
        found["spec"] = _without_values(spec)
    elif kind == "agent" and "run" in spec:
        found["spec"] = {**spec, "run": _without_values(spec["run"])}
    elif kind == "secret" and "data" in spec:
        # Who may change it knows by the digest whether it is still what it was.
        found["spec"] = {**spec, "data": {key: {"digest": HIDDEN} for key in spec["data"]}}
    return found


def named_in(resources: Iterable[Resource]) -> frozenset[ResourceId]:
    """What a principal names by writing these resources: it knows of them already."""
    found: set[ResourceId] = set()
    for resource in resources:
        found.add(resource.id)
        found.update(reference.target for reference in references_of(resource))
        depends_on = resource.spec.get("run", {}).get("depends_on", ())
        found.update(ResourceId("agent", str(name)) for name in depends_on)
    return frozenset(found)


def told(principal: Principal, text: str, agents: Iterable[str], named: Collection[ResourceId]) -> str:
    """What the supervisor says to an operator, without the names of what the principal may not view.

    Args:
        agents: the names of all that there are, by which they are named alone as well.
        named: what the principal has named itself.
    """
    hidden = [
        name
        for name in agents
        if name in text and ResourceId("agent", name) not in named and not may_see_agent(principal, name)
    ]
    alone = "|".join(map(re.escape, sorted(hidden, key=len, reverse=True)))

    def known(match: re.Match[str]) -> str:
        if match["kind"] is None:
            return _unnamed("agent")
        is_known = ResourceId(match["kind"], match["name"]) in named  # type: ignore[arg-type]
        return (
            match[0]
            if is_known or may_on(principal, "view", match["kind"], match["name"])
            else _unnamed(match["kind"])
        )

    by_name = rf"|(?<![\w./-])(?:{alone})(?![\w/-]|\.\w)" if hidden else ""
    return re.sub(_REFERENCE + by_name, known, text)


def _unnamed(kind: str) -> str:
    return f"{'an' if kind in ('agent', 'llm') else 'a'} {kind} that you may not view"


def _without_values(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: dict.fromkeys(value, HIDDEN) if key in ("env", "headers") else value
        for key, value in section.items()
    }
