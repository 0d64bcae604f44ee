"""Signed tokens of an issuer (OpenID Connect Discovery 1.0, RFC 7517, RFC 7519): whose they are.

Knows the issuer's two documents. While it is away, the keys that it told last count on.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from pallas_common.logs.setup import get_logger
from pallas_gateway.identity.bearer import LONGEST
from pallas_gateway.identity.errors import AuthenticationUnavailableError, InvalidTokenError
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.issuer.documents import FETCH_TIMEOUT, document, trusted_place
from pallas_gateway.identity.principal import Principal
from pallas_gateway.identity.sources import Issued

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pallas_common.protocol.gateway import Oidc
    from pallas_gateway.identity.grants import Grant

KINDS = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "EC",
    "ES384": "EC",
    "ES512": "EC",
    "EdDSA": "OKP",
}
"""Algorithm → the kind of key that it takes: never a shared secret, never none."""

LEEWAY = 30.0
"""Seconds that the issuer's clock may differ from ours."""
MOST_KEYS = 100
SMALLEST_RSA = 2048
"""Bits of a key (NIST SP 800-131A)."""
FRESH = 600.0
"""Seconds after which the keys are asked for again."""
KEPT = 24 * 3600.0
"""Seconds that the keys count while the issuer is away."""
REFETCH_INTERVAL = 10.0
"""Seconds between two questions to the issuer, whatever comes: unknown keys, or its failure."""
LONGEST_SUBJECT = 255
"""Characters (OpenID Connect Core 1.0, section 2)."""

_log = get_logger("pallas.gateway.oidc")


class _Key(NamedTuple):
    """A public key of the issuer, and what the issuer says of it (RFC 7517, section 4)."""

    key: Any
    kind: str
    name: object
    algorithm: object


class Places(NamedTuple):
    """Where people log in, and where the gateway asks who has (OpenID Connect Discovery 1.0, section 3)."""

    authorization: str
    token: str
    authentication: tuple[str, ...]
    """How a client may show its secret there."""


class OidcIssuer:
    """The issuer that the settings name.

    Args:
        monotonic: in seconds.

    Raises:
        ValueError: a group's grant is none.
    """

    def __init__(self, settings: Oidc, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._groups = {
            group: tuple(parse_grant(grant) for grant in grants) for group, grants in settings.groups.items()
        }
        self._keys: tuple[_Key, ...] = ()
        self._places: Places | None = None
        self._fetched = float("-inf")
        self._tried = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._failing = False

    def recognises(self, token: str) -> bool:
        """Whether it looks like a signed token (RFC 7515, section 7.1): three parts, the first one JSON."""
        return token.startswith("eyJ") and token.count(".") == 2 and len(token) <= LONGEST

    async def principal(self, token: str) -> Principal:
        """Whose token it is.

        Raises:
            InvalidTokenError: it is not the issuer's, not for us, or its time is not now.
            AuthenticationUnavailableError: the issuer's keys are not known, for it does not answer.
        """
        claims = await self.claims(token, self._settings.audience)
        return replace(self._principal_of(self.issued(claims)), expires=float(claims["exp"]) + LEEWAY)

    async def claims(self, token: str, audience: str | Sequence[str]) -> Mapping[str, Any]:
        """What a token says that the issuer has signed for `audience`, or for one of several.

        Raises:
            InvalidTokenError, AuthenticationUnavailableError: as `principal` says.
        """
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise InvalidTokenError("this is no signed token") from None
        algorithm, name = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in KINDS:
            raise InvalidTokenError("this token is signed with an algorithm that does not count here")
        name = name if isinstance(name, str) else None
        key = await self._key(algorithm, name)
        try:
            try:
                return self._decoded(token, key, algorithm, audience)
            except jwt.InvalidSignatureError:
                # A restored issuer may have another key of the same name.
                await self._fetch()
                return self._decoded(token, await self._key(algorithm, name), algorithm, audience)
        except jwt.ExpiredSignatureError:
            raise InvalidTokenError("this token has expired") from None
        except jwt.InvalidAudienceError:
            raise InvalidTokenError("this token is for another audience") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise InvalidTokenError("this token is not the issuer's, or not valid now") from None

    def _decoded(
        self, token: str, key: _Key, algorithm: str, audience: str | Sequence[str]
    ) -> Mapping[str, Any]:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=audience,
            issuer=self._settings.issuer,
            leeway=LEEWAY,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        return claims

    def issued(self, claims: Mapping[str, Any]) -> Issued:
        """Who that is, with those of its groups that have grants.

        Raises:
            InvalidTokenError: the subject is none.
        """
        subject = claims["sub"]
        if (
            not isinstance(subject, str)
            or not 0 < len(subject) <= LONGEST_SUBJECT
            or not subject.isprintable()
        ):
            raise InvalidTokenError("this token's subject is none")
        said = dict.fromkeys(_texts(_claim(claims, self._settings.groups_claim)))
        names = (claims.get(claim) for claim in ("preferred_username", "email", "name"))
        name = next(
            (each for each in names if isinstance(each, str) and each.isprintable() and each), subject
        )
        return Issued(
            id=f"oidc:{subject}{self._suffix}",
            name=name[:100],
            groups=tuple(group for group in said if self._groups.get(group)),
        )

    def issued_principal(self, issued: Issued) -> Principal | None:
        """With the grants that its groups have now; None: another issuer has named it."""
        return self._principal_of(issued) if issued.id.endswith(self._suffix) else None

    @property
    def _suffix(self) -> str:
        return f"@{self._settings.issuer}"

    def _principal_of(self, issued: Issued) -> Principal:
        grants: dict[Grant, None] = {}
        for group in issued.groups:
            grants.update(dict.fromkeys(self._groups.get(group, ())))
        return Principal(id=issued.id, name=issued.name, role="human", grants=tuple(grants))

    async def places(self) -> Places:
        """Where people log in.

        Raises:
            AuthenticationUnavailableError: the issuer does not answer, or does not say it.
        """
        if self._places is None or self._monotonic() - self._fetched >= FRESH:
            await self._fetch()
        if self._places is None or self._monotonic() - self._fetched >= KEPT:
            raise AuthenticationUnavailableError("the issuer does not say now where people log in")
        return self._places

    async def _key(self, algorithm: str, name: str | None) -> _Key:
        age = self._monotonic() - self._fetched
        if age >= FRESH:
            await self._fetch()
        found = self._find(algorithm, name)
        if found is None:
            await self._fetch()  # it may have been rotated
            found = self._find(algorithm, name)
        if self._monotonic() - self._fetched >= KEPT:
            raise AuthenticationUnavailableError("the issuer of this token does not tell its keys now")
        if found is None:
            raise InvalidTokenError("this token is signed with a key that the issuer does not have")
        return found

    def _find(self, algorithm: str, name: str | None) -> _Key | None:
        fitting = [
            key
            for key in self._keys
            if key.kind == KINDS[algorithm]
            and key.algorithm in (None, algorithm)
            and (name is None or key.name == name)
        ]
        # Without a name it must be clear which one is meant.
        return fitting[0] if len(fitting) == 1 or (name is not None and fitting) else None

    async def _fetch(self) -> None:
        """Ask for the keys, unless that was done just now; whoever comes meanwhile waits for the same answer."""
        if self._fetching is None:
            if self._monotonic() - self._tried < REFETCH_INTERVAL:
                return
            self._tried = self._monotonic()
            self._fetching = asyncio.create_task(self._ask(), name="keys of the issuer")
            self._fetching.add_done_callback(lambda _: setattr(self, "_fetching", None))
        await asyncio.shield(self._fetching)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(FETCH_TIMEOUT), httpx.AsyncClient(timeout=FETCH_TIMEOUT) as client:
                keys, places = await self._ask_by(client)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            if not self._failing:
                _log.warning(
                    f"the keys of {self._settings.issuer} cannot be had: {error or type(error).__name__}"
                )
            self._failing = True
            return
        if self._failing:
            _log.info(f"the keys of {self._settings.issuer} can be had again")
        self._failing = False
        self._keys, self._places = keys, places
        self._fetched = self._monotonic()

    async def _ask_by(self, client: httpx.AsyncClient) -> tuple[tuple[_Key, ...], Places | None]:
        issuer = self._settings.issuer
        about = await document(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if about.get("issuer") != issuer:
            raise ValueError(
                "its configuration is that of another issuer: `issuer` has to be letter by letter the same"
            )
        where = trusted_place(about.get("jwks_uri"), issuer)
        if where is None:
            raise ValueError("its configuration names no place of its keys that could be trusted")
        found = (await document(client, where)).get("keys")
        if not isinstance(found, list):
            raise ValueError(  # noqa: TRY004 - what came is wrong, not the code
                "its keys are none (RFC 7517, section 5)"
            )
        keys = tuple(key for each in found[:MOST_KEYS] if (key := _usable(each)) is not None)
        return keys, _places(about, issuer)


def _places(about: Mapping[str, Any], issuer: str) -> Places | None:
    authorization = trusted_place(about.get("authorization_endpoint"), issuer)
    token = trusted_place(about.get("token_endpoint"), issuer)
    if authorization is None or token is None:
        return None
    said = about.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Places(authorization, token, tuple(_texts(said)))


def _usable(found: object) -> _Key | None:
    """A public key for signatures; None for what is none, or too weak, or not understood."""
    if (
        not isinstance(found, dict)
        or found.get("kty") not in KINDS.values()
        or found.get("use", "sig") != "sig"
    ):
        return None
    try:
        key = jwt.PyJWK(found).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < SMALLEST_RSA:
        return None
    if "d" in found:  # a private key that is published is everybody's
        return None
    return _Key(key, found["kty"], found.get("kid"), found.get("alg"))


def _claim(claims: Mapping[str, Any], name: str) -> object:
    """A claim by its name, or by the way to it: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _texts(value: object) -> list[str]:
    """One text or several."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]
