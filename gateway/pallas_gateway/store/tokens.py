"""The rows of tokens: made, found by their digest, listed, revoked, rotated, forgotten.

Each function works on a connection, inside of a transaction that the caller has begun: `store.write(functools.partial(
tokens.revoke, tenant=…, token=…))`. Knows no request and no text of a token but where one is made.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, delete, insert, or_, select, update

from pallas_common.secrets.tokens import new_token, token_digest
from pallas_gateway.identity.grants import Grant, parse_grant
from pallas_gateway.store.errors import MalformedTokenError
from pallas_gateway.store.revisions import count_change
from pallas_gateway.store.tables import TOKENS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from pallas_gateway.identity.principal import Role

TOPIC = "tokens"
"""Whose counter of `revisions.py` says that a token was made, revoked or rotated."""

LAST_USED_INTERVAL = dt.timedelta(minutes=1)
"""How exact the time of the last use is."""

KEPT = dt.timedelta(days=90)
"""How long what was revoked, or has expired, can still be looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, without its text: that is known to who has it."""

    id: str
    tenant: str
    name: str
    role: Role
    agent: str | None
    """Whose token it is, where the role is `agent`."""
    agent_uid: str | None
    """Of the resource that the agent was then; None for one of `agents.yaml`."""
    grants: tuple[Grant, ...]
    digest: str = field(repr=False)
    created: dt.datetime
    created_by: str | None = None
    expires: dt.datetime | None = None
    revoked: dt.datetime | None = None
    last_used: dt.datetime | None = None
    rotated_from: str | None = None
    subject: str = ""
    """The id of the first token of its chain of rotations; its own where it was not rotated."""

    def counts(self, now: dt.datetime) -> bool:
        """Whether it is accepted: neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class NewToken(NamedTuple):
    """A token with its text, which is not to be had again."""

    token: Token
    text: str

    def __repr__(self) -> str:
        """Without the text."""
        return f"NewToken({self.token!r})"


def now() -> dt.datetime:
    """The time, as rows have it."""
    return dt.datetime.now(dt.UTC)


def create(
    connection: Connection,
    *,
    tenant: str,
    name: str,
    role: Role,
    agent: str | None = None,
    agent_uid: str | None = None,
    grants: Iterable[Grant] = (),
    expires: dt.datetime | None = None,
    created_by: str | None = None,
    rotated_from: str | None = None,
    subject: str | None = None,
) -> NewToken:
    """Make a token. What may stand in it was looked at before; without a `subject` it is its own."""
    text = new_token(role)
    id_ = f"tok_{secrets.token_hex(8)}"
    token = Token(
        id=id_,
        tenant=tenant,
        name=name,
        role=role,
        agent=agent,
        agent_uid=agent_uid,
        grants=tuple(grants),
        digest=token_digest(text),
        created=now(),
        created_by=created_by,
        expires=expires,
        rotated_from=rotated_from,
        subject=subject or id_,
    )
    connection.execute(
        insert(TOKENS).values(
            id=token.id,
            tenant=token.tenant,
            name=token.name,
            role=token.role,
            agent=token.agent,
            agent_uid=token.agent_uid,
            grants=json.dumps([str(grant) for grant in token.grants]),
            digest=token.digest,
            created=token.created,
            created_by=token.created_by,
            expires=token.expires,
            rotated_from=token.rotated_from,
            subject=token.subject,
        )
    )
    count_change(connection, tenant, TOPIC)
    return NewToken(token, text)


def by_digest(connection: Connection, digest: str) -> Token | None:
    """The token of which that is stored, also one that does not count any more: `Token.counts`.

    Raises:
        MalformedTokenError: the row is none of a token.
    """
    row = connection.execute(select(TOKENS).where(TOKENS.c.digest == digest)).one_or_none()
    return None if row is None else _token(row)


def by_digests(connection: Connection, digests: Collection[str]) -> dict[str, Token | MalformedTokenError]:
    """The tokens of which those are stored, by digest, also those that do not count any more."""
    found: dict[str, Token | MalformedTokenError] = {}
    for row in connection.execute(select(TOKENS).where(TOKENS.c.digest.in_(digests))):
        try:
            found[row.digest] = _token(row)
        except MalformedTokenError as error:
            found[row.digest] = error
    return found


def by_id(connection: Connection, tenant: str, token: str) -> Token | None:
    """The token of that id.

    Raises:
        MalformedTokenError: the row is none of a token.
    """
    row = connection.execute(select(TOKENS).where(_is(tenant, token))).one_or_none()
    return None if row is None else _token(row)


class Listed(NamedTuple):
    """Tokens in the order in which they were made, and the ids of those whose rows are malformed."""

    tokens: Sequence[Token]
    malformed: Sequence[str]


def listed(connection: Connection, tenant: str, *, every: bool = False) -> Listed:
    """A tenant's tokens; with `every`, those as well that were revoked or have expired."""
    query = select(TOKENS).where(TOKENS.c.tenant == tenant).order_by(TOKENS.c.created, TOKENS.c.id)
    if not every:
        query = query.where(_counts(now()))
    tokens, malformed = [], []
    for row in connection.execute(query):
        try:
            tokens.append(_token(row))
        except MalformedTokenError as error:
            malformed.append(error.token)
    return Listed(tokens, malformed)


def revoke(connection: Connection, *, tenant: str, token: str) -> bool:
    """Revoke a token from now on; whether there was one of that id. One that is revoked stays as it is."""
    changed = connection.execute(
        update(TOKENS).where(_is(tenant, token), TOKENS.c.revoked.is_(None)).values(revoked=now())
    ).rowcount
    if changed:
        count_change(connection, tenant, TOPIC)
        return True
    return connection.execute(select(TOKENS.c.id).where(_is(tenant, token))).one_or_none() is not None


def rotate(
    connection: Connection,
    *,
    tenant: str,
    token: str,
    grace: dt.timedelta = dt.timedelta(),
    created_by: str | None = None,
) -> NewToken | None:
    """Make one like it in its place; None if none of that id counts.

    Args:
        connection: within a transaction.
        tenant: whose it is.
        token: the id of the old one.
        grace: how long the old one counts beside the new one.
        created_by: who asked for it.

    Raises:
        MalformedTokenError: the row is none of a token.
    """
    moment = now()
    # In PostgreSQL a second one that rotates the same token waits, and finds it replaced.
    query = select(TOKENS).where(_is(tenant, token), _counts(moment)).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    old = _token(row)
    end: Mapping[str, dt.datetime] = {"revoked": moment}
    if grace:
        end = {"expires": min(filter(None, (old.expires, moment + grace)))}
    connection.execute(update(TOKENS).where(_is(tenant, token)).values(**end))
    lasting = None if old.expires is None else old.expires - old.created
    return create(
        connection,
        tenant=tenant,
        name=old.name,
        role=old.role,
        agent=old.agent,
        agent_uid=old.agent_uid,
        grants=old.grants,
        expires=None if lasting is None else moment + lasting,
        created_by=created_by,
        rotated_from=old.id,
        subject=old.subject,
    )


def revoke_all_of_agent(connection: Connection, *, tenant: str, agent: str, uid: str | None) -> list[str]:
    """Revoke the tokens of an agent that was deleted; the ids of those that were.

    Args:
        connection: within a transaction.
        tenant: whose it is.
        agent: its name.
        uid: of the resource that it was; None for one of `agents.yaml`. Those of another agent, which has or had the
            same name, stay.
    """
    same = TOKENS.c.agent_uid.is_(None) if uid is None else TOKENS.c.agent_uid == uid
    wanted = and_(TOKENS.c.tenant == tenant, TOKENS.c.agent == agent, same, TOKENS.c.revoked.is_(None))
    ids = sorted(connection.execute(select(TOKENS.c.id).where(wanted)).scalars())
    if ids:
        connection.execute(update(TOKENS).where(wanted).values(revoked=now()))
        count_change(connection, tenant, TOPIC)
    return ids


def revoke_made_by(connection: Connection, *, tenant: str, maker: str) -> int:
    """Revoke the tokens in whose rows that stands as what made them; how many they were."""
    wanted = and_(TOKENS.c.tenant == tenant, TOKENS.c.created_by == maker, TOKENS.c.revoked.is_(None))
    changed = connection.execute(update(TOKENS).where(wanted).values(revoked=now())).rowcount
    if changed:
        count_change(connection, tenant, TOPIC)
    return changed


def agents(connection: Connection, tenant: str) -> set[tuple[str, str | None]]:
    """The agents, name and uid, for which there are tokens that are not revoked."""
    wanted = and_(TOKENS.c.tenant == tenant, TOKENS.c.agent.is_not(None), TOKENS.c.revoked.is_(None))
    rows = connection.execute(select(TOKENS.c.agent, TOKENS.c.agent_uid).where(wanted).distinct())
    return {(row.agent, row.agent_uid) for row in rows}


def touch(connection: Connection, used: Mapping[str, dt.datetime]) -> None:
    """Note when tokens were last used, by their ids; not more exactly than `LAST_USED_INTERVAL`."""
    for token, moment in used.items():
        connection.execute(
            update(TOKENS)
            .where(
                TOKENS.c.id == token,
                or_(TOKENS.c.last_used.is_(None), TOKENS.c.last_used <= moment - LAST_USED_INTERVAL),
            )
            .values(last_used=moment)
        )


def forget_old(connection: Connection, kept: dt.timedelta = KEPT) -> int:
    """Delete the rows of tokens that have not counted for so long; how many they were."""
    before = now() - kept
    return connection.execute(
        delete(TOKENS).where(or_(TOKENS.c.revoked < before, TOKENS.c.expires < before))
    ).rowcount


def _is(tenant: str, token: str) -> ColumnElement[bool]:
    return and_(TOKENS.c.tenant == tenant, TOKENS.c.id == token)


def _counts(moment: dt.datetime) -> ColumnElement[bool]:
    return and_(TOKENS.c.revoked.is_(None), or_(TOKENS.c.expires.is_(None), TOKENS.c.expires > moment))


def _token(row: Row[tuple[object, ...]]) -> Token:
    """The row as a token. A database can be written by others: nothing that is not a token's counts as one."""
    try:
        return Token(
            id=row.id,
            tenant=row.tenant,
            name=row.name,
            role=_role(row.role, row.agent),
            agent=row.agent,
            agent_uid=row.agent_uid,
            grants=_grants(row.grants),
            digest=row.digest,
            created=_moment(row.created),
            created_by=row.created_by,
            expires=_optional_moment(row.expires),
            revoked=_optional_moment(row.revoked),
            last_used=_optional_moment(row.last_used),
            rotated_from=row.rotated_from,
            subject=row.subject or row.id,
        )
    except (ValueError, TypeError) as error:
        raise MalformedTokenError(row.id) from error


def _role(role: object, agent: object) -> Role:
    if role == "human" and agent is None:
        return "human"
    if role == "agent" and isinstance(agent, str) and agent:
        return "agent"
    raise ValueError("no such role")


def _grants(text: str) -> tuple[Grant, ...]:
    grants = json.loads(text)
    if not isinstance(grants, list) or not all(isinstance(grant, str) for grant in grants):
        raise TypeError("grants are a list of texts")
    return tuple(map(parse_grant, grants))


def _moment(value: object) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise TypeError("no time")
    return value


def _optional_moment(value: object) -> dt.datetime | None:
    return None if value is None else _moment(value)
