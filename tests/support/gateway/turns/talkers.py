"""People who talk over REST whatever happens to the deployment, and all that was told to them.

Each says something in a thread of its own, reads the stream of the answer, and says the next thing; `pause` ends that
between two turns. A provider that is asked so (`script`) speaks in three rounds and calls tools in two of them.
"""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from fakes.llm_stub import Call, Turn

if TYPE_CHECKING:
    from fakes.llm_stub import Asked
    from support.gateway.door import Door

PATIENCE = 120.0
TOOL = "tools__echo"
ROUNDS = (
    ("looks around", ("a", "b")),
    ("asks once more and goes on", ("c",)),
    ("is done with all of it", ()),
)
"""What the model says in each round, and what it calls the tool with, each behind the name of the turn."""
TURNS_OF_A_THREAD = 6


def texts_of(turn: str) -> list[str]:
    """What the model says in each round of that turn."""
    return [f"{turn} {said}" for said, _ in ROUNDS]


def calls_of(turn: str) -> list[str]:
    """What it calls the tool with."""
    return [f"{turn}-{each}" for _, calls in ROUNDS for each in calls]


@dataclass
class Script:
    """The provider's answers, and the history that it was told with each turn."""

    delay: float = 0.01
    histories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Of each turn that it was asked for: the messages before it, without the system's."""

    def __call__(self, asked: Asked) -> Turn:
        """The round that comes next."""
        messages = asked.body["messages"]
        last = max(place for place, each in enumerate(messages) if each["role"] == "user")
        number = sum(each["role"] == "assistant" for each in messages[last:])
        if number == 0:
            before = [each for each in messages[:last] if each["role"] != "system"]
            self.histories.setdefault(asked.user, before)
        said, calls = ROUNDS[number]
        return Turn(
            text=f"{asked.user} {said}",
            calls=tuple(Call(TOOL, {"text": f"{asked.user}-{each}"}) for each in calls),
            delay=self.delay,
        )


@dataclass
class Told:
    """What was told of one turn."""

    turn: str
    """Its name, which is what the user says."""
    text: str = ""
    calls: list[str] = field(default_factory=list)
    results: int = 0
    status: int | None = None
    """Of HTTP; None where no answer began."""
    final: int | None = None
    """The index of the last message, where it has ended well."""
    failed: str | None = None
    is_over: bool = False
    """Nothing more comes."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether its stream has begun: what was asked is kept by then."""
        return self.status == 200


class Talker:
    """One of them, in a thread of the machine."""

    def __init__(self, name: str, agent: str, caller: Door, crowd: Talkers) -> None:
        self.name = name
        self.threads: list[tuple[str, list[Told]]] = []
        """Every thread of Pallas that it has had, with its turns."""
        self._path = f"/api/v1/agents/{agent}"
        self._caller = caller
        self._crowd = crowd
        self._said = 0

    @property
    def last(self) -> Told:
        """The newest turn."""
        return self.threads[-1][1][-1]

    def begin(self) -> None:
        """A new thread, where there is none or the last one has enough turns."""
        if not self.threads or len(self.threads[-1][1]) >= TURNS_OF_A_THREAD:
            made = self._caller.rest("POST", f"{self._path.removeprefix('/api/v1')}/threads", json={})
            assert made.status_code == 201, made.text
            self.threads.append((made.json()["id"], []))

    def say(self) -> None:
        """Say something, and take in what comes, to its end or until the connection breaks."""
        self._said += 1
        thread, turns = self.threads[-1]
        told = Told(f"{self.name}-{self._said}")
        turns.append(told)
        host = self._caller.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        body = {"message": told.turn, "threadId": thread, "stream": True, "onBusy": "wait"}
        headers = {"Authorization": f"Bearer {self._caller.token}", "Content-Type": "application/json"}
        try:
            connection.request("POST", f"{self._path}/chat", json.dumps(body), headers)
            answer = connection.getresponse()
            told.status = answer.status
            for line in answer:
                if line.startswith(b"data: {"):
                    _note(told, json.loads(line[6:]))
                    self._crowd.told()
        except (OSError, http.client.HTTPException, ValueError):  # ValueError: of a line that was cut off
            pass
        finally:
            connection.close()
            told.is_over = True


class Talkers:
    """Several of them.

    Args:
        caller: whose token they have.
        agent: whom they talk to.
        count: how many they are.
    """

    def __init__(self, caller: Door, agent: str, count: int) -> None:
        self.all = [Talker(f"t{number}", agent, caller, self) for number in range(count)]
        self._news = threading.Condition()
        self._told = 0
        self._parked: set[str] = set()
        self._paused = True
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, args=(talker,), daemon=True) for talker in self.all
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._stopping = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(PATIENCE)

    def go_on(self) -> None:
        """Let all of them talk, after a `pause`; returns once the first turn of each has ended, and well."""
        firsts = []
        for talker in self.all:
            talker.begin()
            firsts.append((talker.threads[-1][1], len(talker.threads[-1][1])))
        with self._news:
            self._paused = False
            self._news.notify_all()
            for turns, first in firsts:
                over = self._news.wait_for(lambda t=turns, n=first: len(t) > n and t[n].is_over, PATIENCE)  # type: ignore[misc]
                assert over, f"a turn has no end: {turns[first:]}"
                assert turns[first].final is not None, (
                    f"the turn after the recovery has failed: {turns[first]}"
                )

    def until_more(self, events: int) -> None:
        """Return once so many more events were told to any of them."""
        with self._news:
            goal = self._told + events
            assert self._news.wait_for(lambda: self._told >= goal, PATIENCE), "nothing is told any more"

    def pause(self) -> None:
        """Return once each has ended the turn that it is at, well or not, and says nothing more."""
        with self._news:
            self._paused = True
            assert self._news.wait_for(lambda: len(self._parked) == len(self.all), PATIENCE), (
                "a turn has no end"
            )

    def told(self) -> None:
        """An event has come to one of them."""
        with self._news:
            self._told += 1
            self._news.notify_all()

    def _run(self, talker: Talker) -> None:
        while True:
            with self._news:
                self._parked.add(talker.name)
                self._news.notify_all()
                self._news.wait_for(lambda: self._stopping or not self._paused)
                self._parked.discard(talker.name)
                if self._stopping:
                    return
            talker.say()
            with self._news:
                self._news.notify_all()
                if talker.last.final is None:  # what answers is away: it comes again, as clients do
                    self._news.wait_for(lambda: self._paused or self._stopping, 0.2)


def _note(told: Told, event: dict[str, Any]) -> None:
    match event["type"]:
        case "text":
            told.text += event["delta"]
        case "reset":
            told.text = told.text[: len(told.text) - event["characters"]]
        case "tool_call":
            told.calls.append(event["args"]["text"])
        case "tool_result":
            assert event["ok"], event
            told.results += 1
        case "final":
            told.final = event["turnIndex"]
        case "error":
            told.failed = event["message"]
