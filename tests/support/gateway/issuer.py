"""An issuer of signed tokens: a real HTTP server with real keys, which tests turn as they like."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from support.ports import free_ports

if TYPE_CHECKING:
    from starlette.requests import Request

AUDIENCE = "pallas"


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


class Issuer:
    """Serves while it is a context; `keys` and the two documents may be changed meanwhile."""

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
        self.body, self.status, self.asked = None, 200, 0

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
