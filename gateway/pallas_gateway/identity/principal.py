"""Who asks: a person or program with a token, or an agent. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pallas_gateway.identity.grants import Grant

Role = Literal["human", "agent"]

TENANT = "default"
"""The tenant of everything, until there are others."""

STREAM_GRACE = 30.0
"""Seconds that a stream without an end goes on after its token has expired: a client gets a new one in the meantime."""

EXPIRED = "the token has expired: begin again with a new one, and nothing is missed"
"""The last words of such a stream."""

SESSION = "session:"
"""How the `credential` of who came with a browser's session begins: the session's digest follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """One who is known. Two bearers of one token are one principal."""

    id: str
    """Of the token's row; `oidc:…` of an issuer's subject; `worker:<agent>/<generation>` of an agent's own token."""
    name: str
    """For people: what the token or the subject is called."""
    role: Role
    agent: str | None = None
    """Whose token it is, where the role is `agent`."""
    tenant: str = TENANT
    grants: tuple[Grant, ...] = ()
    expires: float | None = None
    """Seconds since the epoch; None for never."""
    concurrent: int | None = None
    """Of an agent's own token, for which no rate counts: the turns that the agent may have at a time, of each of which
    as many requests may be under way as the settings say of others; None: those alone."""
    credential: str = field(default="", compare=False, repr=False)
    """Digest of the token that it came with, or `SESSION` and a session's: what is under way ends with that. Empty
    where there was none."""
    subject: str = ""
    """Whose things are its own, such as threads: stays when a token is rotated or a worker starts anew. By default the
    id; of a token's row the id of the first token of its chain of rotations."""

    def __post_init__(self) -> None:
        """Let nobody be without a subject."""
        if not self.subject:
            object.__setattr__(self, "subject", self.id)


def end_of_stream(principal: Principal) -> float | None:
    """Return when a stream without an end is ended, in seconds since the epoch; None for never.

    Turns, calls and answers that are under way are not ended by expiry.
    """
    return None if principal.expires is None else principal.expires + STREAM_GRACE
