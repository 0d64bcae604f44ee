"""Clients that ask again and again, patiently: each request has to be answered, however long it takes.

Knows HTTP; half of the clients open a connection for every request, the others keep theirs as long as they may.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, override

if TYPE_CHECKING:
    from collections.abc import Iterable

PATIENCE = 90.0
PAUSE = 0.02
"""Seconds between two requests of a client: the cores are for those who answer."""
REUSE = 0.4
"""Seconds after a request within which another one may use its connection.

What is about to end closes connections that have been idle for half a second, and a client may stand still for as long.
"""


class UnixConnection(http.client.HTTPConnection):
    """A connection to a unix socket; `localhost` is only said in its Host header."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    @override
    def connect(self) -> None:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(PATIENCE)
        try:
            connected.connect(self._path)
        except OSError:
            connected.close()
            raise
        self.sock = connected


@dataclass(frozen=True)
class Question:
    """One request and what its answer has to contain."""

    place: int | str
    """A port of this machine, or the path of a unix socket."""
    method: str = "GET"
    path: str = "/livez"
    body: str | None = None
    expected: str = "ok"

    @classmethod
    def to_agent(cls, place: int | str, message: str = "still there?") -> Question:
        """A whole MCP call."""
        params = {"name": "send_message", "arguments": {"message": message}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return cls(place, "POST", "/mcp", json.dumps(call), message)

    def connection(self) -> http.client.HTTPConnection:
        """Where it can be asked; not connected yet."""
        if isinstance(self.place, int):
            return http.client.HTTPConnection("127.0.0.1", self.place, timeout=PATIENCE)
        return UnixConnection(self.place)

    def ask(self, connection: http.client.HTTPConnection) -> str | None:
        """None if the answer is good, else what it is."""
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2025-11-25",
        }
        connection.request(self.method, self.path, self.body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        return None if response.status == 200 and self.expected in text else f"{response.status} {text[:200]}"


def ask_in_thread(question: Question) -> tuple[threading.Thread, list[str]]:
    """Connect now, and have the rest of the exchange in a thread; its outcome."""
    outcome: list[str] = []
    connection = question.connection()
    connection.connect()
    thread = threading.Thread(target=lambda: outcome.append(question.ask(connection) or "good"))
    thread.start()
    return thread, outcome


@dataclass
class SteadyClients:
    """One thread for each question and manner, from `start` to `stop`."""

    questions: Iterable[Question]
    manners: tuple[bool, ...] = (False, True)
    """Whether connections are kept."""
    answered: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Connections that could not be made."""
    lost: list[str] = field(default_factory=list)
    """Requests without an answer."""
    wrong: list[str] = field(default_factory=list)
    """Answers that are none."""

    def __post_init__(self) -> None:
        self._news = threading.Condition()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(question, keep), daemon=True)
            for question in self.questions
            for keep in self.manners
        ]

    def start(self) -> None:
        """Begin; the sockets are in the calling thread's network namespace."""
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let every client have the answer that it waits for, and end."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads), "a client still waits for its answer"

    def until_more(self, count: int) -> None:
        """Return once every client has got so many good answers more."""
        with self._news:
            goal = {name: number + count for name, number in self._counts().items()}
            done = self._news.wait_for(lambda: self._reached(goal), PATIENCE)
            assert done, (goal, self.answered, self.failures)

    @property
    def failures(self) -> list[str]:
        """All that went wrong."""
        return [*self.refused, *self.lost, *self.wrong]

    def _counts(self) -> dict[str, int]:
        return {thread.name: self.answered.get(thread.name, 0) for thread in self._threads}

    def _reached(self, goal: dict[str, int]) -> bool:
        return all(self.answered.get(name, 0) >= count for name, count in goal.items())

    def _run(self, question: Question, keep: bool) -> None:
        name = threading.current_thread().name
        connection = question.connection()
        asked = 0.0
        while not self._stopping.wait(PAUSE):
            if time.monotonic() - asked > REUSE:
                connection.close()
            try:
                if connection.sock is None:
                    connection.connect()
            except OSError as error:
                self.refused.append(f"{question.place}: {error!r}")
                continue
            asked = time.monotonic()
            try:
                wrong = question.ask(connection)
            except (OSError, http.client.HTTPException) as error:
                self.lost.append(f"{question.place}, keep={keep}: {error!r}")
                connection.close()
                continue
            if not keep:
                connection.close()
            with self._news:
                if wrong is None:
                    self.answered[name] = self.answered.get(name, 0) + 1
                else:
                    self.wrong.append(f"{question.place}: {wrong}")
                self._news.notify_all()
        connection.close()
