"""Logging in with a token, and logging out: what the browser keeps, what is written down, and who is not let in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pallas_common.secrets.tokens import new_token
from pallas_gateway.access.audit import AuditUnavailableError
from pallas_gateway.http.pages.login import WRITTEN_PER_MINUTE
from pallas_gateway.identity.principals import WRONG_PER_MINUTE
from support.gateway.http.pages import HTML, House, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("url", "attributes"),
    [
        ("http://pallas.test", ["HttpOnly", "SameSite=Strict", "Max-Age=604800"]),
        ("https://pallas.test", ["HttpOnly", "SameSite=Strict", "Secure", "Max-Age=604800"]),
    ],
)
def test_the_cookie(tmp_path: Path, url: str, attributes: list[str]) -> None:
    async def test(house: House) -> None:
        answer = await house.log_in(house.tokens.make("tok_1"))
        cookie, *found = answer.headers["set-cookie"].split("; ")
        # No path: the default one is that of the page, wherever a proxy has put it.
        assert (cookie.partition("=")[0], found) == ("pallas_session", attributes)
        text = cookie.partition("=")[2]
        assert len(text) == 43
        assert text not in repr(house.stored.rows)

    run(tmp_path, test, url=url)


def test_the_page_says_no_absolute_address(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        page = await house.browser.get("/chat/login?next=chat%3Fa%3D%22b", headers=HTML)
        assert page.status_code == 200
        assert 'type="password"' in page.text
        assert 'autocomplete="current-password"' in page.text
        assert 'href="/' not in page.text
        assert 'action="/' not in page.text
        assert "http" not in page.text.replace("http-equiv", "")
        assert 'name="next" value="chat"' in page.text

    run(tmp_path, test)


def test_after_the_login_it_goes_on_where_it_was_asked_for(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        assert (await house.log_in(token, next="chat?thread=x")).headers["location"] == "../chat?thread=x"
        assert (await house.log_in(token, next="//evil.example")).headers["location"] == "../chat"

    run(tmp_path, test)


@pytest.mark.parametrize(
    "kind", ["unknown", "mistyped", "empty", "none", "revoked", "agent", "worker", "long"]
)
def test_who_is_not_let_in(tmp_path: Path, kind: str) -> None:
    async def test(house: House) -> None:
        token = new_token("human")
        match kind:
            case "mistyped":
                token = token[:-1]
            case "empty":
                token = " "
            case "revoked":
                token = house.tokens.make("tok_1")
                house.tokens.revoke(token)
            case "agent":
                token = house.tokens.make("tok_1", agent="jarvis")
            case "worker":
                token = house.workers.make("jarvis", 1)
                await house.workers.refetch()
            case "long":
                token = "x" * 10_000
        fields = {"x": "1"} if kind == "none" else {"token": token}
        answer = await house.browser.post("/chat/login", data=fields, headers=HTML)
        assert answer.status_code == 401
        assert 'role="alert"' in answer.text
        assert token == " " or token not in answer.text
        assert "set-cookie" not in answer.headers
        assert house.stored.rows == {}
        (line,) = house.audited()
        assert (line["action"], line["outcome"], line["principal"]) == ("session.open", "denied", "unknown")
        assert line["target"] == "session with a token from 127.0.0.1"
        assert token.strip() == "" or token not in house.audit.path.read_text()

    run(tmp_path, test)


def test_strangers_cannot_fill_the_audit(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        for _ in range(WRITTEN_PER_MINUTE + 20):
            assert (await house.log_in("wrong")).status_code == 401
        assert WRITTEN_PER_MINUTE <= len(house.audited()) <= WRITTEN_PER_MINUTE + 10

    run(tmp_path, test)


def test_logins_count_among_the_requests_of_a_principal(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        found = [await house.log_in(token) for _ in range(6)]
        assert [each.status_code for each in found] == [303] * 5 + [429]
        assert "retry-after" in found[-1].headers
        assert "set-cookie" not in found[-1].headers
        assert (await house.log_in(house.tokens.make("tok_2"))).status_code == 303

    run(tmp_path, test, requests_per_minute=5)


def test_wrong_tokens_of_an_address_count_in_the_bound_of_all_unknown_ones(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        wrong = [house.log_in(new_token("human")) for _ in range(WRONG_PER_MINUTE)]
        assert {each.status_code for each in await asyncio.gather(*wrong)} == {401}
        asked = len(house.tokens.asked)
        flood = asyncio.gather(*(house.log_in(new_token("human")) for _ in range(20)))
        await flood
        assert len(house.tokens.asked) == asked + 1  # together, after a pause

    run(tmp_path, test)


def test_a_body_that_is_no_form_or_too_long_is_refused(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        post = house.browser.post
        assert (await post("/chat/login", json={})).status_code == 415
        assert (await post("/chat/login", data={"token": "x" * 20_000})).status_code == 413
        many = {f"f{number}": "x" for number in range(101)}
        assert (await post("/chat/login", data=many)).status_code == 400
        assert (await post("/chat/login", files={f"f{n}": b"x" for n in range(21)})).status_code == 400
        bad = {"content-type": "multipart/form-data; boundary=x"}
        assert (await post("/chat/login", content=b"--y\r\n", headers=bad)).status_code in (400, 401)
        none = {"content-type": "multipart/form-data"}
        assert (await post("/chat/login", content=b"--y\r\n", headers=none)).status_code == 400

    run(tmp_path, test)


def test_a_session_that_was_there_before_is_not_gone_on_with(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        planted = "A" * 43
        house.browser.cookies.set("pallas_session", planted)
        answer = await house.log_in(house.tokens.make("tok_1"))
        assert planted not in answer.headers["set-cookie"]
        house.browser.cookies.clear()
        house.browser.cookies.set("pallas_session", planted)
        assert (await house.browser.get("/chat")).status_code == 401

    run(tmp_path, test)


def test_another_login_of_a_browser_ends_the_session_before(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        await house.log_in(token)
        before = house.browser.cookies["pallas_session"]
        await house.log_in(token)
        assert house.browser.cookies["pallas_session"] != before
        assert len(house.stored.rows) == 1

    run(tmp_path, test)


def test_who_has_logged_out_is_out(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.log_in(house.tokens.make("tok_1"))
        text, csrf = house.browser.cookies["pallas_session"], await house.csrf()
        waiting = asyncio.create_task(house.browser.get("/chat/wait"))
        await house.until_waiting(1)
        answer = await house.browser.post("/chat/logout", data={"csrf": csrf})
        assert (answer.status_code, answer.headers["location"]) == (303, "login")
        assert answer.headers["set-cookie"] == "pallas_session=; HttpOnly; SameSite=Strict; Max-Age=0"
        assert (await waiting).status_code == 401
        house.browser.cookies.set("pallas_session", text)
        assert (await house.browser.get("/chat")).status_code == 401
        lines = house.audited()
        assert [each["action"] for each in lines] == ["session.open", "session.close"]
        assert {each["principal"] for each in lines} == {"tok_1"}
        assert text not in house.audit.path.read_text()

    run(tmp_path, test)


@pytest.mark.parametrize("step", ["check", "write"])
def test_a_login_that_cannot_be_audited_does_not_happen(tmp_path: Path, step: str) -> None:
    async def test(house: House) -> None:
        def full(*_: object) -> None:
            raise AuditUnavailableError("the disk is full")

        setattr(house.audit, step, full)
        answer = await house.log_in(house.tokens.make("tok_1"))
        assert (answer.status_code, "set-cookie" in answer.headers) == (503, False)
        assert house.stored.rows == {}

    run(tmp_path, test)


def test_while_the_store_is_away_nobody_is_taken_for_logged_out(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        house.stored.failure = OSError("away")
        assert (await house.log_in(token)).status_code == 503
        house.browser.cookies.set("pallas_session", "A" * 43)
        answer = await house.browser.get("/chat", headers=HTML)
        assert (answer.status_code, "away" in answer.text) == (503, False)

    run(tmp_path, test)
