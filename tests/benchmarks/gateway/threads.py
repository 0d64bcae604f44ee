"""Conversations in a full store: pages of lists, a long thread, and what a turn costs the store; SQLite and PostgreSQL.

Pages are asked over REST at the gateway of a whole deployment, on a connection that is kept; the store is filled
beforehand. What a turn costs is the CPU time of a process that does nothing but its transactions, as the gateway asks
for them, and of PostgreSQL's processes. Prints tables for docs/performance.md.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click
import psutil

from benchmarks.fleet import cpu_seconds, machine
from pallas_gateway.store.conversations import threads
from pallas_gateway.store.conversations.records import Message, Row, ToolCall
from pallas_gateway.store.database import open_store
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, operator_token, with_gateway
from support.gateway.postgres import shared_postgres
from support.gateway.turns import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from pallas_gateway.store.database import Store

AGENT, SELDOM = "echo", "seldom"
LONG = "long"
"""The id of the thread that is long."""
OTHERS = 0.1
"""Share of the threads that are somebody else's, and of those with the agent that is seldom asked."""
RARE = 1000
"""One in so many threads has the rare word."""
AT_A_TIME = 500
"""Threads that are filled in with one transaction."""
MOST_PAGE, MOST_OPEN, MOST_TURN = 50.0, 200.0, 3.0
"""Milliseconds: of a page, of a thread that is opened, of CPU in the store for a turn with SQLite."""
PLENTY = 1_000_000
VOCABULARY = [
    f"{first}{second}" for first in "bcdfghjklmnprst" for second in ("ala", "ero", "ino", "osa", "ute", "yra")
]
TURNS_OF_THREAD = 5


@dataclass
class Door:
    """The gateway, asked by one principal on one connection."""

    port: int
    token: str
    pid: int
    _connection: http.client.HTTPConnection | None = None

    def cpu(self) -> float:
        """Milliseconds of CPU that the gateway has used so far (proc(5), schedstat), whatever else the machine does."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in tasks) / 1e6

    def get(self, path: str, **query: str) -> tuple[float, dict[str, Any]]:
        """Milliseconds until the whole answer was there, and the answer."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        target = f"/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        began = time.perf_counter()
        self._connection.request("GET", target, headers={"Authorization": f"Bearer {self.token}"})
        answer = self._connection.getresponse()
        body = answer.read()
        took = (time.perf_counter() - began) * 1000
        if answer.status != 200:
            raise click.ClickException(f"{target}: HTTP status {answer.status}: {body[:500]!r}")
        found: dict[str, Any] = json.loads(body)
        return took, found


@click.command()
@click.option("--threads", "number", default=100_000, show_default=True, help="In the store.")
@click.option("--messages", default=2000, show_default=True, help="Of the long thread.")
@click.option("--rounds", default=7, show_default=True, help="Each asks for everything once.")
@click.option("--turns", default=100, show_default=True, help="That are measured in each of five parts.")
@click.option("--store", "only", type=click.Choice(["sqlite", "postgresql"]), help="This one alone.")
def main(number: int, messages: int, rounds: int, turns: int, only: str | None) -> None:
    """Measure, and print tables."""
    kept = True
    for kind in ("sqlite", "postgresql") if only is None else (only,):
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:{folder}/threads.db" if kind == "sqlite" else shared_postgres().new_database()
            kept = measure(kind, url, Path(folder), number, messages, rounds, turns) and kept
    sys.exit(0 if kept else 1)


def measure(kind: str, url: str, folder: Path, number: int, messages: int, rounds: int, turns: int) -> bool:
    """One database; whether all bounds are kept."""
    deployment = make_deployment(folder / "fleet", AGENT, SELDOM)
    limits = dict.fromkeys(("requests_per_minute", "tenant_requests_per_minute"), PLENTY)
    with Fleet(with_gateway(deployment, limits=limits, store=url)) as fleet:
        fleet.wait()
        await_gateway(fleet)
        pid = fleet.status()["gateway"]["pid"]
        door = Door(deployment.document["gateway"]["port"], operator_token(fleet), pid)
        began = time.monotonic()
        filled = asyncio.run(fill(url, door, number, messages))
        took = time.monotonic() - began
        print(
            f"\n{kind}: {machine()}; {filled} threads of two messages, filled in {took:.0f} s; medians of {rounds}"
            f" rounds; load {os.getloadavg()[0]:.1f} before\n",
            flush=True,
        )
        kept = pages(door, rounds)
        kept = opened(door, rounds) and kept
        print(f"\nload {os.getloadavg()[0]:.1f} afterwards", flush=True)
    return asyncio.run(costs(kind, url, turns)) and kept


async def fill(url: str, door: Door, number: int, messages: int) -> int:
    """Threads of the one who asks, and of others; how many."""
    store = await asyncio.to_thread(open_store, url)
    draw = random.Random(1)
    try:
        # Whose token it is says a thread that was made with it.
        connection = http.client.HTTPConnection("127.0.0.1", door.port)
        headers = {"Authorization": f"Bearer {door.token}", "Content-Type": "application/json"}
        connection.request("POST", f"/api/v1/agents/{AGENT}/threads", "{}", headers)
        made = json.loads(connection.getresponse().read())
        found = await store.read(partial(threads.find_thread, tenant=rows.TENANT, id=made["id"]))
        assert found is not None
        await store.write(
            partial(import_one, thread=LONG, owner=found.owner, said=long_thread(draw, messages))
        )
        for start in range(0, number, AT_A_TIME):
            batch = [
                (
                    f"t{place:07}",
                    "somebody else" if draw.random() < OTHERS else found.owner,
                    SELDOM if draw.random() < OTHERS else AGENT,
                    two_messages(draw, place),
                )
                for place in range(start, min(start + AT_A_TIME, number))
            ]
            await store.write(partial(import_all, batch=batch), durable=False)
        await store.write(settle)
    finally:
        await store.close()
    return number + 2


def settle(connection: Connection) -> None:
    """What PostgreSQL's autovacuum does by itself within a minute."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ANALYZE threads, messages")


def import_all(connection: Connection, batch: list[tuple[str, str, str, list[Message]]]) -> None:
    """Some threads."""
    for id_, owner, agent, said in batch:
        import_one(connection, thread=id_, owner=owner, agent=agent, said=said)


def import_one(
    connection: Connection, *, thread: str, owner: str, said: list[Message], agent: str = AGENT
) -> None:
    """One thread."""
    threads.import_thread(
        connection,
        tenant=rows.TENANT,
        id=thread,
        agent=agent,
        agent_key=agent,
        owner=owner,
        title=said[0].row.text[:60],
        messages=said,
    )


def words(draw: random.Random, number: int) -> str:
    """So many words, some of them common and some not."""
    return " ".join(
        draw.choices(VOCABULARY, [1 / place for place in range(1, len(VOCABULARY) + 1)], k=number)
    )


def message(row: Row, index: int) -> Message:
    """Complete, of now."""
    return Message(
        turn_index=index, turn=f"turn {index}", row=row, status="complete", created=dt.datetime.now(dt.UTC)
    )


def two_messages(draw: random.Random, place: int) -> list[Message]:
    """A question and an answer; some have the rare word."""
    rare = "zanzibar " if place % RARE == 0 else ""
    said = (rows.user(words(draw, 12)), rows.answer(rare + words(draw, 40)))
    return [message(row, index) for index, row in enumerate(said)]


def long_thread(draw: random.Random, number: int) -> list[Message]:
    """Turns with one tool call each."""
    found: list[Row] = []
    while len(found) < number:
        found += turn_rows(draw, len(found))
    return [message(row, index) for index, row in enumerate(found[:number])]


def turn_rows(draw: random.Random, place: int) -> list[Row]:
    """What is asked, the call of a tool, its result, and the answer."""
    call = ToolCall(
        f"call_{place}", "files__read", json.dumps({"path": f"/srv/{words(draw, 2)}", "lines": 40})
    )
    state = {"channels": {"fast-agent-timing": [{"type": "text", "text": "x" * 120}]}}
    return [
        rows.user(words(draw, 25)),
        Row(role="assistant", content=words(draw, 10), tool_calls=(call,), state=state),
        Row(role="tool", content=words(draw, 120), tool_call_id=call.id),
        rows.answer(words(draw, 80)),
    ]


def pages(door: Door, rounds: int) -> bool:
    """Lists; whether each page is in time."""
    asked: dict[str, tuple[str, dict[str, str]]] = {}
    for name, query in (("own", {}), ("all owners'", {"owner": "all"})):
        middle, last = cursors(door, query)
        asked[f"{name}, first page"] = ("/threads", query)
        asked[f"{name}, in the middle"] = ("/threads", {**query, "cursor": middle})
        asked[f"{name}, last page"] = ("/threads", {**query, "cursor": last})
        for what, text in (
            ("a common word", VOCABULARY[0]),
            ("two common words", f"{VOCABULARY[0]} {VOCABULARY[1]}"),
            ("a beginning of many words", VOCABULARY[0][:3]),
            ("a rare word", "zanzibar"),
            ("a rare and a common word", f"zanzibar {VOCABULARY[0]}"),
            ("a word that is nowhere", "qqqqq"),
        ):
            asked[f"{name}, `q=` {what}"] = ("/threads", {**query, "q": text})
        asked[f"{name}, with an agent that is seldom asked"] = (f"/agents/{SELDOM}/threads", query)
        asked[f"{name}, the same with `q=` a rare word"] = (
            f"/agents/{SELDOM}/threads",
            {**query, "q": "zanzibar"},
        )
    return table("a page of 100", asked, door, rounds, MOST_PAGE)


def cursors(door: Door, query: dict[str, str]) -> tuple[str, str]:
    """Those of a page in the middle, and of the last one."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page = door.get("/threads", limit="1000", **query, **cursor)
        if page["nextCursor"] is None:
            return found[len(found) // 2], found[-1]
        found.append(page["nextCursor"])
        cursor = {"cursor": page["nextCursor"]}


def opened(door: Door, rounds: int) -> bool:
    """The long thread, asked for as a client does that shows all of it; whether it is there in time."""

    def whole() -> tuple[float, float, int]:
        before = door.cpu()
        took, _ = door.get(f"/threads/{LONG}")
        count, cursor = 0, dict[str, str]()
        while True:
            more, page = door.get(f"/threads/{LONG}/messages", limit="1000", **cursor)
            took, count = took + more, count + len(page["items"])
            if page["nextCursor"] is None:
                return took, door.cpu() - before, count
            cursor = {"cursor": page["nextCursor"]}

    times, cpu, counts = zip(*(whole() for _ in range(rounds)), strict=True)
    median = statistics.median(times)
    print(
        f"\na thread of {counts[0]} messages, all of it: {median:.0f} ms, at most {max(times):.0f} ms; CPU of the"
        f" gateway {statistics.median(cpu):.0f} ms",
        flush=True,
    )
    return bool(median <= MOST_OPEN)


def table(
    what: str, asked: dict[str, tuple[str, dict[str, str]]], door: Door, rounds: int, most: float
) -> bool:
    """Ask for all in turn, and print medians."""
    times: dict[str, list[float]] = {name: [] for name in asked}
    cpu: dict[str, list[float]] = {name: [] for name in asked}
    counts: dict[str, int] = {}
    for _ in range(rounds):
        for name, (path, query) in asked.items():
            before = door.cpu()
            took, answer = door.get(path, **query)
            cpu[name].append(door.cpu() - before)
            times[name].append(took)
            counts[name] = len(answer["items"])
    print(f"| {what} | threads | ms | at most | CPU ms of the gateway |\n|---|---|---|---|---|")
    for name, found in times.items():
        figures = f"{statistics.median(found):.1f} | {max(found):.1f} | {statistics.median(cpu[name]):.1f}"
        print(f"| {name} | {counts[name]} | {figures} |", flush=True)
    return all(statistics.median(found) <= most for found in times.values())


async def costs(kind: str, url: str, number: int) -> bool:
    """What a turn costs the store; whether that is little enough."""
    store = await asyncio.to_thread(open_store, url)
    draw = random.Random(2)
    try:
        await turns_of(store, draw, "warm", TURNS_OF_THREAD * 4)
        short = [await turns_of(store, draw, f"short {part}", number) for part in range(5)]
        long = [await long_turn(store, draw, f"turn {part}") for part in range(5)]
    finally:
        await store.close()
    own, server = (statistics.median(found) for found in zip(*short, strict=True))
    own_long, server_long = (statistics.median(found) for found in zip(*long, strict=True))

    def beside(ms: float) -> str:
        return "" if kind == "sqlite" else f" and {ms:.1f} ms of PostgreSQL"

    print(
        f"\na turn with one tool call, in a thread of at most {TURNS_OF_THREAD}, CPU in the store: {own:.1f} ms"
        f"{beside(server)} (medians of five times {number}, {min(each[0] for each in short):.1f} to"
        f" {max(each[0] for each in short):.1f}); as the next one of the long thread, whose history is read:"
        f" {own_long:.0f} ms{beside(server_long)}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return kind != "sqlite" or own <= MOST_TURN


async def turns_of(store: Store, draw: random.Random, name: str, number: int) -> tuple[float, float]:
    """Milliseconds of CPU for a turn: of this process, and of PostgreSQL."""
    every = [turn_rows(draw, place) for place in range(number)]
    own, server = time.process_time(), servers_seconds()
    for place, said in enumerate(every):
        thread = f"{name} {place // TURNS_OF_THREAD}"
        await one_turn(store, thread, f"{name} {place}", said, is_new=place % TURNS_OF_THREAD == 0)
    used = (time.process_time() - own, servers_seconds() - server)
    return used[0] * 1000 / number, used[1] * 1000 / number


async def long_turn(store: Store, draw: random.Random, name: str) -> tuple[float, float]:
    """The same of one turn in the long thread."""
    said = turn_rows(draw, 0)
    own, server = time.process_time(), servers_seconds()
    await one_turn(store, LONG, name, said, is_new=False)
    return (time.process_time() - own) * 1000, (servers_seconds() - server) * 1000


async def one_turn(store: Store, thread: str, turn: str, said: list[Row], *, is_new: bool) -> None:
    """The four transactions of a turn with one tool call, as the gateway asks for them."""
    asked, call, result, answer = said

    def begin(connection: Connection) -> None:
        if is_new:
            rows.make_thread(connection, thread, title=asked.text[:60])
        rows.begin(connection, thread, turn, asked)

    steps: tuple[Callable[[Connection], object], ...] = (
        begin,
        lambda it: rows.keep(it, thread, turn, [], [call, Row(role="tool", content="", tool_call_id="c")]),
        lambda it: rows.keep(it, thread, turn, [], [call, result]),
        lambda it: rows.finish(it, thread, turn, call, result, answer),
    )
    for step in steps:
        await store.write(step, durable=False)


def servers_seconds() -> float:
    """CPU time of PostgreSQL's processes so far."""
    return sum(cpu_seconds(each) for each in servers())


def servers() -> Iterator[psutil.Process]:
    """PostgreSQL's processes."""
    for each in psutil.process_iter(["name"]):
        if each.info["name"] == "postgres":
            yield each


if __name__ == "__main__":
    main()
