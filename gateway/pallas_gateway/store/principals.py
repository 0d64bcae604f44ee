"""The tokens of the store as principals: what the authentication asks of them."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING

from pallas_gateway.identity.errors import MalformedRecordError
from pallas_gateway.identity.principal import TENANT, Principal
from pallas_gateway.identity.sources import AgentKey, StoredToken
from pallas_gateway.store import tokens
from pallas_gateway.store.errors import MalformedTokenError
from pallas_gateway.store.revisions import revision

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from pallas_gateway.store.database import Store


class TokenRecords:
    """`StoredTokens`: each method raises `StoreError` when the database does not answer."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, digests: Sequence[str]) -> Mapping[str, StoredToken | MalformedRecordError]:
        """Those that there are, by digest, revoked and expired ones included."""
        found = await self._store.read(partial(tokens.by_digests, digests=digests))
        return {digest: _stored(each) for digest, each in found.items()}

    async def revision(self) -> int:
        """Another number after each change of any token, also by another process; not after a use."""
        return await self._store.read(partial(revision, topic=tokens.TOPIC))

    async def touch(self, used: Mapping[str, float]) -> None:
        """Note when tokens were used last: id → seconds since the epoch. A power loss may undo it."""
        moments = {token: dt.datetime.fromtimestamp(seconds, dt.UTC) for token, seconds in used.items()}
        await self._store.write(partial(tokens.touch, used=moments), durable=False)

    async def revoke_agents(self, agents: Collection[AgentKey]) -> Sequence[tuple[AgentKey, str]]:
        """Revoke all tokens of these agents, in one transaction; whose and the ids of those that counted until now."""

        def revoke(connection: Connection) -> list[tuple[AgentKey, str]]:
            return [
                (agent, token)
                for agent in agents
                for token in tokens.revoke_all_of_agent(
                    connection, tenant=TENANT, agent=agent.name, uid=agent.uid
                )
            ]

        return await self._store.write(revoke, frees=True)

    async def agents(self) -> Collection[AgentKey]:
        """The agents for which there are tokens that are not revoked."""
        found = await self._store.read(partial(tokens.agents, tenant=TENANT))
        return {AgentKey(*each) for each in found}

    async def forget_old(self) -> int:
        """Delete the rows of tokens that have not counted for long; how many they were. Once a day is enough."""
        return await self._store.write(tokens.forget_old)


def _stored(found: tokens.Token | MalformedTokenError) -> StoredToken | MalformedRecordError:
    if isinstance(found, MalformedTokenError):
        return MalformedRecordError(found.token, str(found.__cause__))
    principal = Principal(
        id=found.id,
        subject=found.subject,
        name=found.name,
        role=found.role,
        agent=found.agent,
        tenant=found.tenant,
        grants=found.grants,
        expires=None if found.expires is None else found.expires.timestamp(),
    )
    return StoredToken(digest=found.digest, principal=principal, revoked=found.revoked is not None)
