"""The page to talk, in a real browser, on a real deployment with a gateway, a provider and tools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import LlmStub, Turn, by_request, run_llm_stub
from support.documents.browser.axe import violations
from support.documents.browser.browser import Page, find_chromium, run_chromium
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, make_token, with_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.llm_stub import Asked
    from support.gateway.door import Door

ADD = 'CALL tools__add {"a": 2, "b": 3}'
STAY = "stay"
"""A message at which the provider speaks for a long time."""
SCRIPT = "script"
"""A message at which it answers with what would run."""
FAIL = "fail"
READY = "document.readyState === 'complete' && document.getElementById('composer')"
"""A page with a conversation, whose script runs."""
HOSTILE = """<script>window.ran = 1</script><img src=x onerror="window.ran = 2">

[click](javascript:window.ran=3) ![](https://elsewhere.invalid/x.png)

`</code><svg onload=window.ran=4>`
"""


def answer(asked: Asked) -> Turn:
    match asked.user:
        case "stay":
            return Turn(text="Some *words* and more. " * 10_000, delay=0.02)
        case "script":
            return Turn(text=HOSTILE)
        case "fail" if len(asked.body["messages"]) < 100:
            return Turn(status=400, text="no such thing")
        case "list":
            return Turn(text="# Title\n\n1. one\n2. **two**\n\n```\ncode\n```\n", delay=0.01)
    return by_request(asked)


_NUMBERS = count(1)


@dataclass
class Scene:
    """A deployment, who administers it, and a browser."""

    fleet: Fleet
    llm: LlmStub
    ada: Door
    page: Page

    @property
    def url(self) -> str:
        return self.ada.url

    def tokens(self) -> list[Any]:
        """Those that there are."""
        return list(self.ada.rest("GET", "/tokens").json()["tokens"])

    def log_in(self, page: Page | None = None) -> None:
        """With a token of its own."""
        page = page or self.page
        token = make_token(self.fleet, f"person-{next(_NUMBERS)}", "view:agents", "run:agents")
        page.send("Network.clearBrowserCookies")
        page.open(self.url)
        page.until("document.querySelector('input[type=password]')")
        page.evaluate("document.querySelector('input[type=password]').focus()")
        page.type(token)
        page.press("Enter")
        page.until("document.querySelector('.agents')")

    def begin(self, agent: str = "deployer") -> None:
        """A new conversation."""
        self.page.open(f"{self.url}/chat?agent={agent}")

    def say(self, text: str, page: Page | None = None) -> None:
        page = page or self.page
        page.evaluate("document.getElementById('message').focus()")
        page.type(text)
        page.press("Enter")

    def until_said(self, text: str, page: Page | None = None) -> None:
        """The last answer that is over has this text."""
        (page or self.page).until(
            "document.getElementById('live')?.hidden && [...document.querySelectorAll('#log .answer')]"
            f".at(-1)?.innerText.includes({json.dumps(text)})"
        )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    find_chromium()
    deployment = make_deployment(tmp_path_factory.mktemp("pages") / "deployment", "echo")
    with run_llm_stub(answer=answer, models=("gpt-4.1",)) as llm, run_downstream() as tools:
        with_gateway(
            deployment, limits={"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
        )
        with Fleet(deployment) as fleet, run_chromium() as page:
            fleet.wait(until="settled")
            await_gateway(fleet)
            scene = Scene(fleet, llm, door(fleet), page)
            llm_spec = {
                "type": "openai",
                "model": "gpt-4.1",
                "url": llm.openai_url,
                "apiKeyRef": "keys/API_KEY",
            }
            for kind, name, spec in (
                ("secret", "keys", {"data": {"API_KEY": "no-key"}}),
                ("llm", "stub", llm_spec),
                ("server", "tools", {"transport": "http", "url": tools.url}),
            ):
                document = {"apiVersion": "pallas/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
                made = scene.ada.rest("PUT", f"/resources/{kind}/{name}", json=document)
                assert made.status_code in (200, 201), made.text
            made = scene.ada.rest(
                "POST",
                "/agents",
                json={
                    "name": "deployer",
                    "description": "I help you <b>deploy</b> code",
                    "llm": "stub",
                    "servers": ["tools"],
                },
            )
            assert made.status_code == 201, made.text
            page.look_like()
            scene.log_in()
            yield scene


def test_a_conversation_with_a_tool_call_is_there_after_a_reload(scene: Scene) -> None:
    page = scene.page
    page.open(scene.url)
    assert "I help you <b>deploy</b> code" in page.evaluate("document.querySelector('.agents').innerText")
    page.click(".agents a[href*=deployer]")
    page.until_drawn(READY)
    scene.say("list")
    scene.until_said("two")
    assert page.evaluate("document.querySelector('#log .answer ol strong').innerText") == "two"
    assert "?thread=" in page.evaluate("location.search")
    scene.say(ADD)
    scene.until_said('tools said: {"result":5.0}')
    calls = page.evaluate("[...document.querySelectorAll('#log .call')].map(e => [e.open, e.innerText])")
    assert [open_ for open_, _ in calls] == [False]
    assert "tools__add" in calls[0][1]
    assert "done" in calls[0][1]
    before = page.evaluate("document.getElementById('log').innerText")
    page.send("Page.reload")
    page.until(f"document.getElementById('log')?.innerText === {json.dumps(before)}")
    page.until("document.querySelector('#threads a[aria-current=page] .title')?.innerText === 'list'")


def test_an_answer_is_live_in_two_tabs_and_stopped_in_one(scene: Scene) -> None:
    page = scene.page
    scene.begin()
    scene.say(STAY)
    page.until("document.querySelector('#pieces em')")
    assert page.evaluate("document.getElementById('status').innerText") == "Deployer is answering…"
    other = page.new_tab()
    other.open(page.evaluate("location.href"))
    other.until("document.querySelector('#pieces em')")
    page.click("#stop")
    for tab in (page, other):
        scene.until_said("You stopped this answer.", tab)
        assert "Some words and more." in tab.evaluate("document.querySelector('#log .answer').innerText")
        assert not tab.evaluate("document.getElementById('retry').hidden")
    scene.say("again", other)
    scene.until_said("echo: again", other)
    page.send("Page.bringToFront")
    scene.until_said("echo: again")


def test_an_answer_goes_on_while_nobody_looks(scene: Scene) -> None:
    page = scene.page
    scene.begin()
    scene.say("list")
    page.until("location.search.startsWith('?thread=')")
    where = page.evaluate("location.href")
    page.open("about:blank")
    page.open(where)
    scene.until_said("two")


def test_an_answer_is_tried_again(scene: Scene) -> None:
    page = scene.page
    scene.begin()
    scene.llm.script(Turn(text="First."), Turn(text="Second."))
    scene.say("Tell me")
    scene.until_said("First.")
    page.click("#retry button")
    scene.until_said("Second.")
    assert page.evaluate("document.querySelectorAll('#log .you').length") == 1
    assert page.evaluate("document.querySelector('#log .aside summary').innerText") == "An earlier answer"


def test_an_answer_that_fails_says_why_and_what_was_written_stays(scene: Scene) -> None:
    page = scene.page
    scene.begin()
    scene.say("Hello")
    scene.until_said("echo: Hello")
    scene.say(FAIL)
    page.until("document.querySelector('#log .failure, #problem:not([hidden])')")
    assert "refused the request as invalid" in page.evaluate("document.querySelector('main').innerText")


def test_nothing_of_an_answer_runs_or_is_fetched(scene: Scene) -> None:
    page = scene.page
    scene.begin()
    scene.say(SCRIPT)
    scene.until_said("<script>window.ran = 1</script>")
    page.send("Page.reload")
    scene.until_said("<script>window.ran = 1</script>")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("document.querySelectorAll('#log :is(img, script, svg, iframe)').length") == 0
    elsewhere = {url for url in page.requested() if urlsplit(url).netloc != urlsplit(scene.url).netloc}
    assert elsewhere <= {"about:blank"}
    # Not even what got past the sanitiser would run.
    past = '<img src="data:," onerror="window.ran = 5">'
    page.evaluate(f"document.getElementById('log').insertAdjacentHTML('beforeend', {json.dumps(past)})")
    page.evaluate("new Promise(done => setTimeout(done))")
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in each for each in page.complaints())


def test_an_image_goes_with_a_message(scene: Scene, tmp_path: Path) -> None:
    page = scene.page
    image = tmp_path / "dot.png"
    image.write_bytes(page.screenshot())
    scene.begin()
    root = page.send("DOM.getDocument")["root"]["nodeId"]
    node = page.send("DOM.querySelector", nodeId=root, selector="#images")["nodeId"]
    page.send("DOM.setFileInputFiles", nodeId=node, files=[str(image)])
    scene.say("What is this?")
    scene.until_said("echo: What is this?")
    assert scene.llm.asked[-1].images == 1
    page.until_drawn("document.querySelector('#log .you img').naturalWidth > 0")


def test_a_conversation_is_renamed_found_exported_and_deleted(scene: Scene) -> None:
    page = scene.page
    scene.begin()
    scene.say("Something to find: xylophone")
    scene.until_said("xylophone")
    page.evaluate("document.querySelector('.more').open = true")
    page.evaluate("document.getElementById('title').value = 'Music <i>'")
    page.click("form[action='chat/rename'] button")
    page.until("document.querySelector('h1')?.innerText === 'Music <i>'")
    exported = page.evaluate("fetch(document.querySelector('.more a').href).then(r => r.text())")
    assert json.loads(exported.splitlines()[0])["title"] == "Music <i>"
    page.evaluate("document.getElementById('q').focus()")
    page.type("xylophone")
    page.press("Enter")
    page.until(
        "location.search.includes('q=xylophone') && document.querySelectorAll('#threads li').length === 1"
    )
    page.click("#threads a")
    page.until_drawn(READY)
    page.evaluate("document.querySelector('.more').open = true; window.confirm = () => true")
    page.click("#delete button")
    page.until("document.querySelector('.agents')")
    assert "Music" not in page.evaluate("document.getElementById('threads').innerText")


def test_it_is_used_by_keyboard_alone(scene: Scene) -> None:
    page = scene.page
    page.open(scene.url)
    page.until("document.readyState === 'complete'")
    for _ in range(40):
        page.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == "chat?agent=deployer":
            break
    page.press("Enter")
    page.until_drawn(READY)
    page.until_drawn("document.activeElement?.id === 'message'")
    page.type(STAY)
    page.press("Enter")
    page.until("document.querySelector('#pieces em')")
    page.press("Escape")
    scene.until_said("You stopped this answer.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_that_keeps_people_out(scene: Scene, width: int, scheme: str) -> None:
    page = scene.page
    page.look_like(width=width, prefers_color_scheme=scheme)
    try:
        page.open(scene.url)
        assert violations(page, least=20) == []
        scene.begin()
        scene.say("list")
        scene.until_said("two")
        scene.say(ADD)
        scene.until_said("tools said")
        page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert violations(page, least=25) == []
    finally:
        page.look_like()


def test_who_logs_out_is_out(scene: Scene) -> None:
    page = scene.page
    try:
        page.open(scene.url)
        page.click(".banner button")
        page.until("document.querySelector('input[type=password]')")
        page.open(f"{scene.url}/chat?agent=deployer")
        page.until("document.querySelector('input[type=password]')")
        assert violations(page, least=15) == []
        page.evaluate("document.querySelector('input[type=password]').focus()")
        page.type("plls_human_wrong")
        page.press("Enter")
        page.until("document.querySelector('[role=alert]:not([hidden])')")
    finally:
        scene.log_in()


def test_who_has_lost_the_token_is_led_to_the_login(scene: Scene) -> None:
    page = scene.page
    before = {each["id"] for each in scene.tokens()}
    scene.log_in()
    try:
        (mine,) = (each["id"] for each in scene.tokens() if each["id"] not in before)
        scene.begin()
        scene.say("Hello")
        scene.until_said("echo: Hello")
        assert scene.ada.rest("DELETE", f"/tokens/{mine}").status_code in (200, 204)
        scene.say("Still there?")
        page.until("document.querySelector('input[type=password]')")
    finally:
        scene.log_in()
