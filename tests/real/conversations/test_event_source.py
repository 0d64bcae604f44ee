"""A turn followed by an `EventSource` of Chromium, through a connection that breaks in the middle of an event."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from fakes.llm_stub import Call, Fault, Turn
from real.conversations.site import run_site
from support.documents.browser.browser import find_chromium, run_chromium
from support.gateway.http.deployed import run_deployed

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.llm_stub import Asked, Recorded

WORDS = "".join(f"word{number} " for number in range(60))

FOLLOW = """
window.heard = [];
window.source = new EventSource(%s);
source.onmessage = event => {
    heard.push([event.lastEventId, event.data]);
    document.body.dataset.heard = heard.length;
};
source.onerror = () => { document.body.dataset.state = source.readyState; };
0
"""


def answer(asked: Asked) -> Turn:
    if asked.tool_results:
        return Turn(text="All done.")
    return Turn(text=WORDS, calls=(Call("tools__add", {"a": 2, "b": 3}),), delay=0.02)


def held(request: Recorded) -> Fault | None:
    """The second request of the turn waits, until it is let go."""
    messages = (request.json or {}).get("messages") or [{}]
    return Fault(hold=True) if messages[-1].get("role") == "tool" else None


def test_a_turn_is_heard_to_its_end_and_nothing_of_it_twice(tmp_path: Path) -> None:
    find_chromium()
    with run_deployed(tmp_path, answer=answer, fault=held) as deployed:
        gateway = urlsplit(deployed.ada.url).port
        assert gateway is not None
        asking = httpx.stream(
            "POST",
            f"{deployed.ada.url}/api/v1/agents/deployer/chat",
            json={"message": "hello", "stream": True},
            headers=deployed.authorization,
            timeout=60,
        )
        with asking as response:  # its client goes away, and the turn goes on
            thread = response.headers["pallas-thread"]
        turn = f"/api/v1/threads/{thread}/turn"
        with run_site(gateway, deployed.ada.token or "", hold=2) as site, run_chromium() as page:
            page.open(site.url)
            page.evaluate(FOLLOW % json.dumps(turn))
            page.until("document.body.dataset.heard === '2'")
            site.drop()  # in the middle of the third event
            # It comes again by itself, while the turn is still under way.
            site.wait_for(lambda passed: len(passed) == 2)
            page.until("heard.some(([, data]) => data.includes('tool_result'))")
            before = page.evaluate("heard")
            assert page.evaluate("source.readyState") == 1
            deployed.llm.loopback.release()
            page.until("document.body.dataset.state === '2'")  # closed, by itself
            heard: list[tuple[str, str]] = [(id_, data) for id_, data in page.evaluate("heard")]
        # Whoever is not asked for as the gateway is called is refused, token or not.
        foreign = {**deployed.authorization, "Host": "evil.example"}
        assert httpx.get(f"{deployed.ada.url}{turn}", headers=foreign).status_code == 421

    told = [json.loads(data) for _, data in heard[:-1]]
    assert heard[-1][1] == "[DONE]"
    calling = [each["type"] for each in told].index("tool_call")
    assert "".join(each["delta"] for each in told[:calling]) == WORDS
    assert [each["type"] for each in told[calling : calling + 2]] == ["tool_call", "tool_result"]
    *texts, final = told[calling + 2 :]
    assert "".join(each["delta"] for each in texts).strip() == "All done."
    assert final == {"type": "final", "threadId": thread, "turnIndex": 3}
    ids = [id_ for id_, _ in heard[:-1]]
    assert len(set(ids)) == len(ids)
    assert heard[-1][0] == ids[-1], "the end has no id of its own"

    first, again, last = site.passed
    assert {each.path for each in site.passed} == {turn}
    assert [each.status for each in site.passed] == [200, 200, 204]
    assert "last-event-id" not in first.headers
    assert again.headers["last-event-id"] == ids[1], "two events were whole when the connection broke"
    assert last.headers["last-event-id"] == ids[-1]
    assert len(before) < len(heard)
