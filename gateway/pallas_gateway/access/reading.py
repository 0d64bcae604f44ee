"""What of a resource is shown to somebody who may view it, and not change it. Pure.

Values of variables and headers are where people write keys, though there are secrets for that. Who may only view is
told their names, and those of a secret's values; who may change the resource has to see what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_gateway.access.writing import may_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_gateway.identity.principal import Principal

HIDDEN = "(hidden)"
"""In place of a value."""


def shown(principal: Principal, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a resource as the principal may see it, which may view it.

    Args:
        document: as the control API tells it, with `kind`, `metadata` and `spec`.
    """
    kind, spec = document["kind"], document.get("spec") or {}
    found = dict(document)
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


def _without_values(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: dict.fromkeys(value, HIDDEN) if key in ("env", "headers") else value
        for key, value in section.items()
    }
