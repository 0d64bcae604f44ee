"""Tokens that an issuer has signed: which count, whose they are, and what an issuer cannot do."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pallas_common.protocol.gateway import Oidc
from pallas_gateway.identity.errors import AuthenticationUnavailableError, InvalidTokenError
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.issuer.documents import LARGEST
from pallas_gateway.identity.issuer.oidc import FRESH, KEPT, LEEWAY, REFETCH_INTERVAL, OidcIssuer
from pallas_gateway.identity.principals import Principals
from support.gateway.issuer import AUDIENCE, Issuer, make_key, public_jwk
from support.gateway.tokens import TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_gateway.identity.principal import Principal


class Verifier:
    """What is tested, at a time that the test sets."""

    def __init__(self, issuer: Issuer, **settings: Any) -> None:
        self.now = 0.0
        groups = {"ops": ("view:agents", "run:agents"), "dev": ("run:agents", "edit:resources")}
        settings = {"audience": (AUDIENCE,), **settings}
        self.settings = Oidc(issuer=issuer.url, groups=groups, **settings)
        self.oidc = OidcIssuer(self.settings, monotonic=lambda: self.now)

    def of(self, token: str) -> Principal:
        return asyncio.run(self.oidc.principal(token))


@pytest.fixture(scope="module")
def server() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def issuer(server: Issuer) -> Issuer:
    server.reset()
    return server


@pytest.fixture
def verifier(issuer: Issuer) -> Verifier:
    return Verifier(issuer)


def test_who_it_is_and_what_the_groups_may(issuer: Issuer, verifier: Verifier) -> None:
    expires = int(time.time()) + 300
    found = verifier.of(
        issuer.sign(groups=["ops", "dev", "others", 5], preferred_username="Ada L.", exp=expires)
    )
    assert (found.id, found.name, found.role) == (f"oidc:ada@{issuer.url}", "Ada L.", "human")
    assert [str(grant) for grant in found.grants] == ["view:agents", "run:agents", "edit:resources"]
    assert found.expires == expires + LEEWAY
    assert verifier.of(issuer.sign()).grants == ()
    assert verifier.of(issuer.sign(groups="ops", aud=["x", AUDIENCE])).grants
    assert issuer.asked == 1


def test_the_claim_of_groups_may_lie_deeper(issuer: Issuer) -> None:
    verifier = Verifier(issuer, groups_claim="realm_access.roles")
    assert verifier.of(issuer.sign(realm_access={"roles": ["ops"]})).grants
    assert not verifier.of(issuer.sign(realm_access="ops")).grants


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES256", "EdDSA"])
def test_algorithms_with_public_keys_count(issuer: Issuer, verifier: Verifier, algorithm: str) -> None:
    issuer.rotate(algorithm, None)
    assert verifier.of(issuer.sign()).name == "ada"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": 1e400},
        {"sub": None},
        {"sub": ""},
        {"sub": "a" * 256},
        {"sub": "a\nb"},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
    ],
    ids=str,
)
def test_a_token_with_other_claims_does_not_count(
    issuer: Issuer, verifier: Verifier, claims: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTokenError):
        verifier.of(issuer.sign(**claims))


def test_clocks_may_differ_a_little(issuer: Issuer, verifier: Verifier) -> None:
    now = time.time()
    assert verifier.of(issuer.sign(nbf=int(now + LEEWAY / 2)))
    late = verifier.of(issuer.sign(exp=int(now - LEEWAY / 2)))
    assert late.expires is not None
    assert late.expires > now
    with pytest.raises(InvalidTokenError, match="expired"):
        verifier.of(issuer.sign(exp=int(now - LEEWAY - 5)))


def test_a_restored_issuer_may_have_another_key_of_the_same_name(issuer: Issuer, verifier: Verifier) -> None:
    issuer.rotate("RS256", "one")
    assert verifier.of(issuer.sign())
    issuer.rotate("RS256", "one")
    with pytest.raises(InvalidTokenError):
        verifier.of(issuer.sign())  # it was asked just now
    asked = issuer.asked
    verifier.now += REFETCH_INTERVAL
    assert verifier.of(issuer.sign())
    assert issuer.asked == asked + 1
    forged = issuer.sign()[:-8] + "AAAAAAAA"
    for _ in range(3):
        with pytest.raises(InvalidTokenError):
            verifier.of(forged)
    assert issuer.asked == asked + 1


def test_there_may_be_several_audiences(issuer: Issuer) -> None:
    verifier = Verifier(issuer, audience=("web", "api"))
    assert verifier.of(issuer.sign(aud="api"))
    assert verifier.of(issuer.sign(aud=["x", "web"]))
    with pytest.raises(InvalidTokenError, match="another audience"):
        verifier.of(issuer.sign(aud=AUDIENCE))


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_nothing_but_the_issuers_own_signature_counts(issuer: Issuer, verifier: Verifier) -> None:
    issuer.rotate("RS256", "rsa")
    good = issuer.sign()
    head, claims, signature = good.split(".")
    assert verifier.of(good)
    form = issuer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    symmetric = f"{_part({'alg': 'HS256', 'kid': 'rsa'})}.{claims}"
    mac = base64.urlsafe_b64encode(hmac.digest(form, symmetric.encode(), "sha256")).rstrip(b"=").decode()
    stranger = make_key("RS256")
    body = jwt.decode(good, options={"verify_signature": False})
    wrong = [
        f"{_part({'alg': 'none', 'kid': 'rsa'})}.{claims}.",
        f"{_part({'alg': 'nOnE', 'kid': 'rsa'})}.{claims}.{signature}",
        f"{_part({'alg': ['RS256'], 'kid': 'rsa'})}.{claims}.{signature}",
        f"{_part({'kid': 'rsa'})}.{claims}.{signature}",
        f"{head}.{_part({**body, 'sub': 'root'})}.{signature}",
        f"{head}.{claims}.{signature[:-8]}AAAAAAAA",
        f"{head}.{claims}.",
        f"{symmetric}.{mac}",
        jwt.encode(body, stranger, "RS256", {"kid": "rsa"}),
        jwt.encode(body, make_key("ES256"), "ES256", {"kid": "rsa"}),
        jwt.encode(body, stranger, "RS256", {"kid": "rsa", "jwk": public_jwk("RS256", stranger, "rsa")}),
        jwt.encode(body, stranger, "RS256", {"kid": "rsa", "jku": "http://127.0.0.1:1/"}),
        f"{'eyJ' + 'b' * 4000}.x.y",
        f"{_part([[]])}.{claims}.{signature}",
    ]
    for token in wrong:
        with pytest.raises(InvalidTokenError):
            verifier.of(token)


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_keys_that_are_for_something_else_or_weak_do_not_count(issuer: Issuer, verifier: Verifier) -> None:
    issuer.rotate("RS256", "rsa", bits=1024)
    with pytest.raises(InvalidTokenError):
        verifier.of(issuer.sign())
    for change in ({"use": "enc"}, {"kty": "oct", "k": "YWJj"}, {"alg": "RS512"}, {"d": "AQAB"}):
        verifier.now += REFETCH_INTERVAL
        issuer.rotate("RS256", "rsa")
        issuer.keys[0] |= change
        with pytest.raises(InvalidTokenError):
            verifier.of(issuer.sign())
    verifier.now += REFETCH_INTERVAL
    issuer.rotate("RS256", None)
    issuer.keys.append(public_jwk("RS256", make_key("RS256"), None))
    with pytest.raises(InvalidTokenError):  # which of two?
        verifier.of(issuer.sign())


def test_rotated_keys_are_asked_for_but_not_too_often(issuer: Issuer, verifier: Verifier) -> None:
    before = issuer.sign()
    assert verifier.of(before)
    issuer.rotate("ES256", "two")
    verifier.now = REFETCH_INTERVAL
    assert verifier.of(issuer.sign())
    assert issuer.asked == 2
    with pytest.raises(InvalidTokenError):
        verifier.of(before)
    for number in range(5):
        with pytest.raises(InvalidTokenError):
            verifier.of(issuer.sign({"kid": f"made up {number}"}))
    assert issuer.asked == 2
    verifier.now += FRESH
    assert verifier.of(issuer.sign())
    assert issuer.asked == 3


def test_an_issuer_that_is_away_is_none_to_believe_for_long(issuer: Issuer, verifier: Verifier) -> None:
    token = issuer.sign()
    assert verifier.of(token)
    issuer.status = 500
    verifier.now = FRESH
    assert verifier.of(token)
    verifier.now = KEPT
    with pytest.raises(AuthenticationUnavailableError):
        verifier.of(token)
    issuer.status = 200
    verifier.now += REFETCH_INTERVAL
    assert verifier.of(token)


@pytest.mark.parametrize(
    ("configuration", "body"),
    [
        ({"issuer": "http://127.0.0.1:1"}, None),
        ({"jwks_uri": "file:///etc/passwd"}, None),
        ({"jwks_uri": 5}, None),
        ({}, b" " * (LARGEST + 1)),
        ({}, b"[" * 100_000),
        ({}, b'{"keys": {}}'),
        ({}, b"[]"),
        ({}, b"\xff"),
    ],
    ids=str,
)
def test_an_issuer_that_says_nonsense_has_no_keys(
    issuer: Issuer, verifier: Verifier, configuration: dict[str, Any], body: bytes | None
) -> None:
    issuer.configuration |= configuration
    issuer.body = body
    with pytest.raises(AuthenticationUnavailableError):
        verifier.of(issuer.sign())


def test_keys_that_are_no_keys_are_passed_over(issuer: Issuer, verifier: Verifier) -> None:
    issuer.keys[:0] = [{"kty": "RSA"}, {"kty": "EC", "crv": "P-256", "x": "!", "y": 5}, "key", None]  # type: ignore[list-item]
    assert verifier.of(issuer.sign())


def test_stored_tokens_count_while_the_issuer_is_away() -> None:
    async def both() -> None:
        settings = Oidc(issuer="http://127.0.0.1:1", audience=(AUDIENCE,))
        stored = TokensInMemory()
        principals = Principals(stored, WorkersInMemory(), InFlight(), issuer=OidcIssuer(settings))
        assert (await principals.of(stored.make("tok_1"))).id == "tok_1"
        signed = jwt.encode({"sub": "ada"}, make_key("ES256"), "ES256")
        with pytest.raises(AuthenticationUnavailableError):
            await principals.of(signed)

    asyncio.run(both())
