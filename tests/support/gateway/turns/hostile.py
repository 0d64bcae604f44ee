"""A model that says what nobody expects, and people whose threads have to stay usable whatever it says.

Each of them talks in threads of its own: some turns in which the model says anything, then one in which it echoes,
which has to be answered from the history that the others have left. Knows OpenAI's wire format and the REST API.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakes.llm_stub import Call, Turn
from fakes.loopback import Fault
from support.gateway.turns.kept import check_database, messages
from support.gateway.turns.killed import AGENT, conversing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.llm_stub import Asked
    from fakes.loopback import Recorded
    from support.gateway.door import Door
    from support.gateway.postgres import Postgres
    from support.gateway.turns.killed import Conversing

PLAIN = "plainly"
"""A message with this word is echoed; at any other one the model says anything."""
TURNS_OF_A_THREAD = 6
PATIENCE = 120.0
AWAY = (502, 503)
"""Statuses of a turn whose worker was killed, at which a client comes again."""

TEXTS = (
    "",
    " ",
    "\n\n",
    "\x00",
    "half \ud83d",
    "\udc00\ud83d turned around",
    "\ufeff\u202e\u2028\x1b[31m",
    "data: [DONE]\n\n",
    '{"a": NaN}',
    "</s><|im_end|>",
    "\r\n: comment\r\n",
    "long " * 4_000,
    "e\u0301" * 500,
)
ARGUMENTS = (
    '{"text": "well"}',
    '{"text": "half \\ud800"}',
    '{"text": "\\u0000"}',
    "{bad",
    "",
    " ",
    "null",
    "[1, 2]",
    '"text"',
    "7",
    '{"text": NaN}',
    '{"text": 1e400}',
    '{"text": ' + "9" * 400 + "}",
    '{"text": "a", "text": "b"}',
    '{"text": ' + "[" * 500 + "]" * 500 + "}",
    '{"text": "' + "x" * 20_000 + '"}',
    '{"": {"": [null]}}',
    "{} {}",
)
TOOLS = (
    "tools__echo",
    "tools__add",
    "nobody__has_it",
    "",
    "tools__echo ",
    "tools.echo",
    "t" * 300,
    "\x00",
    "é",
)
IDS = (None, None, None, "", "same", "same", " ", "i" * 2_000, "\x00", "é\ud800", 'quote"', "../..")
BODIES = (
    "",
    "null",
    "[]",
    "{}",
    "<html>Bad Gateway</html>",
    "data: {bad\n\n",
    "data: [DONE]\n\n",
    "data: null\n\n",
    "data: []\n\n",
    ": nothing but a comment\n\n",
    'data: {"choices": []}\n\n',
    'data: {"choices": null}\n\n',
    'data: {"error": {"message": "it broke", "code": 500}}\n\n',
    'data: {"choices": [{"index": 0, "delta": null}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"content": "said"}, "finish_reason": "content_filter"}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"content": "said"}, "finish_reason": "of its own"}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"content": 7}}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"content": ["a"]}}]}\n\n',
    'data: {"choices": [{"index": -1, "delta": {"content": "said"}}]}\n\n',
    'data: {"choices": [{"index": 99, "delta": {"content": "said"}}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"role": "king", "content": "said"}}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{}]}, "finish_reason": "tool_calls"}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"tool_calls": [null]}, "finish_reason": "tool_calls"}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\n',
    (
        'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 5, "id": "c", "function": '
        '{"name": "tools__echo", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}\n\n'
    ),
    (
        'data: {"choices": [{"index": 0, "delta": {"content": "said"}, "finish_reason": "stop"}], '
        '"usage": {"prompt_tokens": "many", "completion_tokens": -1, "total_tokens": null}}\n\n'
    ),
)
"""Of an answer with status 200 to a request for a stream."""
STATUSES = (400, 401, 403, 404, 413, 422, 429, 500, 503, 529)


class HostileModel:
    """Draws each answer; a message with `PLAIN` in it is echoed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Turn:
        """A turn of OpenAI's form whose contents are of any kind."""
        if PLAIN in asked.user:
            return Turn(text=f"echo: {asked.user}")
        with self._lock:
            draw = self._random
            calls = draw.choice((0, 0, 0, 0, 1, 1, 2, 12))
            return Turn(
                text=draw.choice(TEXTS),
                reasoning=draw.choice(("", "", "", *TEXTS)),
                calls=tuple(
                    Call(draw.choice((TOOLS[0], *TOOLS)), raw=draw.choice(ARGUMENTS), id=draw.choice(IDS))
                    for _ in range(calls)
                ),
                cut=draw.random() < 0.05,
            )

    def fault(self, recorded: Recorded) -> Fault | None:
        """A status, a body or a connection that is none, for some requests."""
        asked = recorded.json
        if recorded.method != "POST" or not isinstance(asked, dict) or PLAIN in _last_user(asked):
            return None
        with self._lock:
            drawn = self._random.random()
            if drawn < 0.2:
                headers = {"Content-Type": "text/event-stream"}
                return Fault(status=200, headers=headers, body=self._random.choice(BODIES))
            if drawn < 0.24:
                body = self._random.choice(
                    ("", "no JSON", '{"error": "text"}', '{"error": {"message": null}}', "[]")
                )
                headers = {"Content-Type": "application/json", "retry-after-ms": "1"}
                return Fault(status=self._random.choice(STATUSES), headers=headers, body=body)
            return Fault(reset=True) if drawn < 0.25 else None


@dataclass
class Seen:
    """What became of all turns."""

    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What should never be, with what it was an answer to."""
    threads: list[str] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """How many have ended."""
        return self.ends.total()


class HostileTurns:
    """People who talk to the model until there were so many turns, each in a thread of the machine."""

    def __init__(self, running: Conversing, people: int) -> None:
        self.running = running
        self.seen = Seen()
        self._people = people
        self._news = threading.Condition()

    def talk(self, turns: int, *, kills: int = 0) -> Seen:
        """Talk for so many turns, while the worker is killed so many times, and look at all threads at the end."""
        goals = [turns * (number + 1) // (kills + 1) for number in range(kills)]
        people = [
            threading.Thread(target=self._talk, args=(f"p{number}", turns), daemon=True)
            for number in range(self._people)
        ]
        for each in people:
            each.start()
        for goal in goals:
            self._until(goal)
            self.running.fleet.kill(AGENT)
            self.running.fleet.wait(AGENT)
            for recorded in self.running.recorded:
                recorded.clear()
        for each in people:
            each.join()
        self._check()
        return self.seen

    def _until(self, turns: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.seen.turns >= turns, PATIENCE * 10), self.seen

    def _check(self) -> None:
        found = {thread: messages(self.running.caller, thread) for thread in self.seen.threads}
        check_database(self.running.store, found)
        for thread, items in found.items():
            assert not [item for item in items if item["status"] == "pending"], thread

    def _talk(self, name: str, turns: int) -> None:
        number = 0
        while self.seen.turns < turns:
            made = self.running.caller.rest("POST", f"/agents/{AGENT}/threads", json={})
            if made.status_code != 201:
                self._note("no thread", f"{made.status_code} {made.text}")
                return
            thread = made.json()["id"]
            with self._news:
                self.seen.threads.append(thread)
            for _ in range(TURNS_OF_A_THREAD):
                number += 1
                self._say(f"{name}-{number}", thread, stream=bool(number % 2))
            self._say_plainly(f"{name}-{number}", thread)

    def _say(self, turn: str, thread: str, *, stream: bool) -> None:
        status, said = ask(self.running.caller, thread, turn, stream=stream)
        ended = end_of(status, said) if stream else f"whole {status}"
        wrong = status == 500 or ended == "streamed without an end"
        self._note(ended, f"{turn}: {status} {said[-1000:]}" if wrong else None)

    def _say_plainly(self, turn: str, thread: str) -> None:
        """Say what the model echoes, again while its worker is away, and note whether it was answered."""
        message = f"{PLAIN} {turn}"
        for _ in range(20):
            status, said = ask(self.running.caller, thread, message, stream=False)
            if status not in AWAY:
                break
            self.running.fleet.wait(AGENT)
        well = status == 200 and json.loads(said)["content"] == f"echo: {message}"
        self._note(
            "echoed" if well else "refused", None if well else f"{thread} {message}: {status} {said[:1000]}"
        )

    def _note(self, ended: str, wrong: str | None) -> None:
        with self._news:
            self.seen.ends[ended] += 1
            if wrong is not None:
                self.seen.wrong.append(wrong)
            self._news.notify_all()


def ask(caller: Door, thread: str, message: str, *, stream: bool) -> tuple[int, str]:
    """The status and the text of a turn's answer."""
    connection = http.client.HTTPConnection(caller.url.removeprefix("http://"), timeout=PATIENCE)
    body = {"message": message, "threadId": thread, "stream": stream, "onBusy": "wait"}
    headers = {"Authorization": f"Bearer {caller.token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", f"/api/v1/agents/{AGENT}/chat", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def end_of(status: int, said: str) -> str:
    """How a streamed turn has ended."""
    if status != 200:
        return f"streamed {status}"
    events: list[dict[str, Any]] = [
        json.loads(line.removeprefix("data: ")) for line in said.split("\n") if line.startswith("data: {")
    ]
    kinds = [event["type"] for event in events if event["type"] in ("final", "error")]
    return f"streamed {kinds[0]}" if len(kinds) == 1 else "streamed without an end"


def _last_user(asked: dict[str, Any]) -> str:
    users = [each for each in asked.get("messages", ()) if each.get("role") == "user"]
    return json.dumps(users[-1]["content"]) if users else ""


@contextmanager
def hostile_turns(
    folder: Path, *, people: int, seed: int, postgres: Postgres | None = None
) -> Iterator[HostileTurns]:
    """A deployment whose model says anything; `postgres` is running, or None for SQLite."""
    model = HostileModel(seed)
    with conversing(folder, answer=model, fault=model.fault, postgres=postgres) as running:
        yield HostileTurns(running, people)
