"""Declared agents that run only while somebody calls: callers, kills among them, and what has to hold meanwhile.

Knows the resource API, an agent's unix socket and /proc; nothing of how agents start.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, override

from support.fleet.process_tree import descendants, open_descriptors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from support.fleet.fleet import Fleet

CALL_TIMEOUT = 120.0
"""Seconds after which a call counts as lost."""

PATIENCE = 120.0
"""Seconds for which a caller asks again who was answered with 503, or whose worker was killed."""

WORKER = "pallas-worker "


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CALL_TIMEOUT)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CALL_TIMEOUT)
        self.sock.connect(self._path)


def ask(path: str, agent: str, message: str) -> tuple[int, str]:
    """One chat completion of the agent that listens at `path`: its status, and its text or the error's body.

    Raises:
        OSError, http.client.HTTPException: the connection was refused or broken off.
    """
    body = json.dumps({"model": agent, "messages": [{"role": "user", "content": message}]})
    connection = UnixConnection(path)
    try:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read().decode()
    finally:
        connection.close()
    if answer.status != 200:
        return answer.status, said
    return 200, str(json.loads(said)["choices"][0]["message"]["content"])


def declared(count: int, idle_timeout: float) -> str:
    """Documents of so many agents that repeat what they are told."""
    documents = (
        {
            "apiVersion": "pallas/v1",
            "kind": "agent",
            "metadata": {"name": name},
            "spec": {"model": "passthrough", "run": {"idle_timeout": idle_timeout}},
        }
        for name in names(count)
    )
    return "\n---\n".join(json.dumps(document) for document in documents)


def names(count: int) -> list[str]:
    """What the agents are called."""
    return [f"echo-{number:04}" for number in range(count)]


def apply(fleet: Fleet, text: str) -> Counter[str]:
    """Apply documents, and count the outcomes."""
    answer = fleet.post("/v1/resources", files=[{"file": "agents.yaml", "text": text}])
    assert answer.status_code == 200, answer.text[:2000]
    assert not answer.json()["problems"], answer.text[:2000]
    return Counter(result["outcome"] for result in answer.json()["results"])


def sockets(fleet: Fleet) -> dict[str, str]:
    """Where each agent listens."""
    return {agent["name"]: agent["socket"] for agent in fleet.status()["agents"]}


@dataclass
class Tally:
    """What became of the calls."""

    answered: int = 0
    asked_again: int = 0
    """Answered with 503 for a while, as after a crash."""
    broken_off: int = 0
    """Under way at an agent whose worker, or at a supervisor which was killed."""
    failed: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    twice: list[str] = field(default_factory=list)
    """Agents of which two workers were seen at a time."""


class Crowd:
    """Callers of agents drawn at random, somebody who kills, and somebody who looks for what runs twice."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self.tally = Tally()
        self._random = random.Random(seed)
        self._sockets = sockets(fleet)
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._stopping = threading.Event()
        self._killed: list[tuple[str | None, float, float]] = []
        """Whose worker (None: the supervisor), from when to when it was not there."""

    def run(self, kills: Iterable[str], *, between: int, callers: int, pause: float) -> Tally:
        """Call, and kill one after the other whenever `between` more calls have been answered; return after that."""
        self._stopping.clear()
        threads = [threading.Thread(target=self._call, args=(pause,)) for _ in range(callers)]
        threads.append(threading.Thread(target=self._look))
        for thread in threads:
            thread.start()
        try:
            self._await_answers(between)
            for kind in kills:
                self._kill(kind)
                self._await_answers(between)
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()
        return self.tally

    def _await_answers(self, more: int) -> None:
        with self._news:
            wanted = self.tally.answered + more
            came = self._news.wait_for(
                lambda: self.tally.answered >= wanted or bool(self.tally.failed), CALL_TIMEOUT
            )
        assert came, f"no {more} answers within {CALL_TIMEOUT:g} s: {self.tally}"

    # --- callers ------------------------------------------------------------------------------------------

    def _call(self, pause: float) -> None:
        number = 0
        while not self._stopping.is_set():
            with self._lock:
                agent = self._random.choice(list(self._sockets))
                wait = self._random.uniform(0, 2 * pause)
            number += 1
            self._one_call(agent, f"{threading.get_ident()}-{number}")
            self._stopping.wait(wait)

    def _one_call(self, agent: str, message: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (begun := time.monotonic()) < deadline:
            try:
                status, said = ask(self._sockets[agent], agent, message)
            except (OSError, http.client.HTTPException) as error:
                status, said = 0, repr(error)
            with self._lock:
                if (status, said) == (200, message):
                    self.tally.answered += 1
                    self._news.notify_all()
                    return
                if self._was_killed(agent, begun):
                    self.tally.broken_off += 1
                elif status == 503:
                    self.tally.asked_again += 1
                else:
                    self.tally.failed.append(f"{agent}: {status} {said[:300]}")
                    self._news.notify_all()
                    return
            time.sleep(0.2)  # a client's own patience; what it waits for has no event for it
        with self._lock:
            self.tally.failed.append(f"{agent}: still not answered: {status} {said[:300]}")

    def _was_killed(self, agent: str, begun: float) -> bool:
        return any(who in (agent, None) and end >= begun for who, _, end in self._killed)

    # --- kills --------------------------------------------------------------------------------------------

    def _kill(self, kind: str) -> None:
        begun = time.monotonic()
        match kind:
            case "worker":
                running: list[tuple[int, str]] = []

                def there() -> bool:
                    running[:] = sorted(self._living())
                    return bool(running)

                self.fleet.await_that(there, "a worker runs")
                pid, agent = self._random.choice(running)
                self._note(agent, begun, begun + 2)  # noted first: its callers notice at once
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            case "zygote":
                # A start that was under way there is made again; nobody is to notice.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.fleet.zygote().pid, signal.SIGKILL)
            case "supervisor":
                self._note(None, begun, begun + 3600)
                os.kill(self.fleet.pid, signal.SIGKILL)
                assert self.fleet.process is not None
                self.fleet.process.wait()
                self.fleet.start()
                self._killed[:] = [each for each in self._killed if each[0] is not None]
                self._note(None, begun, time.monotonic())
        with self._lock:
            self.tally.kills[kind] += 1

    def _note(self, who: str | None, begun: float, end: float) -> None:
        with self._lock:
            self._killed.append((who, begun, end))

    # --- what is looked at ----------------------------------------------------------------------------------

    def _look(self) -> None:
        while not self._stopping.wait(0.1):
            with contextlib.suppress(OSError):
                seen = Counter(self._workers().values())
                with self._lock:
                    self.tally.twice += [agent for agent, count in seen.items() if count > 1]

    def _workers(self) -> dict[int, str]:
        """The workers that live, by process."""
        return dict(self._living())

    def _living(self) -> Iterator[tuple[int, str]]:
        for process in descendants(self.fleet.pid):
            if process.title.startswith(WORKER) and not process.zombie:
                yield process.pid, process.title.removeprefix(WORKER).split()[0]


def rest(fleet: Fleet) -> Counter[str]:
    """What is there while nobody calls: the processes below the supervisor, and its descriptors by kind."""
    processes = Counter(process.title.split()[0] for process in descendants(fleet.pid) if process.title)
    return processes + open_descriptors(fleet.pid)


def await_rest(fleet: Fleet) -> None:
    """Wait until all agents are idle."""
    fleet.await_that(
        lambda: all(agent["state"] == "idle" for agent in fleet.status()["agents"]), "all are idle"
    )
