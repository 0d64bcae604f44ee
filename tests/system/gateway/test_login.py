"""Logging in at a deployment's gateway, over real HTTP: with a token, by a real issuer, and what nobody gets by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import httpx
import pytest

from support.documents.browser.browser import run_chromium
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import TIMEOUT, await_gateway, make_token, operator_token, with_gateway
from support.gateway.issuer import AUDIENCE, CLIENT, CLIENT_SECRET, Issuer

if TYPE_CHECKING:
    from collections.abc import Iterator

HTML = {"accept": "text/html"}
NONE = "/chat/there-is-none"
"""A path that needs a session: 404 with one."""
REFRESH = 'http-equiv="refresh" content="0;url='


class Browser(httpx.Client):
    """A browser that has just been opened."""

    def __init__(self, url: str) -> None:
        super().__init__(base_url=url, timeout=TIMEOUT)

    def log_in(self, token: str, **headers: str) -> httpx.Response:
        return self.post("/chat/login", data={"token": token}, headers=HTML | headers)

    def is_in(self) -> bool:
        status = self.get(NONE).status_code
        assert status in (401, 404)
        return status == 404

    def to_the_issuer(self) -> str:
        """The address of the issuer's page, to which the login leads."""
        answer = self.get("/chat/oidc?next=chat%3Fa%3Db")
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def back(self) -> str:
        """With what the issuer's page leads back."""
        with httpx.Client() as other_site:
            answer = other_site.get(self.to_the_issuer())
            assert answer.status_code == 302, answer.text
            return answer.headers["location"]


class Deployed:
    """The deployment, and the issuer beside it."""

    def __init__(self, fleet: Fleet, issuer: Issuer) -> None:
        self.fleet, self.issuer = fleet, issuer
        self.url: str = fleet.deployment.document["gateway"]["public_url"]

    def audited(self, action: str) -> list[dict[str, Any]]:
        lines = map(json.loads, (self.fleet.state / "audit.jsonl").read_text().splitlines())
        return [line for line in lines if line["action"] == action]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    deployment = make_deployment(tmp_path_factory.mktemp("login") / "deployment", "echo")
    with Issuer() as issuer:
        with_gateway(deployment)
        gateway = deployment.document["gateway"]
        gateway |= {
            # For browsers another site than the issuer, which is at 127.0.0.1.
            "public_url": f"http://localhost:{gateway['port']}",
            "limits": {"requests_per_minute": 1000},
            "oidc": {
                "issuer": issuer.url,
                "audience": AUDIENCE,
                "client_id": CLIENT,
                "groups": {"ops": ["run:agents"]},
            },
        }
        deployment.write()
        issuer.redirect_uri = f"{gateway['public_url']}/chat/callback"
        with Fleet(deployment, env={"PALLAS_GATEWAY_CLIENT_SECRET": CLIENT_SECRET}) as fleet:
            await_gateway(fleet)
            yield Deployed(fleet, issuer)
            assert CLIENT_SECRET not in fleet.stderr
            assert CLIENT_SECRET not in repr(fleet.written)


@pytest.fixture
def deployed(running: Deployed) -> Deployed:
    redirect_uri = running.issuer.redirect_uri
    running.issuer.claims, running.issuer.token_status = {}, 200
    running.issuer.redirect_uri = redirect_uri
    return running


@pytest.fixture
def browser(deployed: Deployed) -> Iterator[Browser]:
    with Browser(deployed.url) as browser:
        yield browser


def test_with_a_token(deployed: Deployed, browser: Browser) -> None:
    answer = browser.get("/", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "chat")
    answer = browser.get("/chat", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "chat/login?next=chat")
    page = browser.get("/chat/login")
    assert f"Log in with {deployed.issuer.url.partition('//')[2]}" in page.text
    answer = browser.log_in(operator_token(deployed.fleet))
    assert answer.status_code == 303
    assert answer.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Max-Age=604800")
    assert browser.is_in()
    with Browser(deployed.url) as other:
        assert not other.is_in()


def test_the_end_of_the_token_is_the_end_of_the_session(deployed: Deployed, browser: Browser) -> None:
    token = make_token(deployed.fleet, "revoked soon", "run:agents")
    browser.log_in(token)
    assert browser.is_in()
    id_ = deployed.audited("session.open")[-1]["principal"]
    assert deployed.fleet.ctl("token", "revoke", id_).returncode == 0
    assert not browser.is_in()
    assert browser.log_in(token).status_code == 401


def test_an_agents_token_opens_nothing(deployed: Deployed, browser: Browser) -> None:
    answer = browser.log_in(make_token(deployed.fleet, "of echo", "run:agents", agent="echo"))
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert not browser.is_in()


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}],
    ids=["origin", "null", "fetch"],
)
def test_another_site_logs_nobody_in_or_out(
    deployed: Deployed, browser: Browser, headers: dict[str, str]
) -> None:
    assert browser.log_in(operator_token(deployed.fleet), **headers).status_code == 403
    browser.log_in(operator_token(deployed.fleet), origin=deployed.url)
    assert browser.post("/chat/logout", data={"csrf": "x"}, headers=headers).status_code == 403
    assert browser.post("/chat/logout", data={"csrf": "x"}).status_code == 403
    assert browser.is_in()


def test_a_session_outlives_the_process(deployed: Deployed, browser: Browser) -> None:
    browser.log_in(operator_token(deployed.fleet))
    assert browser.is_in()
    assert deployed.fleet.ctl("gateway", "restart").returncode == 0
    assert browser.is_in()


def test_by_the_issuer(deployed: Deployed, browser: Browser) -> None:
    deployed.issuer.claims = {"groups": ["ops"], "preferred_username": "Ada"}
    assert browser.get("/chat/oidc").headers["set-cookie"].endswith("; HttpOnly; SameSite=Lax; Max-Age=600")
    answer = browser.get(browser.back())
    assert answer.status_code == 200
    # Another site has led here: the page goes on by itself, as a redirection would have no cookie that is Strict.
    target = answer.text.partition(REFRESH)[2].partition('"')[0]
    assert urljoin(str(answer.url), target) == f"{deployed.url}/chat?a=b"
    cookies = answer.headers.get_list("set-cookie")
    assert [each.partition("=")[0] for each in cookies] == ["pallas_session", "pallas_login"]
    assert cookies[0].endswith("; HttpOnly; SameSite=Strict; Max-Age=604800")
    assert cookies[1] == "pallas_login=; HttpOnly; SameSite=Lax; Max-Age=0"
    assert browser.is_in()
    line = deployed.audited("session.open")[-1]
    assert (line["principal"], line["name"]) == (f"oidc:ada@{deployed.issuer.url}", "Ada")


def test_who_has_no_grant_is_told_so(deployed: Deployed, browser: Browser) -> None:
    deployed.issuer.claims = {"groups": ["others"], "preferred_username": "<b>Bob"}
    answer = browser.get(browser.back())
    assert answer.status_code == 403
    assert "&lt;b&gt;Bob" in answer.text
    assert "gateway.oidc.groups" in answer.text
    assert not browser.is_in()


def test_a_login_of_another_browser_is_worth_nothing(deployed: Deployed, browser: Browser) -> None:
    deployed.issuer.claims = {"groups": ["ops"]}
    caught = browser.back()
    with Browser(deployed.url) as other:
        assert other.get(caught).status_code == 401
        other.to_the_issuer()
        assert other.get(caught).status_code == 401
        assert not other.is_in()
    assert browser.get(caught).status_code == 200
    assert browser.get(caught).status_code == 401  # nor a second time


@pytest.mark.parametrize(
    "claims", [{"nonce": "another"}, {"aud": AUDIENCE}, {"iss": "https://evil.example"}, {"exp": 1000}]
)
def test_a_token_of_another_login_is_worth_nothing(
    deployed: Deployed, browser: Browser, claims: dict[str, Any]
) -> None:
    deployed.issuer.claims = {"groups": ["ops"], **claims}
    assert browser.get(browser.back()).status_code == 401
    assert not browser.is_in()


def test_an_issuer_that_fails_is_no_way_in(deployed: Deployed, browser: Browser) -> None:
    deployed.issuer.claims = {"groups": ["ops"]}
    back = browser.back()
    deployed.issuer.token_status = 503
    answer = browser.get(back, headers=HTML)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert not browser.is_in()


IS_IN = f"fetch('{NONE}').then(answer => answer.status === 404)"


def test_in_chromium_with_a_token(deployed: Deployed) -> None:
    with run_chromium() as page:
        page.open(f"{deployed.url}/chat/{'x' * 5}")
        assert page.evaluate("location.pathname") == "/chat/login"
        assert page.evaluate(IS_IN) is False
        page.evaluate(
            f"document.querySelector('#token').value = {json.dumps(operator_token(deployed.fleet))}"
        )
        page.evaluate("document.querySelector('form button').click()")
        page.until("location.pathname === '/chat' && document.querySelector('main')")
        assert page.evaluate(IS_IN) is True
        assert page.evaluate("document.cookie") == ""
        assert not [said for said in page.complaints() if "Content Security Policy" in said]
        # From a page of another site, a link leads to the page and not to the login, and a form leads nowhere.
        page.open(f"{deployed.issuer.url}/elsewhere?{deployed.url}/chat/logout")
        page.evaluate("document.querySelector('a').click()")
        page.until(
            "location.pathname === '/chat' && document.querySelector('main')"
            " && !document.querySelector('meta[http-equiv]')"
        )
        assert page.evaluate(IS_IN) is True
        page.open(f"{deployed.issuer.url}/elsewhere?{deployed.url}/chat/logout")
        page.evaluate("document.querySelector('button').click()")
        page.until("location.pathname === '/chat/logout' && document.body !== null")
        page.open(f"{deployed.url}/chat/login")
        assert page.evaluate(IS_IN) is True


def test_in_chromium_by_an_issuer_of_another_site(deployed: Deployed) -> None:
    deployed.issuer.claims = {"groups": ["ops"]}
    with run_chromium() as page:
        page.open(f"{deployed.url}/chat?a=b")
        assert page.evaluate("location.pathname") == "/chat/login"
        page.evaluate("document.querySelector('a.button').click()")
        page.until("location.pathname === '/chat' && document.querySelector('main')")
        assert page.evaluate("location.search") == "?a=b"
        assert page.evaluate(IS_IN) is True
        assert not [said for said in page.complaints() if "Content Security Policy" in said]
