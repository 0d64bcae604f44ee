"""Callers of the gateway that go on whatever happens to it, and what was acknowledged to them.

Knows what may be lost when a process is killed: what was under way, and nothing that was answered.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import httpx

from support.gateway.door import ACCEPT, LATEST, META, Door
from support.supervisor.declared import document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PATIENCE = 90.0
UNLIMITED = {
    "requests_per_minute": 1_000_000,
    "concurrent": 1000,
    "tenant_requests_per_minute": 1_000_000,
    "tenant_concurrent": 1000,
}
"""Limits of a gateway that no load here reaches."""
AWAY = (502, 503)
"""Statuses by which a caller is asked to come again."""


@dataclass
class Tally:
    """What became of the requests."""

    answered: list[str] = field(default_factory=list)
    """The request ids of those that were answered well."""
    refused: list[str] = field(default_factory=list)
    """Connections that could not be made."""
    broken_off: int = 0
    """Under way when what answered was killed."""
    asked_to_return: int = 0
    wrong: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass
class Callers:
    """So many threads, each of which calls a tool again and again through the gateway."""

    port: int
    token: str
    count: int
    tool: str
    arguments: dict[str, object]
    expected: str
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._news = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(self.count)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads), "a caller still waits for its answer"

    def until_more(self, count: int) -> None:
        """Return once so many more calls were answered."""
        with self._news:
            goal = len(self.tally.answered) + count
            assert self._news.wait_for(lambda: len(self.tally.answered) >= goal, PATIENCE), self.tally

    def _run(self, caller: int) -> None:
        connection: http.client.HTTPConnection | None = None
        number = 0
        while not self._stopping.is_set():
            number += 1
            request = f"call-{caller}-{number}"
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
                try:
                    connection.connect()
                except OSError as error:
                    self._note(lambda tally, error=error: tally.refused.append(repr(error)))  # type: ignore[misc]
                    connection = None
                    continue
            try:
                status, text = self._ask(connection, request)
            except (OSError, http.client.HTTPException):
                connection.close()
                connection = None
                self._note(_broken_off)
                continue
            if status in AWAY:
                connection.close()
                connection = None
                self._note(_asked_to_return)
                time.sleep(0.05)  # as the answer's Retry-After asks for, in a test's time
            elif status == 200 and self.expected in text:
                self._note(lambda tally, request=request: tally.answered.append(request))  # type: ignore[misc]
            else:
                self._note(lambda tally, said=f"{status} {text[:300]}": tally.wrong.append(said))  # type: ignore[misc]

    def _note(self, change: Callable[[Tally], None]) -> None:
        with self._news:
            change(self.tally)
            self._news.notify_all()

    def _ask(self, connection: http.client.HTTPConnection, request: str) -> tuple[int, str]:
        meta = {
            f"{META}protocolVersion": LATEST["stateless"],
            f"{META}clientInfo": {"name": "load", "version": "1"},
            f"{META}clientCapabilities": {},
        }
        params = {"name": self.tool, "arguments": self.arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": params})
        headers = {
            "Accept": ACCEPT,
            "Content-Type": "application/json",
            "MCP-Protocol-Version": LATEST["stateless"],
            "Mcp-Method": "tools/call",
            "Mcp-Name": self.tool,
            "Authorization": f"Bearer {self.token}",
            "X-Request-Id": request,
        }
        connection.request("POST", "/mcp", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def _broken_off(tally: Tally) -> None:
    tally.broken_off += 1


def _asked_to_return(tally: Tally) -> None:
    tally.asked_to_return += 1


class Making:
    """Makes tokens again and again, and notes those that were acknowledged."""

    def __init__(self, caller: Door, *, agents: bool = False) -> None:
        self._caller = caller
        self._with_agents = agents
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._news = threading.Condition()
        self.made: dict[str, str] = {}
        """Text by id."""
        self.agents: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(90)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            wanted = {"name": f"made-{number}", "role": "human", "grants": ["view:agents"]}
            with contextlib.suppress(httpx.TransportError):
                if self._with_agents and number % 4 == 1:
                    self._make_agent(f"made-{number}")
                answer = self._caller.rest("POST", "/tokens", json=wanted)
                if answer.status_code in (200, 201):
                    made = answer.json()
                    with self._news:
                        self.made[made["id"]] = made["token"]
                        self._news.notify_all()

    def _make_agent(self, name: str) -> None:
        body = document("agent", name, model="passthrough")
        answer = self._caller.rest("PUT", f"/resources/agent/{name}", content=body)
        if answer.status_code in (200, 201):
            self.agents.append(name)

    def until_more(self, count: int) -> None:
        """Return once so many more were made."""
        with self._news:
            goal = len(self.made) + count
            assert self._news.wait_for(lambda: len(self.made) >= goal, PATIENCE), "no token is made any more"


def check_made(caller: Door, made: Mapping[str, str]) -> None:
    """Tokens that were acknowledged are there, and count.

    Args:
        made: text by id.
    """
    assert made
    known = {row["id"] for row in caller.rest("GET", "/tokens").json()["tokens"]}
    assert made.keys() <= known
    assert all(Door(caller.url, text).ask("ping").status != 401 for text in list(made.values())[-3:])


def audited(state: Path) -> set[str]:
    """The requests in the audit, in files that were put aside, too; a line that was cut off is passed over."""
    found: set[str] = set()
    for file in state.glob("audit.jsonl*"):
        for line in file.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.add(json.loads(line).get("request_id"))
    return found


def unended(state: Path) -> set[str]:
    """The calls in the audit that have begun, and of which no line says how they went."""
    begun: set[str] = set()
    for file in sorted(state.glob("audit.jsonl*"), reverse=True):
        for text in file.read_text().splitlines():
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                if line.get("outcome") == "begun":
                    begun.add(line["id"])
                else:
                    begun.discard(line.get("id"))
    return begun
