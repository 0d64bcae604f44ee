"""Who a bearer is: from stored tokens, workers' own tokens and an issuer's, remembered for a short time.

Knows no HTTP. A token's text is nowhere kept: what is remembered is found by its digest.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.logs.setup import get_logger
from pallas_common.secrets.tokens import is_token
from pallas_gateway.identity.errors import (
    InvalidTokenError,
    MalformedRecordError,
    MissingTokenError,
)
from pallas_gateway.identity.gcra import Rates
from pallas_gateway.identity.grants import VERBS, Grant
from pallas_gateway.identity.lookups import Lookups
from pallas_gateway.identity.principal import SESSION, Principal
from pallas_gateway.identity.sources import deleted_agents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pallas_gateway.identity.in_flight import InFlight
    from pallas_gateway.identity.sources import AgentKey, Issuer, StoredTokens, WorkerTokens

REMEMBERED = 30.0
"""Seconds that a principal is remembered; a change of its token counts earlier, see `recheck`."""
UNKNOWN_REMEMBERED = 5.0
"""Seconds that it is remembered that nobody has a token."""
MOST_KNOWN = 10_000
MOST_UNKNOWN = 10_000
LOOK_INTERVAL = 1.0
"""Seconds between two looks whether another process has changed tokens, and whether one has expired."""
TOUCH_INTERVAL = 30.0
"""Seconds between two notes of when tokens were used."""
REFETCH_INTERVAL = 1.0
"""Seconds between two questions to the supervisor for workers' tokens, however many unknown ones come."""
WRONG_PER_MINUTE = 60
"""Unknown tokens from one address; beyond that, what comes from there is looked up more slowly."""
SLOW = 0.1
"""Seconds that such a look-up waits."""

ANYBODY = Principal(
    id="anybody",
    name="anybody on this machine",
    role="human",
    grants=tuple(Grant(verb, "*") for verb in VERBS if verb != "approve"),
)
"""With `auth: none`: whoever brings no token may everything but approve."""

_log = get_logger("pallas.gateway.identity")


class _Known(NamedTuple):
    principal: Principal
    until: float
    """On the monotonic clock."""


class Principals:
    """Those who are known.

    Args:
        anybody: who brings no token is let in, as `ANYBODY`.
        monotonic, clock: seconds, of a clock that never goes back and since the epoch.
    """

    def __init__(
        self,
        stored: StoredTokens,
        workers: WorkerTokens,
        in_flight: InFlight,
        *,
        issuer: Issuer | None = None,
        anybody: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stored = stored
        self._workers = workers
        self._in_flight = in_flight
        self._issuer = issuer
        self._anybody = anybody
        self._monotonic = monotonic
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._unknown: OrderedDict[str, float] = OrderedDict()
        self._lookups = Lookups(stored)
        self._slow_lookups = Lookups(stored, SLOW)
        self._wrong = Rates(WRONG_PER_MINUTE)
        self._changes = 0
        self._revision: int | None = None
        self._used: dict[str, float] = {}
        self._observers: list[Callable[[str], None]] = []
        self._gone_observers: list[Callable[[AgentKey, str], None]] = []
        self._recheckers: list[Callable[[], Awaitable[None]]] = []
        self._refetched = -REFETCH_INTERVAL
        self._refetching: asyncio.Task[None] | None = None
        self._failing = False

    def on_revoked(self, observer: Callable[[str], None]) -> None:
        """Call `observer` with the id of each principal whose token counts no more, or whose grants changed.

        What it had under way has been ended by then.
        """
        self._observers.append(observer)

    def on_gone(self, observer: Callable[[AgentKey, str], None]) -> None:
        """Call `observer` with the agent and the id of each token that is revoked because its agent is no more."""
        self._gone_observers.append(observer)

    def on_recheck(self, rechecker: Callable[[], Awaitable[None]]) -> None:
        """Whenever `recheck` is asked, let `rechecker` do for other credentials, as sessions, what it does for tokens.

        It may raise what the store raises.
        """
        self._recheckers.append(rechecker)

    async def of(self, token: str | None, address: str = "") -> Principal:
        """Who brings this token.

        Args:
            token: as `bearer_token` read it; None for a request without.
            address: from where it comes, for the bound of unknown tokens.

        Raises:
            AuthenticationError: nobody who is known; the types in `errors` say how.
        """
        if token is None:
            if self._anybody:
                return ANYBODY
            raise MissingTokenError("a bearer token is needed: send `Authorization: Bearer <token>`")
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        known = self._known.get(digest)
        now = self._monotonic()
        if known is None or known.until <= now:
            principal = await self._find(token, digest, address)
        else:
            principal = known.principal
        if self._is_over(principal):
            raise InvalidTokenError("this token has expired")
        self._used[principal.id] = 0.0  # the time is set when it is written
        return principal

    async def of_digest(self, digest: str) -> Principal:
        """Whose token it is of which that is stored: no worker's and no issuer's.

        Raises:
            AuthenticationError: nobody's who is known.
        """
        known = self._known.get(digest)
        now = self._monotonic()
        if known is None or known.until <= now:
            changes = self._changes
            principal = await self._look_up(digest, "")
            if changes == self._changes:
                _remember(self._known, digest, _Known(principal, now + REMEMBERED), MOST_KNOWN)
        else:
            principal = known.principal
        if self._is_over(principal):
            raise InvalidTokenError("this token has expired")
        self._used[principal.id] = 0.0
        return principal

    async def _find(self, token: str, digest: str, address: str) -> Principal:
        now = self._monotonic()
        changes = self._changes
        if (since := self._unknown.get(digest)) is not None and now - since < UNKNOWN_REMEMBERED:
            raise _nobodys()
        if self._issuer is not None and self._issuer.recognises(token):
            principal = replace(await self._issuer.principal(token), credential=digest)
        elif not is_token(token):
            raise InvalidTokenError("this is no token that was made here: part of it is missing, or mistyped")
        elif (worker := self._workers.find(digest)) is not None:
            return replace(worker, credential=digest)  # the directory remembers it, and forgets it at once
        else:
            try:
                principal = await self._look_up(digest, address)
            except InvalidTokenError:
                if (worker := await self._newer_worker(token, digest)) is not None:
                    return replace(worker, credential=digest)
                self._wrong.take(address, now)
                _remember(self._unknown, digest, now, MOST_UNKNOWN)
                raise
        if changes == self._changes:  # else what was read may be what was before
            _remember(self._known, digest, _Known(principal, now + REMEMBERED), MOST_KNOWN)
        return principal

    async def _look_up(self, digest: str, address: str) -> Principal:
        is_flood = self._wrong.wait(address, self._monotonic()) > 0
        found = await (self._slow_lookups if is_flood else self._lookups).find(digest)
        if isinstance(found, MalformedRecordError):
            _log.error(f"the record of token {found.record} cannot be used: {found.problem}")
            raise MalformedRecordError(found.record, found.problem)
        if found is None or not hmac.compare_digest(found.digest, digest):
            raise _nobodys()
        if found.revoked:
            raise InvalidTokenError("this token was revoked")
        return replace(found.principal, credential=digest)

    async def _newer_worker(self, token: str, digest: str) -> Principal | None:
        """Of a worker that has started since the supervisor was asked."""
        if not token.startswith("plls_agent_"):
            return None
        if self._refetching is None:
            if self._monotonic() - self._refetched < REFETCH_INTERVAL:
                return None
            self._refetching = asyncio.create_task(self._workers.refetch(), name="ask for workers' tokens")
            self._refetching.add_done_callback(self._have_refetched)
        await asyncio.shield(self._refetching)
        return self._workers.find(digest)

    def _have_refetched(self, task: asyncio.Task[None]) -> None:
        self._refetching = None
        self._refetched = self._monotonic()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error(f"workers' tokens could not be asked for: {error!r}")

    async def recheck(self) -> None:
        """Tokens have changed: forget what is remembered, and end what was asked with those that count no more.

        It raises what the store raises; nothing is remembered any more all the same.
        """
        self._forget()
        own = [
            each
            for each in self._in_flight.principals()
            if ":" not in each.id and each.credential and not each.credential.startswith(SESSION)
        ]
        found = await self._stored.find([each.credential for each in own]) if own else {}
        for principal in own:
            now = found.get(principal.credential)
            if now is None or isinstance(now, MalformedRecordError) or now.revoked:
                self._end(principal, "revoked")
            elif replace(now.principal, expires=None) != replace(principal, expires=None):
                self._end(principal, "changed")
            elif now.principal.expires != principal.expires and self._is_over(now.principal):
                self._end(principal, "replaced")  # without a grace; to expire by itself ends nothing
            else:
                self._in_flight.update(replace(now.principal, credential=principal.credential))
        for recheck in self._recheckers:
            await recheck()

    def _is_over(self, principal: Principal) -> bool:
        return principal.expires is not None and principal.expires <= self._clock()

    def _forget(self) -> None:
        self._changes += 1
        self._known.clear()
        self._unknown.clear()

    def _end(self, principal: Principal, why: str) -> None:
        ended = self._in_flight.end(principal)
        _log.info(f"{principal.id} is {why}: {ended} of its requests and streams are ended")
        if not principal.credential.startswith(SESSION):  # with a browser's session, its token does not end
            for observer in self._observers:
                observer(principal.id)

    async def agents_deleted(self, *agents: AgentKey) -> None:
        """Agents are no more: nor are their tokens. It raises what the store raises."""
        for agent, token in await self._stored.revoke_agents(agents):
            for observer in self._gone_observers:
                observer(agent, token)
        await self.recheck()

    async def keep_agents(self, declared: Mapping[str, str | None]) -> None:
        """Revoke the tokens of resources' agents that were deleted while nobody looked.

        It raises what the store raises.

        Args:
            declared: the name of each agent that there is, whether it can be used or not, with the uid of its resource;
                None where nobody can tell which one it is.
        """
        if gone := deleted_agents(await self._stored.agents(), declared):
            names = ", ".join(sorted(each.name for each in gone))
            _log.info(f"tokens of agents that are no more are revoked: {names}")
            await self.agents_deleted(*gone)

    async def watch(self) -> None:
        """See for ever to what time and other processes change."""
        touched = self._monotonic()
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            await self.look()
            if self._monotonic() - touched >= TOUCH_INTERVAL:
                touched = self._monotonic()
                await self.touch()

    async def look(self) -> None:
        """End what was asked with tokens of workers that are gone; notice what other processes have changed.

        Expiry ends nothing that is under way: an issuer's token may count for minutes, and a turn take longer. Streams
        without an end see to it themselves.
        """
        for principal in self._in_flight.principals():
            if principal.id.startswith("worker:") and self._workers.find(principal.credential) != principal:
                self._end(principal, "of a worker that is gone, or that may something else now")
        try:
            revision = await self._stored.revision()
            if self._revision not in (None, revision):
                await self.recheck()
            self._revision = revision
        except Exception as error:  # noqa: BLE001 - whatever the store raises, the look after it may go well
            if not self._failing:
                _log.warning(f"the store does not say whether tokens have changed: {error}")
            self._failing = True
        else:
            self._failing = False

    async def touch(self) -> None:
        """Note which tokens were used since the last time."""
        now = self._clock()
        used = dict.fromkeys((each for each in self._used if ":" not in each and each != ANYBODY.id), now)
        self._used.clear()
        if used:
            try:
                await self._stored.touch(used)
            except Exception as error:  # noqa: BLE001 - nobody is kept out for that
                _log.debug(f"the last use of tokens is not noted: {error}")


def _remember[T](known: OrderedDict[str, T], digest: str, what: T, most: int) -> None:
    known[digest] = what
    known.move_to_end(digest)
    if len(known) > most:
        known.popitem(last=False)


def _nobodys() -> InvalidTokenError:
    return InvalidTokenError("nobody has this token: it is unknown, or was revoked")
