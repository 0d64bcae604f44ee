"""The one predicate: who may see, list, read, call, subscribe to or approve a thing. Pure.

Everything asks here: the lists of tools and resources, calls, reads, subscriptions and each delivery to them, REST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_gateway.identity.grants import Permission

if TYPE_CHECKING:
    from pallas_gateway.identity.grants import Kind, Verb
    from pallas_gateway.identity.principal import Principal


def may(principal: Principal, permission: Permission) -> bool:
    """Whether the principal may do that.

    An agent may run what its grants say and nothing else: it never approves, and sees no other agent's things.
    """
    if principal.role == "agent" and (permission.verb, permission.kind) != ("run", "agents"):
        return False
    return any(grant.covers(permission) for grant in principal.grants)


def may_some(principal: Principal, verb: Verb, kind: Kind) -> bool:
    """Whether the principal may do that with something of the kind: else a list of them is refused."""
    if principal.role == "agent" and (verb, kind) != ("run", "agents"):
        return False
    return any(grant.touches(verb, kind) for grant in principal.grants)


def owns(principal: Principal, agent: str) -> bool:
    """Whether these are the principal's own things: its session, its servers. Nobody else's, whatever their grants."""
    return principal.role == "agent" and principal.agent == agent


def may_see_agent(principal: Principal, agent: str) -> bool:
    """Whether the agent is in the principal's lists."""
    return may(principal, Permission("view", "agents", agent))
