"""Browsers that are logged in: sessions, opened by a person's token or by an issuer, found by their cookie's text.

Knows no HTTP. A session's text is nowhere kept but in its browser; what is stored and remembered is found by its
digest. A session is worth what its token is: it counts as long as that, and what is under way with it ends with that.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pallas_common.logs.setup import get_logger
from pallas_gateway.identity.errors import (
    AuthenticationError,
    AuthenticationUnavailableError,
    InvalidTokenError,
    NotForPeopleError,
)
from pallas_gateway.identity.gcra import Rates
from pallas_gateway.identity.lookups import Lookups
from pallas_gateway.identity.principal import SESSION, Principal
from pallas_gateway.identity.principals import REMEMBERED, SLOW, TOUCH_INTERVAL, WRONG_PER_MINUTE
from pallas_gateway.identity.sources import StoredSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_gateway.identity.in_flight import InFlight
    from pallas_gateway.identity.principals import Principals
    from pallas_gateway.identity.sources import Issued, StoredSessions

IDLE = 24 * 3600.0
"""Seconds without a request after which a session ends: a day, so that who comes back on the next morning goes on."""
LONGEST = 7 * 24 * 3600.0
"""Seconds that a session lasts at most: a cookie that somebody has copied is worth a week, not the token's years."""
LONGEST_ISSUED = 12 * 3600.0
"""The same of one that an issuer opened: somebody's groups may change, and are not asked for again before the next
login. A working day."""
MOST_PER_PRINCIPAL = 50
"""Sessions; the oldest goes. More than anybody's browsers, and few enough that a loop of logins fills no disk."""
MOST_KNOWN = 10_000
FORGET_INTERVAL = 3600.0
"""Seconds between two deletions of what has expired."""

_TEXT = re.compile(r"[A-Za-z0-9_-]{43}")
_log = get_logger("pallas.gateway.identity")


class Opened(NamedTuple):
    """A session that was opened, with its text, which is not to be had again."""

    text: str
    principal: Principal

    def __repr__(self) -> str:
        """Without the text."""
        return f"Opened({self.principal!r})"


class Groups(Protocol):
    """Who somebody is whom an issuer has named."""

    def issued_principal(self, issued: Issued) -> Principal | None:
        """With the grants that its groups have now; None: its issuer counts no more."""


@dataclass(slots=True)
class _Known:
    stored: StoredSession
    until: float
    """On the monotonic clock."""
    last_used: float
    """In seconds since the epoch; the stored one may be older."""


def new_text() -> str:
    """What the cookie of a new session says: 32 random bytes."""
    return secrets.token_urlsafe(32)


def is_text(text: str) -> bool:
    """Whether a cookie's value has the form of one."""
    return _TEXT.fullmatch(text) is not None


def csrf_token(text: str) -> str:
    """What a request that changes something has to say besides the cookie: no page of another site can read it.

    It follows from the session's text and does not lead back to it.
    """
    code = hmac.digest(text.encode(), b"pallas: token against cross-site requests", "sha256")
    return base64.urlsafe_b64encode(code).rstrip(b"=").decode()


class Sessions:
    """Those that are open.

    Args:
        groups: of the issuer, where people may log in by one.
        monotonic, clock: seconds, of a clock that never goes back and since the epoch.
    """

    def __init__(
        self,
        stored: StoredSessions,
        principals: Principals,
        in_flight: InFlight,
        *,
        groups: Groups | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stored = stored
        self._principals = principals
        self._in_flight = in_flight
        self._groups = groups
        self._monotonic = monotonic
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lookups = Lookups(stored)
        self._slow_lookups = Lookups(stored, SLOW)
        self._wrong = Rates(WRONG_PER_MINUTE)
        self._changes = 0
        self._used: dict[str, float] = {}
        principals.on_recheck(self.recheck)

    async def open_with_token(
        self, token: str, address: str = "", admit: Callable[[Principal], object] = lambda _: None
    ) -> Opened:
        """Open a session for who has this token.

        An agent's token opens none: whoever is at a page counts as a person, and an agent that can read its own token
        must not become one. A signed token of the issuer opens none either: who has one logs in by the issuer.

        Args:
            address: from where it comes, for the bound of unknown tokens.
            admit: is told who it is before the session is there, and may raise.

        Raises:
            NotForPeopleError: the token is an agent's, or the issuer's.
            AuthenticationError: nobody's who is known.
        """
        principal = await self._principals.of(token, address)
        if principal.role != "human":
            raise NotForPeopleError("this is an agent's token; people log in with a token of their own")
        if ":" in principal.id or not principal.credential:
            raise NotForPeopleError("this token is an issuer's; log in by the issuer instead")
        admit(principal)
        now = self._clock()
        expires = min(now + LONGEST, principal.expires or float("inf"))
        return await self._open(principal, now, expires, credential=principal.credential)

    async def open_issued(self, issued: Issued) -> Opened:
        """Open a session for whom an issuer has named.

        Raises:
            AuthenticationError: the issuer does not count, or the store does not answer.
        """
        now = self._clock()
        return await self._open(self._issued(issued), now, now + LONGEST_ISSUED, issued=issued)

    async def _open(
        self,
        principal: Principal,
        now: float,
        expires: float,
        *,
        credential: str | None = None,
        issued: Issued | None = None,
    ) -> Opened:
        text = new_text()
        digest = _digest(text)
        session = StoredSession(
            digest=digest, credential=credential, issued=issued, created=now, expires=expires, last_used=now
        )
        try:
            await self._stored.open(session, MOST_PER_PRINCIPAL)
        except Exception as error:
            raise AuthenticationUnavailableError(
                "nobody can log in now, for the store does not answer"
            ) from error
        return Opened(text, replace(principal, credential=SESSION + digest, expires=expires))

    async def find(self, text: str, address: str = "") -> Principal:
        """Who has logged in with the browser whose cookie says this.

        Args:
            address: from where it comes, for the bound of unknown sessions.

        Raises:
            AuthenticationError: nobody who is known, or not any more.
        """
        if not is_text(text):
            raise _ended()
        digest = _digest(text)
        known = self._known.get(digest)
        if known is None or known.until <= self._monotonic():
            known = await self._look_up(digest, address)
        principal = await self._principal(known)
        known.last_used = self._used[digest] = self._clock()
        return principal

    async def _look_up(self, digest: str, address: str) -> _Known:
        now, changes = self._monotonic(), self._changes
        is_flood = self._wrong.wait(address, now) > 0
        stored = await (self._slow_lookups if is_flood else self._lookups).find(digest)
        if stored is None or not hmac.compare_digest(stored.digest, digest):
            self._wrong.take(address, now)
            raise _ended()
        last_used = max(stored.last_used, self._used.get(digest, 0.0))
        known = _Known(stored, now + REMEMBERED, last_used)
        if changes == self._changes:  # else what was read may be what was before
            self._known[digest] = known
            self._known.move_to_end(digest)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return known

    async def _principal(self, known: _Known) -> Principal:
        stored, now = known.stored, self._clock()
        if stored.expires <= now or known.last_used + IDLE <= now:
            raise _ended()
        if stored.credential is not None:
            principal = await self._principals.of_digest(stored.credential)
        elif stored.issued is not None:
            principal = self._issued(stored.issued)
        else:
            raise _ended()
        expires = min(stored.expires, principal.expires or float("inf"))
        return replace(principal, credential=SESSION + stored.digest, expires=expires)

    def _issued(self, issued: Issued) -> Principal:
        principal = None if self._groups is None else self._groups.issued_principal(issued)
        if principal is None:
            raise InvalidTokenError("the issuer of this session counts no more; log in again")
        return principal

    async def close(self, text: str) -> bool:
        """Log out: the session ends, and what is under way with it; whether there was one.

        Raises:
            AuthenticationUnavailableError: the store does not answer.
        """
        if not is_text(text):
            return False
        digest = _digest(text)
        try:
            was_there = await self._stored.close(digest)
        except Exception as error:
            raise AuthenticationUnavailableError(
                "nobody can log out now, for the store does not answer"
            ) from error
        self._forget(digest)
        for principal in list(self._in_flight.principals()):
            if principal.credential == SESSION + digest:
                self._in_flight.end(principal)
        return was_there

    def _forget(self, digest: str) -> None:
        self._changes += 1
        self._known.pop(digest, None)
        self._used.pop(digest, None)

    async def recheck(self) -> None:
        """Tokens or sessions have changed: forget what is remembered, and end what is under way with those that ended.

        It raises what the store raises.
        """
        self._changes += 1
        self._known.clear()
        own = [each for each in self._in_flight.principals() if each.credential.startswith(SESSION)]
        found = await self._stored.find([_digest_of(each) for each in own]) if own else {}
        for principal in own:
            stored = found.get(_digest_of(principal))
            if stored is not None and stored.expires <= self._clock():
                continue  # expiry ends nothing that is under way
            try:
                if stored is None:
                    raise _ended()
                now = await self._principal(_Known(stored, 0.0, self._clock()))
            except AuthenticationUnavailableError:
                raise
            except AuthenticationError:
                now = None
            if now is None or replace(now, expires=None) != replace(principal, expires=None):
                ended = self._in_flight.end(principal)
                _log.info(f"a session of {principal.id} has ended: {ended} of its requests are ended")
            else:
                self._in_flight.update(now)

    async def watch(self) -> None:
        """Note for ever which sessions were used, and forget those that have expired."""
        forgotten = float("-inf")
        while True:
            await asyncio.sleep(TOUCH_INTERVAL)
            await self.touch()
            if self._monotonic() - forgotten >= FORGET_INTERVAL:
                forgotten = self._monotonic()
                try:
                    await self._stored.forget(self._clock(), IDLE)
                except Exception as error:  # noqa: BLE001 - it is tried again, and nobody is kept out for that
                    _log.debug(f"sessions that have expired are not forgotten: {error}")

    async def touch(self) -> None:
        """Note which sessions were used since the last time."""
        used, self._used = self._used, {}
        if used:
            try:
                await self._stored.touch(used)
            except Exception as error:  # noqa: BLE001 - nobody is kept out for that
                _log.debug(f"the last use of sessions is not noted: {error}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest_of(principal: Principal) -> str:
    return principal.credential.removeprefix(SESSION)


def _ended() -> InvalidTokenError:
    return InvalidTokenError("this session has ended, or there was none; log in again")
