"""Tokens in memory in place of those of the store, of the supervisor and of an issuer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_common.secrets.tokens import new_token, token_digest
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.principal import Principal
from pallas_gateway.identity.sources import AgentKey, StoredSession, StoredToken

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pallas_gateway.identity.errors import MalformedRecordError


class TokensInMemory:
    """`StoredTokens`, with what was asked of it."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredToken | MalformedRecordError] = {}
        self.keys: dict[str, AgentKey] = {}
        self.asked: list[Sequence[str]] = []
        self.touched: dict[str, float] = {}
        self.changes = 0
        self.failure: Exception | None = None

    def make(
        self,
        name: str,
        *grants: str,
        agent: str | None = None,
        uid: str | None = None,
        expires: float | None = None,
    ) -> str:
        """The text of a new token."""
        text = new_token("human" if agent is None else "agent")
        principal = Principal(
            id=name,
            name=name.title(),
            role="human" if agent is None else "agent",
            agent=agent,
            grants=tuple(map(parse_grant, grants)),
            expires=expires,
        )
        self.put(text, StoredToken(digest=token_digest(text), principal=principal))
        if agent is not None:
            self.keys[token_digest(text)] = AgentKey(agent, uid)
        return text

    def put(self, text: str, row: StoredToken | MalformedRecordError) -> None:
        """Have this for that token."""
        self.rows[token_digest(text)] = row
        self.changes += 1

    def revoke(self, text: str) -> None:
        """Somebody revokes it."""
        row = self.rows[token_digest(text)]
        assert isinstance(row, StoredToken)
        self.put(text, StoredToken(digest=row.digest, principal=row.principal, revoked=True))

    async def find(self, digests: Sequence[str]) -> Mapping[str, StoredToken | MalformedRecordError]:
        if self.failure is not None:
            raise self.failure
        self.asked.append(digests)
        return {digest: self.rows[digest] for digest in digests if digest in self.rows}

    async def revision(self) -> int:
        if self.failure is not None:
            raise self.failure
        return self.changes

    async def touch(self, used: Mapping[str, float]) -> None:
        self.touched.update(used)

    async def revoke_agents(self, agents: Collection[AgentKey]) -> Sequence[tuple[AgentKey, str]]:
        revoked = []
        for digest, key in self.keys.items():
            row = self.rows[digest]
            if key in agents and isinstance(row, StoredToken) and not row.revoked:
                revoked.append((key, row.principal.id))
                self.rows[digest] = StoredToken(digest=digest, principal=row.principal, revoked=True)
                self.changes += 1
        return revoked

    async def agents(self) -> Collection[AgentKey]:
        return {
            key
            for digest, key in self.keys.items()
            if isinstance(row := self.rows[digest], StoredToken) and not row.revoked
        }


class WorkersInMemory:
    """`WorkerTokens`: `known` are those that were told, `there` those that will be told when it asks anew."""

    def __init__(self) -> None:
        self.known: dict[str, Principal] = {}
        self.there: dict[str, Principal] = {}
        self.refetched = 0

    def make(self, agent: str, generation: int, *grants: str, concurrent: int = 2) -> str:
        """The text of the token of a worker that starts; it is not told yet."""
        text = new_token("agent")
        self.there[token_digest(text)] = Principal(
            id=f"worker:{agent}/{generation}",
            name=agent,
            role="agent",
            agent=agent,
            grants=tuple(map(parse_grant, grants)),
            concurrent=concurrent,
        )
        return text

    def find(self, digest: str) -> Principal | None:
        return self.known.get(digest)

    async def refetch(self) -> None:
        self.refetched += 1
        self.known = dict(self.there)


class SessionsInMemory:
    """`StoredSessions`, with what was asked of it; a session that is closed counts as a change of `tokens`."""

    def __init__(self, tokens: TokensInMemory) -> None:
        self.tokens = tokens
        self.rows: dict[str, StoredSession] = {}
        self.asked: list[Sequence[str]] = []
        self.touched: dict[str, float] = {}
        self.failure: Exception | None = None

    def _answer(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def find(self, digests: Sequence[str]) -> Mapping[str, StoredSession]:
        self._answer()
        self.asked.append(digests)
        return {digest: self.rows[digest] for digest in digests if digest in self.rows}

    async def open(self, session: StoredSession, most: int) -> None:
        self._answer()
        self.rows[session.digest] = session

    async def close(self, digest: str) -> bool:
        self._answer()
        self.tokens.changes += 1
        return self.rows.pop(digest, None) is not None

    async def touch(self, used: Mapping[str, float]) -> None:
        self._answer()
        self.touched.update(used)
        for digest in used.keys() & self.rows.keys():
            self.rows[digest] = replace(self.rows[digest], last_used=used[digest])

    async def forget(self, now: float, idle: float) -> int:
        return 0
