"""`/api/v1/tokens`: who has the grant `*` makes, lists, revokes and rotates tokens.

Each change is in the audit before it is answered, and counts at once. The text of a token is in the answer that makes
it and nowhere else.
"""

from __future__ import annotations

import datetime as dt
import re
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import JSONResponse

from pallas_common.logs.setup import get_logger
from pallas_common.problems import quoted
from pallas_common.times import rfc3339
from pallas_gateway.access.predicate import may
from pallas_gateway.http.errors import HEADERS, ApiError
from pallas_gateway.http.openapi.operations.administration import TOKENS
from pallas_gateway.http.openapi.routes import routes_of
from pallas_gateway.http.requests import admitted_of, read_json
from pallas_gateway.identity.grants import ADMINISTRATION, Grant, parse_grant
from pallas_gateway.identity.principal import TENANT
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_gateway.store import tokens
from pallas_gateway.store.deployment.operator import follow_rotation, is_operators
from pallas_gateway.store.errors import MalformedTokenError, StoreError
from pallas_registry.reading.rules import agent_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Connection
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from pallas_gateway.access.audit import Audit, Entry
    from pallas_gateway.identity.principal import Principal, Role
    from pallas_gateway.identity.sources import AgentKey
    from pallas_gateway.store.database import Store

_log = get_logger("pallas.gateway.http")

LONGEST_NAME = 100
MOST_GRANTS = 200
LONGEST_LIFE = dt.timedelta(days=3660)
LONGEST_GRACE = dt.timedelta(days=90)
LONGEST_BODY = 128 * 1024

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class TokenRoutes:
    """The routes, for the application's table.

    Args:
        store: where tokens are.
        audit: where each change is written down.
        changed: makes a change count for all that is open; called after each.
        find_agent: the agent of a name; None if there is none.
        directory: the state directory, with the operator's token.
    """

    def __init__(
        self,
        store: Store,
        audit: Audit,
        *,
        changed: Callable[[], Awaitable[object]],
        find_agent: Callable[[str], Awaitable[AgentKey | None]],
        directory: Path,
    ) -> None:
        self._store = store
        self._audit = audit
        self._changed = changed
        self._find_agent = find_agent
        self._directory = directory

    def routes(self) -> list[Route]:
        """With their whole paths."""
        return routes_of(
            TOKENS,
            {
                "listTokens": self.list,
                "createToken": self.create,
                "revokeToken": self.revoke,
                "rotateToken": self.rotate,
            },
        )

    async def list(self, request: Request) -> Response:
        """`{"tokens": […], "malformed": [ids]}`; with `?all=true` those as well that do not count any more."""
        _administrator(request)
        every = _flag(request.query_params.get("all", "false"), "all")
        found = await self._reading(partial(tokens.listed, tenant=TENANT, every=every))
        return _answer(
            {"tokens": [_document(token) for token in found.tokens], "malformed": list(found.malformed)}
        )

    async def create(self, request: Request) -> Response:
        """Make one: 201, with its text."""
        with self._doing(request, "token.create", "token") as (principal, entry):
            fields = await self._fields(await read_json(request, LONGEST_BODY))
            entry.target = f"token/{fields['name']}"
            new = await self._writing(partial(tokens.create, created_by=principal.id, **fields))
            entry.target = f"token/{new.token.id}"
        await self._tell()
        return _answer({**_document(new.token), "token": new.text}, 201)

    async def revoke(self, request: Request) -> Response:
        """Revoke one, at once: what was asked with it and is under way ends. The operator's takes `?force=true`."""
        token = request.path_params["token"]
        with self._doing(request, "token.revoke", f"token/{token}", frees=True):
            force = _flag(request.query_params.get("force", "false"), "force")
            if not await self._writing(partial(self._revoke, token=token, force=force), frees=True):
                raise _no_such_token(token)
        await self._tell()
        return _answer({"id": token, "revoked": True})

    async def rotate(self, request: Request) -> Response:
        """Make one like it in its place, 201 with its text; the old one counts for `grace` more, else no longer.

        `old_expires` is when the old one ends, null where it counts no longer.
        """
        token = request.path_params["token"]
        with self._doing(request, "token.rotate", f"token/{token}") as (principal, _):
            body = await read_json(request, LONGEST_BODY)
            _only(body, {"grace"})
            grace = _duration(body.get("grace", "0s"), "grace", LONGEST_GRACE)
            rotated = await self._writing(
                partial(self._rotate, token=token, grace=grace, created_by=principal.id)
            )
            if rotated is None:
                raise _no_such_token(token)
        await self._tell()
        new, old = rotated
        ends = rfc3339(old.expires) if old.revoked is None and old.expires is not None else None
        return _answer({**_document(new.token), "token": new.text, "old_expires": ends}, 201)

    @contextmanager
    def _doing(
        self, request: Request, action: str, target: str, *, frees: bool = False
    ) -> Iterator[tuple[Principal, Entry]]:
        """What only an administrator may do; who is refused is in the audit as well."""
        admitted = admitted_of(request)
        principal, id_ = admitted.principal, admitted.request_id
        with self._audit.doing(principal, action, target, request_id=id_, frees=frees) as entry:
            yield _administrator(request), entry

    async def _tell(self) -> None:
        """Make a change count that is in the store: whether that goes on answering is nothing to who asked for it."""
        try:
            await self._changed()
        except StoreError as error:
            _log.warning(f"what is open is looked at again when the store answers: {error}")

    def _rotate(
        self, connection: Connection, token: str, grace: dt.timedelta, created_by: str
    ) -> tuple[tokens.NewToken, tokens.Token] | None:
        """The new one, and the old one as it is now."""
        new = tokens.rotate(connection, tenant=TENANT, token=token, grace=grace, created_by=created_by)
        old = None if new is None else tokens.by_id(connection, TENANT, token)
        if new is None or old is None:
            return None
        follow_rotation(self._directory, old, new.text)
        return new, old

    def _revoke(self, connection: Connection, token: str, force: bool) -> bool:
        found = None
        with suppress(MalformedTokenError):  # which can be revoked all the same
            found = tokens.by_id(connection, TENANT, token)
        is_last_key = found is not None and found.revoked is None and is_operators(self._directory, found)
        if is_last_key and not force:
            raise ApiError(
                409,
                "conflict",
                f"{quoted(token)} is the operator's token, with which pallasctl asks: `pallasctl token rotate {token}` "
                "puts a new one in its place; `--force` revokes it, and then `pallasctl gateway restart` makes one",
            )
        return tokens.revoke(connection, tenant=TENANT, token=token)

    async def _fields(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a new token is to have, of a request that is not trusted."""
        _only(body, {"name", "role", "agent", "grants", "tenant", "expires"})
        name = body.get("name")
        if (
            not isinstance(name, str)
            or not name.strip()
            or len(name) > LONGEST_NAME
            or not name.isprintable()
        ):
            raise _invalid(
                "name", f"is one printable line of 1 to {LONGEST_NAME} characters that says whose it is"
            )
        role = body.get("role")
        if role not in ("human", "agent"):
            raise _invalid("role", "write `human` or `agent`")
        if body.get("tenant", TENANT) != TENANT:
            raise _invalid("tenant", f"there is only the tenant `{TENANT}` until now")
        agent = await self._agent(cast("Role", role), body.get("agent"))
        return {
            "tenant": TENANT,
            "name": name.strip(),
            "role": role,
            "agent": agent.name if agent is not None else None,
            "agent_uid": agent.uid if agent is not None else None,
            "grants": _grants(cast("Role", role), body.get("grants", [])),
            "expires": _expiry(body.get("expires")),
        }

    async def _agent(self, role: Role, name: object) -> AgentKey | None:
        if role == "human":
            if name is not None:
                raise _invalid(
                    "agent",
                    "a human's token belongs to no agent: leave it out, or make a token with the role `agent`",
                )
            return None
        if not isinstance(name, str):
            raise _invalid("agent", "say which agent's token it is")
        if (complaint := agent_name(name)) is not None:
            raise _invalid("agent", f"{quoted(name)} {complaint.message}: {complaint.remedy}")
        found = await self._find_agent(name)
        if found is None:
            raise _invalid("agent", f"there is no agent {quoted(name)}")
        return found

    async def _reading[T](self, what: Callable[[Connection], T]) -> T:
        try:
            return await self._store.read(what)
        except StoreError as error:
            raise _unavailable(error) from error

    async def _writing[T](self, what: Callable[[Connection], T], *, frees: bool = False) -> T:
        try:
            return await self._store.write(what, frees=frees)
        except StoreError as error:
            raise _unavailable(error) from error


def _administrator(request: Request) -> Principal:
    principal = admitted_of(request).principal
    if not may(principal, ADMINISTRATION):
        raise InsufficientScopeError(ADMINISTRATION)
    return principal


def _grants(role: Role, given: object) -> tuple[Grant, ...]:
    if not isinstance(given, list) or not all(isinstance(grant, str) for grant in given):
        raise _invalid("grants", 'is a list of texts, such as `["view:agents", "run:agents:jarvis"]`')
    if len(given) > MOST_GRANTS:
        raise _invalid("grants", f"are {MOST_GRANTS} at most; `*` in a name stands for any")
    if role == "human" and not given:
        raise _invalid(
            "grants", "a human's token needs one at least, such as `view:agents`, or `*` for everything"
        )
    found = []
    for text in dict.fromkeys(given):
        try:
            grant = parse_grant(text)
        except ValueError as error:
            raise _invalid("grants", f"{quoted(text)} {error}") from None
        if role == "agent" and (grant.verb, grant.kind) != ("run", "agents"):
            raise _invalid(
                "grants", f"{quoted(text)}: an agent's token may `run:agents:NAME` and nothing else"
            )
        found.append(grant)
    return tuple(found)


def _expiry(given: object) -> dt.datetime | None:
    """`30d`, `2027-01-31` (its end in UTC), `2027-01-31T12:00:00Z`; None for never."""
    if given is None:
        return None
    now = tokens.now()
    wrong = _invalid(
        "expires",
        "write a duration such as `30d` or `12h`, or a time such as `2030-01-31` or `2030-01-31T12:00:00Z`",
    )
    if not isinstance(given, str) or len(given) > LONGEST_NAME:
        raise wrong
    if given and _DURATION.fullmatch(given):
        moment = now + _duration(given, "expires", LONGEST_LIFE)
    else:
        try:
            moment = dt.datetime.fromisoformat(given)
            if _DATE.fullmatch(given):
                moment = moment.replace(tzinfo=dt.UTC) + dt.timedelta(days=1)
            if moment.tzinfo is None:
                raise _invalid("expires", "needs a time zone, such as the `Z` of `2030-01-31T12:00:00Z`")
            moment = moment.astimezone(dt.UTC)
        except (ValueError, OverflowError):
            raise wrong from None
    if moment <= now:
        raise _invalid("expires", "that is not in the future")
    if moment - now > LONGEST_LIFE:
        raise _invalid("expires", f"is {LONGEST_LIFE.days} days away at most; leave it out for never")
    return moment


def _duration(given: object, field: str, longest: dt.timedelta) -> dt.timedelta:
    match = _DURATION.fullmatch(given) if isinstance(given, str) and given else None
    if match is None:
        raise _invalid(field, "write a duration such as `30d`, `12h` or `1h30m`")
    days, hours, minutes, seconds = map(int, match.groups(default="0"))
    found = dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if found > longest:
        raise _invalid(field, f"is {longest.days} days at most")
    return found


def _flag(text: str, name: str) -> bool:
    if text not in ("true", "false"):
        raise _invalid(name, "is `true` or `false`")
    return text == "true"


def _only(given: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(given.keys() - known):
        raise ApiError(
            422,
            "invalid",
            f"unknown field {quoted(unknown[0])}; there are {', '.join(sorted(known))}",
            field=unknown[0][:LONGEST_NAME],
        )


def _invalid(field: str, message: str) -> ApiError:
    return ApiError(422, "invalid", f"{field}: {message}", field=field)


def _no_such_token(token: str) -> ApiError:
    message = f"there is no token {quoted(token)} that counts; `pallasctl token list` shows their ids"
    return ApiError(404, "not_found", message)


def _unavailable(error: StoreError) -> ApiError:
    if isinstance(error, MalformedTokenError):
        return ApiError(500, "malformed_record", str(error))
    return ApiError(503, "unavailable", str(error))


def _document(token: tokens.Token) -> dict[str, Any]:
    """What is told of a token; never its digest."""

    def moment(at: dt.datetime | None) -> str | None:
        return None if at is None else rfc3339(at)

    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "agent": token.agent,
        "tenant": token.tenant,
        "grants": [str(grant) for grant in token.grants],
        "created": moment(token.created),
        "created_by": token.created_by,
        "expires": moment(token.expires),
        "revoked": moment(token.revoked),
        "last_used": moment(token.last_used),
        "rotated_from": token.rotated_from,
    }


def _answer(document: Mapping[str, Any], status: int = 200) -> Response:
    return JSONResponse(document, status, headers=dict(HEADERS))
