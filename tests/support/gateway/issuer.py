"""An issuer of signed tokens: a real HTTP server with real keys, which tests turn as they like."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import threading
import time
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qs, quote, urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from support.ports import free_ports

if TYPE_CHECKING:
    from starlette.requests import Request

AUDIENCE = "pallas"
CLIENT = "pallas-web"
CLIENT_SECRET = "a secret of the client: % + /"


def make_key(algorithm: str, bits: int = 2048) -> Any:
    """A private key for signatures of that algorithm."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(65537, bits)


def public_jwk(algorithm: str, key: Any, name: str | None) -> dict[str, Any]:
    """What an issuer publishes of a key."""
    found: dict[str, Any] = json.loads(get_default_algorithms()[algorithm].to_jwk(key.public_key()))
    return {**found, **({"kid": name} if name else {}), "use": "sig"}


@dataclass
class Login:
    """Somebody who has logged in at the issuer's page, and whose code was not shown yet."""

    query: dict[str, str]
    """With what the browser came."""


class Issuer:
    """Serves while it is a context; `keys` and the two documents may be changed meanwhile.

    Its page logs in whoever comes, at once. It insists on what a strict issuer insists on: the registered client and
    redirect URI, S256, the verifier and the client's secret, and that a code is shown once.
    """

    def __init__(self) -> None:
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        self.keys: list[dict[str, Any]] = []
        self.body: bytes | None = None
        """Instead of the keys."""
        self.reset()
        app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._configuration),
                Route("/keys", self._keys),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/elsewhere", self._elsewhere),
            ]
        )
        config = uvicorn.Config(app, port=port, log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        asyncio.run(self._server.serve())

    async def _configuration(self, request: Request) -> Response:
        return Response(json.dumps(self.configuration), self.status, media_type="application/json")

    async def _keys(self, request: Request) -> Response:
        self.asked += 1
        body = json.dumps({"keys": self.keys}).encode() if self.body is None else self.body
        return Response(body, self.status, media_type="application/json")

    async def _authorize(self, request: Request) -> Response:
        """OpenID Connect Core 1.0, section 3.1.2."""
        query = dict(request.query_params)
        right = {
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": self.redirect_uri,
            "code_challenge_method": "S256",
        }
        wrong = [name for name, value in right.items() if query.get(name) != value]
        if wrong or "openid" not in query["scope"].split() or len(query["code_challenge"]) != 43:
            return Response(f"wrong: {wrong}", 400)
        code = secrets.token_urlsafe(16)
        self.logins[code] = Login(query)
        back = urlencode({"code": code, "state": query["state"], "iss": self.url})
        return Response(status_code=302, headers={"location": f"{self.redirect_uri}?{back}"})

    async def _token(self, request: Request) -> Response:
        """OpenID Connect Core 1.0, section 3.1.3; RFC 7636, section 4.6."""
        form = {name: value[0] for name, value in parse_qs((await request.body()).decode()).items()}
        login = self.logins.pop(form.get("code", ""), None)
        if not self._is_client(request, form):
            return self._says({"error": "invalid_client"}, 401)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        if (
            login is None
            or form["grant_type"] != "authorization_code"
            or form["redirect_uri"] != login.query["redirect_uri"]
            or challenge != login.query["code_challenge"]
        ):
            return self._says({"error": "invalid_grant"}, 400)
        self.tokens_made += 1
        claims = {"aud": CLIENT, "nonce": login.query["nonce"], **self.claims}
        return self._says({"token_type": "Bearer", "access_token": "x", "id_token": self.sign(**claims)})

    async def _elsewhere(self, request: Request) -> Response:
        """A page of another site: a link to a gateway's chat, and a form to the address that the query is."""
        target = escape(request.url.query)
        link = f'<a href="{target.rpartition("/")[0]}">link</a>'
        return HTMLResponse(f'{link}<form method="post" action="{target}"><button>go</button></form>')

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        if self.takes_secret == "form":
            said = form.get("client_id"), form.get("client_secret")
            return said == (CLIENT, self.client_secret) and "authorization" not in request.headers
        if self.client_secret is None:
            return form.get("client_id") == CLIENT and "authorization" not in request.headers
        pair = f"{quote(CLIENT, safe='')}:{quote(self.client_secret, safe='')}"
        return request.headers.get("authorization") == f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _says(self, document: dict[str, Any], status: int | None = None) -> Response:
        body = json.dumps(document).encode() if self.token_body is None else self.token_body
        return Response(body, status or self.token_status, media_type="application/json")

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(10)

    def reset(self) -> None:
        """Be as at the beginning."""
        self.rotate("ES256", "one")
        self.configuration: dict[str, Any] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.configuration |= {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
        }
        self.body, self.status, self.asked = None, 200, 0
        self.logins: dict[str, Login] = {}
        self.claims: dict[str, Any] = {}
        """More of the ID tokens, or something else; None leaves one out."""
        self.redirect_uri = ""
        """The one that is registered."""
        self.client_secret: str | None = CLIENT_SECRET
        self.takes_secret: Literal["header", "form"] = "header"
        self.token_status = 200
        self.token_body: bytes | None = None
        """Instead of what is asked for."""
        self.tokens_made = 0

    def rotate(self, algorithm: str, name: str | None, bits: int = 2048) -> None:
        """Have another key instead of the one before."""
        self.algorithm, self.key, self.kid = algorithm, make_key(algorithm, bits), name or ""
        self.keys = [public_jwk(algorithm, self.key, name)]

    def sign(self, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token of a subject; claims that are None are left out."""
        now = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        named = {"kid": self.kid} if self.kid else {}
        return jwt.encode(said, self.key, self.algorithm, {**named, **(headers or {})})
