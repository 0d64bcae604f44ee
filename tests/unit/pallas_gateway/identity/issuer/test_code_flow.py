"""Logging in by an issuer's page: what is asked, and what of its answers does not count."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest

from pallas_common.protocol.gateway import Oidc
from pallas_gateway.identity.errors import (
    AuthenticationError,
    AuthenticationUnavailableError,
    InvalidTokenError,
)
from pallas_gateway.identity.issuer.code_flow import CodeFlow
from pallas_gateway.identity.issuer.oidc import REFETCH_INTERVAL, OidcIssuer
from pallas_gateway.identity.sessions import new_text
from support.gateway.issuer import AUDIENCE, CLIENT, CLIENT_SECRET, Issuer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_gateway.identity.sources import Issued

BACK = "https://agents.example.com/chat/callback"


class Flow:
    """One browser that logs in."""

    def __init__(self, issuer: Issuer, client_secret: str | None = CLIENT_SECRET, **settings: Any) -> None:
        self.now = 0.0
        issuer.redirect_uri, issuer.client_secret = BACK, client_secret
        said = Oidc(
            issuer=issuer.url,
            audience=(AUDIENCE,),
            groups={"ops": ("run:agents",), "none": ()},
            client_id=CLIENT,
            client_secret=client_secret,
            **settings,
        )
        self.oidc = OidcIssuer(said, monotonic=lambda: self.now)
        self.flow = CodeFlow(self.oidc, said, BACK)
        self.secret = new_text()

    def begin(self) -> str:
        return asyncio.run(self.flow.begin(self.secret))

    def at_the_issuer(self, url: str | None = None) -> dict[str, str]:
        """With what the issuer's page sends the browser back."""
        answer = httpx.get(url or self.begin())
        assert answer.status_code == 302, answer.text
        where, _, query = answer.headers["location"].partition("?")
        assert where == BACK
        return dict(parse_qsl(query))

    def finish(self, said: dict[str, str], secret: str | None = None) -> Issued:
        return asyncio.run(self.flow.finish(secret or self.secret, said))


@pytest.fixture(scope="module")
def server() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def issuer(server: Issuer) -> Issuer:
    server.reset()
    return server


def test_somebody_of_many_groups_is_known_and_of_too_many_told(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    groups = [f"/company/departments/{number:04}" for number in range(1000)]
    issuer.claims = {"groups": [*groups, "ops"]}
    flow = Flow(issuer)
    assert flow.finish(flow.at_the_issuer()).groups == ("ops",)
    issuer.claims = {"groups": groups * 4}
    with caplog.at_level(logging.WARNING), pytest.raises(InvalidTokenError, match="longer than"):
        flow.finish(flow.at_the_issuer())
    assert "fewer groups" in caplog.text


@pytest.mark.parametrize("client_secret", [CLIENT_SECRET, None])
def test_who_logs_in_is_known(issuer: Issuer, client_secret: str | None) -> None:
    issuer.claims = {"groups": ["ops", "none", "others"], "preferred_username": "Ada"}
    flow = Flow(issuer, client_secret)
    found = flow.finish(flow.at_the_issuer())
    assert (found.id, found.name, found.groups) == (f"oidc:ada@{issuer.url}", "Ada", ("ops",))
    principal = flow.oidc.issued_principal(found)
    assert principal is not None
    assert [str(grant) for grant in principal.grants] == ["run:agents"]


def test_an_issuer_that_takes_the_secret_in_the_form_alone(issuer: Issuer) -> None:
    issuer.configuration["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    flow = Flow(issuer)
    issuer.takes_secret = "form"
    assert flow.finish(flow.at_the_issuer()).id == f"oidc:ada@{issuer.url}"


def test_what_is_asked_tells_nothing_of_the_secret(issuer: Issuer) -> None:
    flow = Flow(issuer)
    query = parse_qs(urlsplit(flow.begin()).query)
    assert query["scope"] == ["openid profile email"]
    of_groups = Flow(issuer, scopes=("openid", "groups")).begin()
    assert parse_qs(urlsplit(of_groups).query)["scope"] == ["openid groups"]
    assert query["code_challenge_method"] == ["S256"]
    said = {value for (value,) in query.values()}
    assert flow.secret not in said
    assert CLIENT_SECRET not in said
    first = parse_qs(urlsplit(flow.begin()).query)
    assert first == query
    flow.secret = new_text()
    other = parse_qs(urlsplit(flow.begin()).query)
    assert all(other[name] != query[name] for name in ("state", "nonce", "code_challenge"))


def test_another_browsers_login_is_not_taken(issuer: Issuer) -> None:
    flow = Flow(issuer)
    said = flow.at_the_issuer()
    with pytest.raises(InvalidTokenError, match="not begun in this browser"):
        flow.finish(said, new_text())
    assert issuer.tokens_made == 0
    # Nor with a state of its own: the code is worth nothing without the verifier.
    other = new_text()
    state = parse_qs(urlsplit(asyncio.run(flow.flow.begin(other))).query)["state"][0]
    with pytest.raises(InvalidTokenError, match="invalid_grant"):
        flow.finish(said | {"state": state}, other)
    assert issuer.tokens_made == 0


def test_a_code_is_shown_once(issuer: Issuer) -> None:
    flow = Flow(issuer)
    said = flow.at_the_issuer()
    flow.finish(said)
    with pytest.raises(InvalidTokenError, match="invalid_grant"):
        flow.finish(said)


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"nonce": None}, "not of this login"),
        ({"nonce": "another"}, "not of this login"),
        ({"nonce": 5}, "not of this login"),
        ({"aud": AUDIENCE}, "another audience"),
        ({"aud": None}, "not the issuer's"),
        ({"aud": [CLIENT, "other"]}, "another client"),
        ({"azp": "other"}, "another client"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "another client"),
        ({"iss": "https://evil.example"}, "not the issuer's"),
        ({"exp": 1000}, "expired"),
        ({"exp": None}, "not the issuer's"),
        ({"sub": ""}, "subject"),
    ],
)
def test_a_token_that_is_not_this_logins(issuer: Issuer, claims: dict[str, Any], message: str) -> None:
    issuer.claims = claims
    flow = Flow(issuer)
    with pytest.raises(InvalidTokenError, match=message):
        flow.finish(flow.at_the_issuer())


def test_an_audience_of_several_is_fine_with_its_party(issuer: Issuer) -> None:
    issuer.claims = {"aud": [CLIENT, "other"], "azp": CLIENT}
    flow = Flow(issuer)
    flow.finish(flow.at_the_issuer())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "not begun in this browser"),
        ({"code": ""}, "no code"),
        ({"code": "x" * 5000}, "no code"),
        ({"code": "ä"}, "no code"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"error": "access_denied"}, "access_denied"),
        ({"error": "<b>"}, "an error"),
    ],
)
def test_answers_that_lead_nowhere(issuer: Issuer, said: dict[str, str], message: str) -> None:
    flow = Flow(issuer)
    state = {"state": flow.at_the_issuer()["state"]} if said else {}
    with pytest.raises(InvalidTokenError, match=message):
        flow.finish(state | said)
    assert issuer.tokens_made == 0


def test_a_wrong_client_secret(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow(issuer)
    issuer.client_secret = "another one"
    with (
        caplog.at_level(logging.WARNING, "pallas.gateway.oidc"),
        pytest.raises(InvalidTokenError, match="invalid_client"),
    ):
        flow.finish(flow.at_the_issuer())
    assert "invalid_client" in caplog.text
    assert CLIENT_SECRET not in caplog.text


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"{}", b"no", b'{"id_token": 5}', b"[" * 100_000, b" " * 300_000, b'{"id_token": "a.b.c"}'],
)
def test_answers_that_say_nobody(issuer: Issuer, answer: bytes) -> None:
    flow = Flow(issuer)
    said = flow.at_the_issuer()
    issuer.token_body = answer
    with pytest.raises(AuthenticationError):
        flow.finish(said)


@pytest.mark.parametrize("status", [302, 500])
def test_an_issuer_that_fails(issuer: Issuer, status: int) -> None:
    flow = Flow(issuer)
    said = flow.at_the_issuer()
    issuer.token_status = status
    with pytest.raises(AuthenticationError):
        flow.finish(said)


@pytest.mark.parametrize(
    "place",
    [None, 5, "", "ftp://x", "http://", "http://a b", "http://me@x", "https://x/#y", "http://[", "//x"],
)
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
def test_places_that_are_none(issuer: Issuer, name: str, place: object) -> None:
    issuer.configuration[name] = place
    flow = Flow(issuer)
    with pytest.raises(AuthenticationUnavailableError):
        flow.begin()
    asyncio.run(flow.oidc.principal(issuer.sign()))  # its tokens count all the same


def test_while_the_issuer_is_away_nobody_logs_in(issuer: Issuer) -> None:
    flow = Flow(issuer)
    issuer.status = 503
    with pytest.raises(AuthenticationUnavailableError):
        flow.begin()
    issuer.status = 200
    flow.now += REFETCH_INTERVAL
    flow.finish(flow.at_the_issuer())
