"""What it takes to write a resource: the verb on it, `run` on all that it names, `edit:code` where it runs code. Pure.

Whoever writes a resource decides what Pallas does with what the resource names: so that needs the right to use it. For
this machine that is `edit:network`. Few URLs show where they lead: those of all others are closed, and looked at when
they are connected to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from urllib.parse import quote, urlsplit

from pallas_common.http.reach import names_this_machine
from pallas_gateway.access.predicate import may, may_some
from pallas_gateway.identity.grants import Permission
from pallas_registry.resources.references import references_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_gateway.identity.grants import Kind, Verb
    from pallas_gateway.identity.principal import Principal
    from pallas_registry.resources.model import Network, Resource

OWNER_HEADER = "Pallas-Owner"
NETWORK_HEADER = "Pallas-Network"
EDIT_NETWORK = Permission("edit", "network")
"""To write URLs that lead to this machine."""

OWN_KINDS: dict[str, Kind] = {"agent": "agents", "project": "projects"}
"""Kinds of resources for which there are grants of their own."""


def permissions_on(verb: Verb, kind: str, name: str) -> tuple[Permission, ...]:
    """The permissions of which one is enough to do that with a resource: the usual one first."""
    by_resource = Permission(verb, "resources", f"{kind}/{name}")
    own = OWN_KINDS.get(kind)
    return (by_resource,) if own is None else (Permission(verb, own, name), by_resource)


def may_on(principal: Principal, verb: Verb, kind: str, name: str) -> bool:
    """Whether the principal may do that with a resource."""
    return any(may(principal, each) for each in permissions_on(verb, kind, name))


def may_some_of(principal: Principal, verb: Verb, kind: str) -> bool:
    """Whether the principal may do that with some resource of the kind: else a list of them is refused."""
    own = OWN_KINDS.get(kind)
    if own is not None and may_some(principal, verb, own):
        return True
    return principal.role == "human" and any(
        grant.touches(verb, "resources")
        and (
            grant.name is None
            or grant.name.partition("/")[0] in (kind, "*")
            or "*" in grant.name.partition("/")[0]
        )
        for grant in principal.grants
    )


def lacking(principal: Principal, verb: Verb, resource: Resource) -> Permission | None:
    """The first permission that the principal would need as well to write the resource as it is; None: all are there.

    Args:
        verb: `create` or `edit`.
        resource: as it is to be, read as strictly as the supervisor does.
    """
    for alternatives in _needed(verb, resource):
        if not any(may(principal, each) for each in alternatives):
            return alternatives[0]
    return None


def _needed(verb: Verb, resource: Resource) -> Iterator[tuple[Permission, ...]]:
    """What is needed; of each entry one is enough."""
    yield permissions_on(verb, resource.id.kind, resource.id.name)
    for reference in references_of(resource):
        yield permissions_on("run", reference.target.kind, reference.target.name)
    if resource.id.kind == "agent":
        if (model := resource.spec.get("model")) is not None:
            # A model of the deployment's own, with its key: as one that is declared, by its name.
            yield permissions_on("run", "llm", model.partition("?")[0])
        # The agent's own token may call these.
        for name in resource.spec.get("run", {}).get("depends_on", ()):
            yield (Permission("run", "agents", cast("str", name)),)
    if runs_code(resource):
        yield (Permission("edit", "code"),)
    if leads_here(resource):
        yield (EDIT_NETWORK,)


def asked_for(principal: Principal) -> dict[str, str]:
    """The headers that tell the supervisor who asks for a change, and where URLs may lead that they write."""
    network: Network = "open" if may(principal, EDIT_NETWORK) else "closed"
    return {OWNER_HEADER: quote(principal.name, safe=""), NETWORK_HEADER: network}


def leads_here(resource: Resource) -> bool:
    """Whether the URL of an llm or a server plainly leads to this machine."""
    url = resource.spec.get("url") if resource.id.kind in ("llm", "server") else None
    try:
        return url is not None and names_this_machine(urlsplit(url).hostname or "")
    except ValueError:
        return False


def runs_code(resource: Resource) -> bool:
    """Whether Pallas would run what the resource says: a command, another interpreter, variables for both."""
    if resource.id.kind == "server":
        return "command" in resource.spec
    if resource.id.kind == "agent":
        run = resource.spec.get("run", {})
        return "python" in run or "env" in run
    return False
