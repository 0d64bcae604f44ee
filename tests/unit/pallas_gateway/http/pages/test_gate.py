"""The gate of the pages: who is let in, what has to be said to change something, and what a browser is told if not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pallas_gateway.http.pages.headers import CONTENT_SECURITY_POLICY, own_target
from support.gateway.http.pages import HTML, House, run

if TYPE_CHECKING:
    from pathlib import Path


def test_who_has_logged_in_is_let_in(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        answer = await house.log_in(house.tokens.make("tok_1", "run:agents"))
        assert (answer.status_code, answer.headers["location"]) == (303, "../chat")
        said = (await house.browser.get("/chat")).json()
        assert (said["id"], said["has_session"], said["cookie"]) == ("tok_1", True, None)
        assert [each["action"] for each in house.audited()] == ["session.open"]

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/chat", "chat/login?next=chat"),
        ("/chat?agent=a&q=b+c", "chat/login?next=chat%3Fagent%3Da%26q%3Db%2Bc"),
        ("/chat/turn", "../chat/login?next=chat"),
        ("/chat/not/there", "../../chat/login?next=chat"),
    ],
)
def test_a_browser_without_a_session_is_led_to_the_login(tmp_path: Path, path: str, location: str) -> None:
    async def test(house: House) -> None:
        answer = await house.browser.get(path, headers=HTML)
        assert (answer.status_code, answer.headers["location"]) == (303, location)
        answer = await house.browser.get(path)
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "unauthorized")

    run(tmp_path, test)


def test_what_changes_something_says_the_token_of_its_page(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.log_in(house.tokens.make("tok_1"))
        csrf, browser = await house.csrf(), house.browser
        assert (await browser.post("/chat/form", data={"csrf": csrf, "a": "1"})).json()["a"] == "1"
        files = {"image": ("a.png", b"x", "image/png")}
        assert (await browser.post("/chat/form", data={"csrf": csrf}, files=files)).status_code == 200
        assert (await browser.post("/chat/form", data={}, headers={"Pallas-CSRF": csrf})).status_code == 415
        assert (await browser.delete("/chat/turn", headers={"Pallas-CSRF": csrf})).status_code == 204

    run(tmp_path, test)


@pytest.mark.parametrize("wrong", ["nothing", "another one's", "wrong header"])
def test_what_does_not_is_refused(tmp_path: Path, wrong: str) -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        await house.log_in(token)
        first = await house.csrf()
        await house.log_in(token)
        csrf, browser = await house.csrf(), house.browser
        assert first != csrf
        form = {"nothing": {"a": "1"}, "another one's": {"csrf": first}, "wrong header": {"csrf": csrf}}[
            wrong
        ]
        headers = {"Pallas-CSRF": first} if wrong == "wrong header" else {}
        answers = [
            await browser.post("/chat/form", data=form, headers=headers),
            await browser.post("/chat/form", data=form, files={"i": b"x"}, headers=headers),
            await browser.post("/chat/turn", json=form, headers=headers),
            await browser.post("/chat/turn", data=form, headers=headers),
            await browser.delete("/chat/turn", headers=headers),
            await browser.post("/chat/logout", data=form, headers=headers),
        ]
        assert [each.status_code for each in answers] == [403] * 6
        assert {each.json()["error"]["type"] for each in answers} == {"csrf"}
        assert (await browser.get("/chat")).status_code == 200

    run(tmp_path, test)


def test_what_is_no_form_is_refused_before_its_handler_could_forget_to_look(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.log_in(house.tokens.make("tok_1"))
        assert (await house.browser.post("/chat/careless", json={})).status_code == 403
        assert (await house.browser.post("/chat/careless")).status_code == 403
        csrf = {"Pallas-CSRF": await house.csrf()}
        assert (await house.browser.post("/chat/careless", headers=csrf)).status_code == 200

    run(tmp_path, test)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_what_the_browser_says_comes_from_elsewhere_is_refused(tmp_path: Path, site: str) -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        elsewhere = {"sec-fetch-site": site}
        answer = await house.browser.post("/chat/login", data={"token": token}, headers=elsewhere)
        assert (answer.status_code, house.stored.rows) == (403, {})
        await house.log_in(token)
        form = {"csrf": await house.csrf()}
        assert (await house.browser.post("/chat/form", data=form, headers=elsewhere)).status_code == 403
        own = {"sec-fetch-site": "same-origin"}
        assert (await house.browser.post("/chat/form", data=form, headers=own)).status_code == 200

    run(tmp_path, test)


@pytest.mark.parametrize("origin", ["http://pallas.test:8080", "http://other.test", "null", "http://"])
def test_over_plain_http_the_origin_says_it(tmp_path: Path, origin: str) -> None:
    async def test(house: House) -> None:
        token, elsewhere = house.tokens.make("tok_1"), {"origin": origin}
        answer = await house.browser.post("/chat/login", data={"token": token}, headers=elsewhere)
        assert (answer.status_code, house.stored.rows) == (403, {})
        await house.log_in(token)
        form = {"csrf": await house.csrf()}
        assert (await house.browser.post("/chat/form", data=form, headers=elsewhere)).status_code == 403
        for own in ("http://pallas.test", "https://PUBLIC.test"):  # as it was reached, or as a proxy is
            answer = await house.browser.post("/chat/form", data=form, headers={"origin": own})
            assert answer.status_code == 200

    run(tmp_path, test)


def test_without_authentication_a_link_of_another_site_leaves_other_tabs_known(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        csrf = await house.csrf()
        kept = dict(house.browser.cookies)
        house.browser.cookies.clear()  # as browsers keep it back
        headers = {"sec-fetch-site": "cross-site"}
        answer = await house.browser.get("/chat?agent=a", headers=HTML | headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
        assert 'content="0;url=chat?agent=a"' in answer.text
        answer = await house.browser.get("/chat/turn", headers=headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
        house.browser.cookies.update(kept)
        assert (await house.browser.post("/chat/form", data={"csrf": csrf})).status_code == 200

    run(tmp_path, test, auth="none")


def test_a_wrong_method_is_told_those_that_the_path_takes(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        for method, path, allow in (
            ("PUT", "/chat/login", "GET, HEAD, POST"),
            ("POST", "/", "GET, HEAD"),
        ):
            answer = await house.browser.request(method, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, allow)

    run(tmp_path, test)


def test_a_link_of_another_site_leads_to_the_page_and_not_to_the_login(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        headers = HTML | {"sec-fetch-site": "cross-site"}
        answer = await house.browser.get("/chat?thread=a&b=%22%3E", headers=headers)
        assert answer.status_code == 200
        assert '<meta http-equiv="refresh" content="0;url=chat?thread=a&amp;b=%22%3E">' in answer.text
        answer = await house.browser.get("/chat?thread=a&b='>", headers=headers)
        assert 'content="0;url=chat"' in answer.text
        answer = await house.browser.get("/chat/javascript:alert(1)", headers=headers)
        assert answer.headers["location"] == "../chat/login?next=chat"

    run(tmp_path, test)


def test_without_authentication_nobody_logs_in_and_other_sites_can_do_nothing(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        assert (await house.browser.post("/chat/form", data={"a": "1"})).status_code == 403
        answer = await house.browser.get("/chat")
        assert answer.json()["has_session"] is False
        assert answer.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict")
        assert "set-cookie" not in (await house.browser.get("/chat")).headers
        csrf = await house.csrf()
        assert csrf == answer.json()["csrf"]
        assert (await house.browser.post("/chat/form", data={"a": "1"})).status_code == 403
        assert (await house.browser.post("/chat/form", data={"csrf": csrf})).status_code == 200
        login = await house.browser.get("/chat/login?next=chat%3Fa%3Db")
        assert (login.status_code, login.headers["location"]) == (303, "../chat?a=b")
        assert house.stored.rows == {}

    run(tmp_path, test, auth="none")


def test_the_places_of_a_principal_count_for_pages(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.log_in(house.tokens.make("tok_1"))
        waiting = [asyncio.create_task(house.browser.get("/chat/wait")) for _ in range(2)]
        await house.until_waiting(2)
        answer = await house.browser.get("/chat", headers=HTML)
        assert (answer.status_code, answer.headers["content-type"]) == (429, "text/html; charset=utf-8")
        assert int(answer.headers["retry-after"]) >= 1
        house.goes_on.set()
        assert [(await each).status_code for each in waiting] == [200, 200]

    run(tmp_path, test)


def test_what_is_under_way_ends_with_the_token(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        await house.log_in(token)
        waiting = asyncio.create_task(house.browser.get("/chat/wait"))
        await house.until_waiting(1)
        house.tokens.revoke(token)
        await house.principals.recheck()
        assert (await waiting).status_code == 401
        assert (await house.browser.get("/chat")).status_code == 401
        assert (await house.browser.get("/chat", headers=HTML)).status_code == 303

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("path", "status"), [("/chat", 303), ("/chat/login", 200), ("/", 303), ("/chat/none", 303)]
)
def test_all_answers_have_the_headers(tmp_path: Path, path: str, status: int) -> None:
    async def test(house: House) -> None:
        answer = await house.browser.get(path, headers=HTML)
        assert answer.status_code == status
        found = answer.headers
        assert found["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert (found["cache-control"], found["x-content-type-options"]) == ("no-store", "nosniff")
        assert found["referrer-policy"] == "same-origin"
        assert found["cross-origin-opener-policy"] == found["cross-origin-resource-policy"] == "same-origin"
        assert found["x-request-id"]

    run(tmp_path, test)


def test_what_is_not_there_is_a_page_for_browsers(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.log_in(house.tokens.make("tok_1"))
        answer = await house.browser.get("/chat/a/b", headers=HTML)
        assert (answer.status_code, 'href="../../chat"' in answer.text) == (404, True)
        assert (await house.browser.get("/chat/a/b")).json()["error"]["type"] == "not_found"
        answer = await house.browser.get("/chat/form", headers=HTML)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert (await house.browser.get("/elsewhere")).json()["error"]["type"] == "not_found"

    run(tmp_path, test)


def test_a_bearer_token_opens_no_page(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        bearer = {"authorization": f"Bearer {house.tokens.make('tok_1')}"}
        assert (await house.browser.get("/chat", headers=bearer)).status_code == 401

    run(tmp_path, test)


@pytest.mark.parametrize(
    "said",
    [
        "//evil.example",
        "https://evil.example",
        "chat//evil",
        "chat?a=<script>",
        "chat#x",
        "chat\n",
        "chatx",
        "../chat",
        "chat?" + "a" * 1001,
        "",
        None,
    ],
)
def test_a_login_goes_on_at_no_other_place(said: str | None) -> None:
    assert own_target(said) == "chat"


def test_a_login_goes_on_where_it_was_asked_for() -> None:
    assert own_target("chat?thread=a-b_c&q=x%20y+z") == "chat?thread=a-b_c&q=x%20y+z"
