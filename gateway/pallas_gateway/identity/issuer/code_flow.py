"""Logging in by an issuer's page: OpenID Connect's authorization code flow (Core 1.0, 3.1) with PKCE (RFC 7636).

All that binds a login to its browser follows from one secret, which the browser keeps: `state`, by which an answer is
known to be to this browser's question, `nonce`, by which the ID token is, and the verifier, without which a code that
somebody has caught is worth nothing. The secret does not follow from any of them. Knows no cookie and no page.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import httpx

from pallas_common.logs.setup import get_logger
from pallas_gateway.identity.errors import (
    AuthenticationUnavailableError,
    InvalidTokenError,
    TooManyUnknownError,
)
from pallas_gateway.identity.issuer.documents import FETCH_TIMEOUT, json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.gateway import Oidc
    from pallas_gateway.identity.issuer.oidc import OidcIssuer, Places
    from pallas_gateway.identity.sources import Issued

MOST_AT_A_TIME = 20
"""Codes that are shown to the issuer at a time; whoever can reach the gateway can have it ask."""
LONGEST_CODE = 4096
LONGEST_ID_TOKEN = 64 * 1024
"""Bytes: it comes in a body, where groups take more room than a header has."""

_CODE = re.compile(rf"[\x20-\x7e]{{1,{LONGEST_CODE}}}")
_ERROR = re.compile(r"[a-z_]{1,60}")
_log = get_logger("pallas.gateway.oidc")


class CodeFlow:
    """Logins by the issuer.

    Args:
        settings: with the name of the gateway as a client of the issuer.
        redirect_uri: where the issuer sends browsers back to, as it is registered there.
    """

    def __init__(self, issuer: OidcIssuer, settings: Oidc, redirect_uri: str) -> None:
        self._issuer = issuer
        self._client_id = settings.client_id or ""
        self._client_secret = settings.client_secret
        self._own_name = settings.issuer
        self._scopes = " ".join(settings.scopes)
        self._redirect_uri = redirect_uri
        self._free = MOST_AT_A_TIME

    async def begin(self, secret: str) -> str:
        """The URL of the issuer's page at which somebody logs in (Core 1.0, 3.1.2.1).

        Raises:
            AuthenticationUnavailableError: the issuer does not answer.
        """
        places = await self._issuer.places()
        challenge = hashlib.sha256(_of(secret, "verifier").encode()).digest()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._client_id,
                "redirect_uri": self._redirect_uri,
                "scope": self._scopes,
                "state": _of(secret, "state"),
                "nonce": _of(secret, "nonce"),
                "code_challenge": _text(challenge),
                "code_challenge_method": "S256",
            }
        )
        return f"{places.authorization}{'&' if '?' in places.authorization else '?'}{query}"

    async def finish(self, secret: str, said: Mapping[str, str]) -> Issued:
        """Who has logged in at the issuer's page.

        Args:
            secret: of the browser that comes back.
            said: the parameters with which it does.

        Raises:
            InvalidTokenError: nobody, or not as it has to be; the message may be shown.
            AuthenticationUnavailableError: the issuer does not answer.
            TooManyUnknownError: too many come at a time.
        """
        if not hmac.compare_digest(said.get("state", "").encode(), _of(secret, "state").encode()):
            raise InvalidTokenError(
                "this login was not begun in this browser, or another one was begun after it"
            )
        # An issuer that says who it is has to be the one that was asked (RFC 9207).
        if said.get("iss", self._own_name) != self._own_name:
            raise InvalidTokenError("another issuer answers than was asked")
        if (error := said.get("error")) is not None:
            shown = error if _ERROR.fullmatch(error) else "an error"
            raise InvalidTokenError(f"the issuer let nobody log in: {shown}")
        code = said.get("code", "")
        if _CODE.fullmatch(code) is None:
            raise InvalidTokenError("the issuer's answer has no code")
        token = await self._token(code, _of(secret, "verifier"))
        claims = await self._issuer.claims(token, self._client_id)
        self._check(claims, secret)
        return self._issuer.issued(claims)

    def _check(self, claims: Mapping[str, Any], secret: str) -> None:
        """What an ID token has to say besides what every signed token has (Core 1.0, 3.1.3.7)."""
        nonce, audience, party = claims.get("nonce"), claims["aud"], claims.get("azp")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode("utf-8", "surrogatepass"), _of(secret, "nonce").encode()
        ):
            raise InvalidTokenError("the issuer's token is not of this login")
        is_for_others = isinstance(audience, list) and len(audience) > 1
        if (party is not None or is_for_others) and party != self._client_id:
            raise InvalidTokenError("the issuer's token was made for another client")

    async def _token(self, code: str, verifier: str) -> str:
        """The ID token that the issuer gives for a code (Core 1.0, 3.1.3)."""
        places = await self._issuer.places()
        if self._free <= 0:
            raise TooManyUnknownError("too many log in at a time; try again in a moment")
        self._free -= 1
        try:
            async with asyncio.timeout(FETCH_TIMEOUT), httpx.AsyncClient(timeout=FETCH_TIMEOUT) as client:
                found = await self._ask(client, places, code, verifier)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            _log.warning(f"{self._own_name} cannot be asked who logs in: {error or type(error).__name__}")
            raise AuthenticationUnavailableError(
                "the issuer does not answer as it should; try again later"
            ) from error
        finally:
            self._free += 1
        token = found.get("id_token")
        if not isinstance(token, str) or not token:
            raise InvalidTokenError("the issuer says nothing of who has logged in")
        if len(token) > LONGEST_ID_TOKEN:
            _log.warning(f"{self._own_name} gives an ID token of {len(token)} bytes: name fewer groups in it")
            raise InvalidTokenError(f"what the issuer says of you is longer than {LONGEST_ID_TOKEN} bytes")
        return token

    async def _ask(
        self, client: httpx.AsyncClient, places: Places, code: str, verifier: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"accept": "application/json"}
        if self._client_secret is None:
            form["client_id"] = self._client_id
        elif (
            "client_secret_post" in places.authentication
            and "client_secret_basic" not in places.authentication
        ):
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        else:
            pair = (
                f"{quote(self._client_id, safe='')}:{quote(self._client_secret, safe='')}"  # RFC 6749, 2.3.1
            )
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        async with client.stream("POST", places.token, data=form, headers=headers) as response:
            if response.status_code >= 500:
                raise ValueError(f"{places.token} answers with status {response.status_code}")
            found = await json_object(response, places.token)
            if response.status_code == 200:
                return found
        error = found.get("error")
        shown = (
            error if isinstance(error, str) and _ERROR.fullmatch(error) else f"status {response.status_code}"
        )
        _log.warning(f"{self._own_name} refuses a login: {shown}")
        raise InvalidTokenError(f"the issuer refuses this login ({shown}); begin again")


def _of(secret: str, what: str) -> str:
    """What follows from a browser's secret: 43 characters that a verifier may have (RFC 7636, section 4.1)."""
    return _text(hmac.digest(secret.encode(), f"pallas: {what}".encode(), "sha256"))


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
