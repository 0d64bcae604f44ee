"""The pages to talk without a browser: what forms do where no script runs, and what is refused to whom."""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.data.image_data import PNG
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, make_token, with_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.gateway.door import Door

PAGE = {"accept": "text/html"}
FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/chat", {"message": "mine now"}),
    ("/chat/stop", {}),
    ("/chat/rename", {"title": "mine"}),
    ("/chat/delete", {}),
)
"""Path and fields of all forms of a conversation."""


@dataclass
class Person:
    """Somebody with a browser that runs no script."""

    client: httpx.Client

    def get(self, path: str, status: int = 200, **params: str) -> str:
        answer = self.client.get(path, params=params or None, headers=PAGE)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-500:])
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"
        return answer.text

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/chat"))
        assert found is not None
        return found[1]

    def post(self, path: str, status: int = 303, files: Any = None, **data: str) -> str:
        """Send a form; where it leads, or what is said."""
        data.setdefault("csrf", self.csrf)
        answer = self.client.post(path, data=data, files=files, headers=PAGE)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-500:])
        return str(answer.headers["location"]) if status == 303 else html.unescape(answer.text)

    def talk(self, text: str, thread: str | None = None) -> str:
        """One turn, to its end; the thread."""
        place: dict[str, Any] = {"agent": "echo"} if thread is None else {"thread": thread}
        where = self.post("/chat", message=text, **place)
        found = re.fullmatch(r"chat\?thread=([0-9a-f-]{36})", where)
        assert found is not None
        with self.client.stream("GET", "/chat/turn", params={"thread": found[1]}) as answer:
            assert answer.status_code in (200, 204)
            told = "".join(answer.iter_text())
        assert answer.status_code == 204 or told.endswith('data: {"end":true,"refused":null}\n\n')
        return found[1]


@dataclass
class Scene:
    fleet: Fleet
    ada: Door

    def person(self, name: str, *grants: str) -> Person:
        return self.logged_in(make_token(self.fleet, name, *grants))

    def imported(self, name: str, *messages: dict[str, Any]) -> tuple[str, Person]:
        """A conversation with these messages, and whose it is."""
        token = make_token(self.fleet, name, "view:agents", "run:agents")
        lines = [
            {"kind": "thread", "format": 1, "title": name},
            *({"kind": "message", **each} for each in messages),
        ]
        answer = httpx.post(
            f"{self.ada.url}/api/v1/agents/echo/threads/import",
            content="\n".join(map(json.dumps, lines)),
            headers={"Authorization": f"Bearer {token}", "content-type": "application/x-ndjson"},
        )
        assert answer.status_code == 201, answer.text
        return answer.json()["id"], self.logged_in(token)

    def logged_in(self, token: str) -> Person:
        client = httpx.Client(base_url=self.ada.url, timeout=60.0)
        answer = client.post("/chat/login", data={"token": token}, headers=PAGE)
        assert answer.status_code == 303, answer.text
        return Person(client)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    deployment = make_deployment(tmp_path_factory.mktemp("pages") / "deployment", "echo", "aside")
    with_gateway(deployment, limits={"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000})
    with Fleet(deployment) as fleet:
        fleet.wait()
        await_gateway(fleet)
        yield Scene(fleet, door(fleet))


@pytest.fixture(scope="module")
def eve(scene: Scene) -> Person:
    return scene.person("eve", "view:agents", "run:agents")


def test_a_conversation_without_a_script(eve: Person) -> None:
    thread = eve.talk("Good <morning>\nto you")
    page = eve.get("/chat", thread=thread)
    assert page.count("Good &lt;morning&gt;\nto you") >= 1
    assert eve.talk("again", thread) == thread
    page = eve.get("/chat", thread=thread)
    assert page.index("Good &lt;morning&gt;") < page.index("again")
    assert page.count('class="said you"') == 2
    assert page.count('class="said answer"') == 3, "two answers, and the place of the next one"
    assert 'http-equiv="refresh"' not in page


def test_what_cannot_be_sent_is_said_with_what_was_written(eve: Person) -> None:
    said = eve.post("/chat", 400, agent="echo", message="   ")
    assert "is empty" in said
    many = [("images", (f"{n}.png", b"x", "image/png")) for n in range(21)]
    assert "Too many files" in eve.post("/chat", 400, agent="echo", message="look", files=many)
    wrong = [("images", ("a.txt", b"no image", "text/plain"))]
    said = eve.post("/chat", 400, agent="echo", message="look at <this>", files=wrong)
    assert "images[0]" in said
    assert ">\nlook at <this></textarea>" in said


def test_a_page_of_messages_leads_to_those_before(scene: Scene, eve: Person) -> None:
    said = [
        {"role": "assistant" if number % 2 else "user", "content": f"number {number}."}
        for number in range(130)
    ]
    thread, person = scene.imported("long", *said)
    eve.get("/chat", 404, thread=thread)
    shown: list[str] = []
    page = person.get("/chat", thread=thread)
    while True:
        shown = [*re.findall(r"number (\d+)\.", page), *shown]
        found = re.search(r'href="chat(\?thread=[^"]+until=\d+)"', page)
        if found is None:
            break
        page = person.get(f"/chat{html.unescape(found[1])}")
    assert shown == [str(number) for number in range(130)]


def test_a_message_that_the_agent_does_not_take_is_said_so_and_stays(eve: Person) -> None:
    image = [("images", ("a.png", base64.b64decode(PNG), "image/png"))]
    said = eve.post("/chat", 400, files=image, agent="echo", message="blind")
    assert "this agent's model has no vision" in said
    assert ">\nblind</textarea>" in said
    assert "Nothing was found." in eve.get("/chat", q="blind")


def test_images_come_as_what_they_are(scene: Scene) -> None:
    data = base64.b64decode(PNG)
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zy8+"}},
    ]
    thread, person = scene.imported("seeing", {"role": "user", "content": parts})
    place = {"thread": thread, "index": "0", "part": "1"}
    found = person.client.get("/chat/image", params=place)
    assert (found.status_code, found.headers["content-type"], found.content) == (200, "image/png", data)
    kept = {"if-none-match": found.headers["etag"]}
    assert person.client.get("/chat/image", params=place, headers=kept).status_code == 304
    assert found.headers["x-content-type-options"] == "nosniff"
    for index, part in (("0", "0"), ("0", "2"), ("0", "9"), ("7", "0"), ("-1", "0"), ("x", "1")):
        missing = person.client.get("/chat/image", params={"thread": thread, "index": index, "part": part})
        assert missing.status_code == 404
    mallory = scene.person("mallory", "view:agents", "run:agents")
    assert mallory.client.get("/chat/image", params=place).status_code == 404
    assert mallory.client.get("/chat/image", params=place, headers=kept).status_code == 404
    assert found.headers["cache-control"] == "private, no-cache", (
        "the next one at this browser may not see it"
    )


def test_what_is_not_ones_own_is_not_there(scene: Scene, eve: Person) -> None:
    thread = eve.talk("private")
    mallory = scene.person("mallory-2", "view:agents", "run:agents")
    mallory.get("/chat", 404, thread=thread)
    for path in ("/chat/messages", "/chat/turn"):
        assert mallory.client.get(path, params={"thread": thread}).status_code == 404
    assert mallory.client.get(f"/chat/export/{thread}").status_code == 404
    for path, data in FORMS:
        mallory.post(path, 404, thread=thread, **data)
    assert "Nothing was found." in mallory.get("/chat", q="private")
    assert thread in eve.get("/chat", q="private")
    auditor = scene.person("auditor", "view:agents", "run:agents", "view:threads")
    page = auditor.get("/chat", thread=thread)
    assert "private" in page
    assert "somebody else's" in html.unescape(page)
    assert 'id="composer"' not in page
    assert eve.get("/chat", thread=thread)


def test_grants_decide_what_is_shown(scene: Scene) -> None:
    one = scene.person("one", "view:agents:aside", "run:agents:aside")
    page = one.get("/chat")
    assert "agent=aside" in page
    assert "agent=echo" not in page
    one.get("/chat", 404, agent="echo")
    one.post("/chat", 404, agent="echo", message="Hello")
    nothing = scene.person("nothing", "view:agents")
    assert "no agent that you may run" in nothing.get("/chat")
    refused = nothing.get("/chat", 403, agent="echo")
    assert "run:agents:echo" in refused


def test_nothing_is_done_for_a_form_of_another_page(eve: Person) -> None:
    thread = eve.talk("stay")
    for path, data in FORMS:
        for csrf in ("", "x" * 43, eve.csrf[:-1]):
            eve.post(path, 403, thread=thread, csrf=csrf, **data)
    assert "stay" in eve.get("/chat", thread=thread)


@pytest.mark.parametrize("header", ["application/json", "text/html"])
def test_a_form_is_answered_as_it_is_asked_for(eve: Person, header: str) -> None:
    answer = eve.client.post(
        "/chat", data={"csrf": eve.csrf, "agent": "echo", "message": "Hello"}, headers={"accept": header}
    )
    if header == "text/html":
        assert answer.status_code == 303
    else:
        assert re.fullmatch(r"[0-9a-f-]{36}", answer.json()["thread"])


def test_hostile_queries_are_refused_or_mean_nothing(eve: Person) -> None:
    for thread in ("'", "..%2f", "x" * 5000, "\x00", "🦉"):
        eve.get("/chat", 404, thread=thread)
    eve.get("/chat", 400, before="nonsense")
    for query in ('"', "a OR", "*", "x" * 5000, "\x00", "🦉", "NEAR(a b)"):
        eve.get("/chat", q=query)
    thread = eve.talk("numbers")
    for until in ("-1", "99999999999999999999", "1e9", "0"):
        eve.get("/chat", thread=thread, until=until)


def test_a_conversation_is_renamed_and_deleted(eve: Person) -> None:
    thread = eve.talk("old title")
    assert eve.post("/chat/rename", thread=thread, title="A <new> one") == f"../chat?thread={thread}"
    assert '<h1 dir="auto">A &lt;new&gt; one</h1>' in eve.get("/chat", thread=thread)
    eve.post("/chat/rename", 400, thread=thread, title="two\nlines")
    assert eve.post("/chat/delete", thread=thread) == "../chat"
    eve.get("/chat", 404, thread=thread)
