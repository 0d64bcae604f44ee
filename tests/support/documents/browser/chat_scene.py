"""A conversation that is made up, for pictures of the page to talk.

Knows what the page shows; asks no agent and no store.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse
from starlette.routing import Route

from pallas_gateway.http.pages.files import build, static_route
from pallas_gateway.http.pages.view.chat import thread_page
from pallas_gateway.http.pages.view.facts import AgentFacts, ThreadFacts, ThreadList, Viewer
from pallas_gateway.http.pages.view.messages import conversation
from pallas_gateway.store.conversations.records import Message, Row, ToolCall

if TYPE_CHECKING:
    from starlette.requests import Request

BEGAN = dt.datetime(2026, 3, 12, 9, 41, tzinfo=dt.UTC)
ANSWER = """The night build **failed in one place**, and it is not new:

| step | result | since |
|---|---|---|
| compile | passed | |
| unit tests | 2 of 1,214 failed | 9 March |
| packages | skipped | |

Both tests read the clock while the archive is being written. I would

1. pass the clock in, as `Archive.write` already allows, and
2. run them again with

```python
archive.write(record, now=clock.read)
```

Shall I open a change for it?"""
TURNS = (
    Row(role="user", content="Why did the night build fail?"),
    Row(
        role="assistant",
        content="",
        tool_calls=(
            ToolCall("1", "builds__latest", '{"branch": "main"}'),
            ToolCall("2", "builds__log", "{}"),
        ),
    ),
    Row(role="tool", content="failed: unit tests", tool_call_id="1"),
    Row(role="tool", content="2 failed, 1212 passed", tool_call_id="2"),
    Row(role="assistant", content=ANSWER),
)
LISTED = (
    ("Why did the night build fail?", "engineering", 0),
    ("Papers on seasonal snow since 2020", "research", 55),
    ("Rename the archive's tables", "engineering", 190),
    ("Letter to the observatory in Arosa", "jarvis", 1440),
    ("What changed in release 4.2?", "engineering", 2900),
)


def chat_scene() -> list[Route]:
    """The routes of the page, with this conversation."""

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(_page())

    return [Route("/chat", page), static_route()]


def _page() -> str:
    threads = [
        ThreadFacts(f"t{number}", title, agent, BEGAN - dt.timedelta(minutes=ago))
        for number, (title, agent, ago) in enumerate(LISTED)
    ]
    agent = AgentFacts("engineering", "Engineering", "Looks after builds and releases", "ready", "ok", "")
    messages = [
        Message(
            turn_index=index,
            turn="1",
            row=row,
            status="complete",
            created=BEGAN + dt.timedelta(seconds=index),
        )
        for index, row in enumerate(TURNS)
    ]
    return thread_page(
        threads[0],
        agent,
        conversation(messages, thread="t0", agent=agent.title, running=None),
        ThreadList(threads, current="t0"),
        Viewer("Ada", "none"),
        build(),
        can_retry=True,
    )
