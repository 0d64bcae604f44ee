"""Where principals come from: what the authentication asks of the store, of the directory and of an issuer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pallas_gateway.identity.errors import MalformedRecordError
    from pallas_gateway.identity.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """A token of the store."""

    digest: str
    """SHA-256 of the token's text, hexadecimal."""
    principal: Principal
    """Whose it is; with its expiry."""
    revoked: bool = False


class AgentKey(NamedTuple):
    """An agent, to be told from another one of the same name before or after it."""

    name: str
    uid: str | None
    """Of the resource; None for an agent of `agents.yaml`."""


def deleted_agents(known: Iterable[AgentKey], declared: Mapping[str, str | None]) -> list[AgentKey]:
    """Those of resources that are no more: no agent has the name, or another one. An agent of a file may come back.

    Args:
        declared: the name of each agent that there is, whether it can be used or not, with the uid of its resource;
            None where nobody can tell which one it is.
    """
    return [
        each for each in known if each.uid is not None and declared.get(each.name, "") not in (None, each.uid)
    ]


class StoredTokens(Protocol):
    """The tokens that were made, by digest."""

    async def find(self, digests: Sequence[str]) -> Mapping[str, StoredToken | MalformedRecordError]:
        """Those that there are, by digest, revoked and expired ones included, in one transaction.

        It raises whatever says that the store does not answer; so do the others.
        """

    async def revision(self) -> int:
        """Another number after each change of any token, also by another process. Cheap: asked every second."""

    async def touch(self, used: Mapping[str, float]) -> None:
        """Note when tokens were used last: id → seconds since the epoch."""

    async def revoke_agents(self, agents: Collection[AgentKey]) -> Sequence[tuple[AgentKey, str]]:
        """Revoke all tokens of these agents.

        Returns:
            Those that counted until now: whose, and the token's id.
        """

    async def agents(self) -> Collection[AgentKey]:
        """The agents for which there are tokens that are not revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """Who an issuer said that somebody is, at the login."""

    id: str
    """Of the principal: `oidc:…`."""
    name: str
    groups: tuple[str, ...]
    """Of those that have grants: what they may follows from the settings of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A browser that is logged in, by a token or by an issuer. Times are in seconds since the epoch."""

    digest: str
    """SHA-256 of the session's text, hexadecimal."""
    credential: str | None = None
    """Digest of the token that it was opened with."""
    issued: Issued | None = None
    """Who it is, where it was opened by an issuer."""
    created: float
    expires: float
    last_used: float


class StoredSessions(Protocol):
    """The sessions, by digest. All raise whatever says that the store does not answer."""

    async def find(self, digests: Sequence[str]) -> Mapping[str, StoredSession]:
        """Those that there are, by digest, expired ones included, in one transaction."""

    async def open(self, session: StoredSession, most: int) -> None:
        """Keep it; of those of the same token or the same subject, `most` stay, the newest."""

    async def close(self, digest: str) -> bool:
        """Forget it, and count that as a change of tokens; whether there was one."""

    async def touch(self, used: Mapping[str, float]) -> None:
        """Note when sessions were used last: digest → seconds since the epoch."""

    async def forget(self, now: float, idle: float) -> int:
        """Forget those that have expired, or were not used for `idle` seconds; how many they were."""


class WorkerTokens(Protocol):
    """The tokens that workers got for their start, as the supervisor tells them."""

    def find(self, digest: str) -> Principal | None:
        """Whose token it is; None if it is not among those that were told last."""

    async def refetch(self) -> None:
        """Ask the supervisor anew. Never raises: what cannot be asked stays as it was."""


class Issuer(Protocol):
    """An issuer of signed tokens."""

    def recognises(self, token: str) -> bool:
        """Whether the text has the form of one."""

    async def principal(self, token: str) -> Principal:
        """Whose token it is.

        Raises:
            AuthenticationError: nobody's.
        """
