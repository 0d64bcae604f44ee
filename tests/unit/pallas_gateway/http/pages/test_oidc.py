"""Logging in by the issuer: what the browser keeps meanwhile, for how long, and where it goes on.

What the issuer says is tested with the code flow, and all of it together over a real gateway.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import httpx
import pytest
from starlette.applications import Starlette

from pallas_common.protocol.gateway import GatewaySettings
from pallas_gateway.access.audit import Audit
from pallas_gateway.access.limits import Limiter
from pallas_gateway.http.pages.login import Login
from pallas_gateway.http.pages.oidc import LASTS, LoginByIssuer
from pallas_gateway.identity.errors import InvalidTokenError
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principal import Principal
from pallas_gateway.identity.principals import Principals
from pallas_gateway.identity.sessions import Sessions
from pallas_gateway.identity.sources import Issued
from support.gateway.tokens import SessionsInMemory, TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from pallas_gateway.identity.issuer.code_flow import CodeFlow

ISSUERS_PAGE = "https://login.example.com/authorize?state=x"
BACK = "/chat/callback?state=s&code=c"


class House:
    """The two addresses, an issuer that the test plays, and a browser."""

    def __init__(self, directory: Path, url: str = "http://pallas.test") -> None:
        settings = GatewaySettings(bind="127.0.0.1", public_url=url)
        self.now = 1000.0
        self.who: Issued | Exception = Issued(id="oidc:ada@x", name="Ada L.", groups=("ops",))
        self.secrets: list[str] = []
        tokens, in_flight = TokensInMemory(), InFlight()
        self.stored = SessionsInMemory(tokens)
        principals = Principals(tokens, WorkersInMemory(), in_flight)
        sessions = Sessions(self.stored, principals, in_flight, groups=self)
        self.audit = Audit(directory)
        login = Login(settings, sessions, Limiter(settings.limits), self.audit)
        by_issuer = LoginByIssuer(
            cast("CodeFlow", self), sessions, login, secure=url.startswith("https"), clock=lambda: self.now
        )
        transport = httpx.ASGITransport(Starlette(routes=by_issuer.open_routes()))
        self.browser = httpx.AsyncClient(transport=transport, base_url=url)

    def issued_principal(self, issued: Issued) -> Principal:
        return Principal(id=issued.id, name=issued.name, role="human")

    async def begin(self, secret: str) -> str:
        self.secrets.append(secret)
        return ISSUERS_PAGE

    async def finish(self, secret: str, said: Mapping[str, str]) -> Issued:
        assert secret == self.secrets[-1]
        assert said == {"state": "s", "code": "c"}
        if isinstance(self.who, Exception):
            raise self.who
        return self.who


def run(directory: Path, test: Callable[[House], Awaitable[None]], url: str = "http://pallas.test") -> None:
    async def whole() -> None:
        house = House(directory, url)
        async with house.browser:
            await test(house)
        house.audit.close()

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("url", "more"), [("http://pallas.test", []), ("https://pallas.test", ["Secure"])], ids=["http", "https"]
)
def test_the_browser_keeps_the_login_until_it_is_back(tmp_path: Path, url: str, more: list[str]) -> None:
    async def test(house: House) -> None:
        answer = await house.browser.get("/chat/oidc?next=chat%3Fthread%3Da")
        assert (answer.status_code, answer.headers["location"]) == (303, ISSUERS_PAGE)
        kept, *attributes = answer.headers["set-cookie"].split("; ")
        # Lax, for the issuer's page leads back; short, for nobody takes longer.
        assert attributes == ["HttpOnly", "SameSite=Lax", *more, "Max-Age=600"]
        assert kept.startswith(f"pallas_login={house.secrets[0]}.")
        house.now += LASTS
        answer = await house.browser.get(BACK)
        assert answer.status_code == 200
        assert 'content="0;url=../chat?thread=a"' in answer.text
        session, gone = answer.headers.get_list("set-cookie")
        assert session.startswith("pallas_session=")
        assert "; HttpOnly; SameSite=Strict" in session
        assert gone.startswith("pallas_login=;")
        assert "Max-Age=0" in gone
        assert len(house.stored.rows) == 1
        assert (await house.browser.get(BACK)).status_code == 401  # loaded again

    run(tmp_path, test, url)


@pytest.mark.parametrize(
    "kept",
    [
        None,
        "x",
        "{secret}",
        "{secret}..",
        "{secret}.soon.Y2hhdA",
        "{secret}.1.Y2hhdA",
        "{secret}.99999999999999999999.Y2hhdA",
        "{secret}.1002.Y2hhdA",
    ],
    ids=str,
)
def test_what_was_not_begun_here_or_long_ago_ends_there(tmp_path: Path, kept: str | None) -> None:
    async def test(house: House) -> None:
        await house.browser.get("/chat/oidc")
        house.browser.cookies.clear()
        if kept is not None:
            house.browser.cookies.set("pallas_login", kept.replace("{secret}", house.secrets[0]))
        assert (await house.browser.get(BACK)).status_code == 401
        assert house.stored.rows == {}

    run(tmp_path, test)


def test_a_login_that_has_taken_too_long_is_begun_again(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.browser.get("/chat/oidc")
        house.now += LASTS + 1
        answer = await house.browser.get(BACK)
        assert (answer.status_code, "10 minutes" in answer.text) == (401, True)
        assert house.stored.rows == {}

    run(tmp_path, test)


@pytest.mark.parametrize("wanted", ["Ly9ldmlsLmV4YW1wbGU", "aHR0cHM6Ly9ldmls", "!", "w6TDtg", "Y2hhdC8uLi94"])
def test_a_cookie_leads_to_no_other_place(tmp_path: Path, wanted: str) -> None:
    async def test(house: House) -> None:
        await house.browser.get("/chat/oidc")
        house.browser.cookies.clear()
        house.browser.cookies.set("pallas_login", f"{house.secrets[0]}.1000.{wanted}")
        answer = await house.browser.get(BACK)
        assert answer.status_code in (200, 401)
        assert answer.status_code == 401 or 'content="0;url=../chat"' in answer.text

    run(tmp_path, test)


@pytest.mark.parametrize("twice", ["&state=s", "&code=c", "&iss=a&iss=b", "&error=a&error=a"])
def test_an_answer_that_says_a_thing_twice_is_none(tmp_path: Path, twice: str) -> None:
    async def test(house: House) -> None:
        await house.browser.get("/chat/oidc")
        assert (await house.browser.get(BACK + twice)).status_code == 401
        assert house.stored.rows == {}

    run(tmp_path, test)


def test_who_is_refused_is_told_why_and_that_is_written_down(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        house.who = InvalidTokenError("the issuer let nobody log in: <b>")
        await house.browser.get("/chat/oidc")
        answer = await house.browser.get(BACK)
        assert answer.status_code == 401
        assert "&lt;b&gt;" in answer.text
        house.who = Issued(id="oidc:eve@x", name="<Eve>", groups=())
        await house.browser.get("/chat/oidc")
        answer = await house.browser.get(BACK)
        assert answer.status_code == 403
        assert "&lt;Eve&gt;" in answer.text
        assert "gateway.oidc.groups" in answer.text
        assert house.stored.rows == {}
        lines = house.audit.path.read_text()
        assert lines.count('"outcome":"denied"') == 2
        assert '"principal":"oidc:eve@x"' in lines

    run(tmp_path, test)
