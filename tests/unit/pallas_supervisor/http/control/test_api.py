"""The control API over ASGI, on a real fleet without processes: every route, every refusal, every wait."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_supervisor.http.control.requests import MAX_BODY, MAX_QUERY
from pallas_supervisor.lifecycle.states import Exit, State
from pallas_supervisor.sockets.listeners import PortsTakenError
from support.ports import free_ports
from support.supervisor.rig import Rig, rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


class Bench:
    """A rig and an HTTP client of its control API."""

    def __init__(self, rig: Rig, client: httpx.AsyncClient) -> None:
        self.rig = rig
        self.client = client

    async def post(self, path: str, body: object = None, *, status: int = 200) -> dict[str, Any]:
        # In ASCII: half a surrogate pair can be written, and has no bytes.
        content = json.dumps(body if body is not None else {})
        response = await self.client.post(path, content=content)
        assert response.status_code == status, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def get(self, path: str, *, status: int = 200) -> dict[str, Any]:
        response = await self.client.get(path)
        assert response.status_code == status, response.text
        answer: dict[str, Any] = response.json()
        return answer


def on_bench(directory: Path, do: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        library, research = free_ports(2)
        agents: dict[str, dict[str, Any]] = {
            "library": {"port": library},
            "research": {"port": research, "depends_on": ["library"]},
        }
        async with rig(directory, agents) as made:
            application = made.control_api()
            transport = httpx.ASGITransport(application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://pallas") as client:
                await do(Bench(made, client))

    asyncio.run(run())


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_status_document(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        bench.rig.operations.start([])
        bench.rig.come_up("library")
        document = await bench.get("/v1/status")
        assert set(document) == {
            "deployment",
            "file",
            "directory",
            "url",
            "supervisor",
            "configuration",
            "agents",
            "gateway",
            "events",
        }
        assert document["events"] == bench.rig.manager.events.position._asdict()
        assert document["deployment"] == "demo"
        assert set(document["supervisor"]) == {"pid", "version", "since", "state_directory"}
        library, research = document["agents"]
        assert (library["name"], library["state"], library["desired"]) == ("library", "ready", "up")
        assert research["depends_on"] == ["library"]
        assert set(library) == {
            "name", "state", "desired", "pid", "port", "url", "restarts", "failures", "max_failures", "since", "health",
            "message", "last_exit", "generation", "start", "source", "socket", "depends_on", "resident_memory",
            "outdated", "changed_code", "replacing", "replacement",
        }  # fmt: skip

    on_bench(tmp_path, do)


def test_health_is_the_public_document(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        bench.rig.operations.start([])
        document = await bench.get("/v1/health")
        assert document["status"] == "error"
        assert document["agents"]["research"]["message"] == "waiting for library (starting)"

    on_bench(tmp_path, do)


def test_start_answers_once_all_that_was_named_is_ready(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        starting = asyncio.ensure_future(bench.post("/v1/start", {"agents": ["research"]}))
        await settled()
        bench.rig.come_up("library")
        bench.rig.come_up("research")
        answer = await starting
        assert answer["done"] is True
        assert [(agent["name"], agent["state"]) for agent in answer["agents"]] == [("research", "ready")]
        assert (await bench.post("/v1/start"))["done"] is True, "it is idempotent"

    on_bench(tmp_path, do)


def test_start_says_when_it_will_not_be(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        starting = asyncio.ensure_future(bench.post("/v1/start", {"agents": ["library"]}))
        await settled()
        bench.rig.appear("library")
        bench.rig.end("library", Exit(status=78))
        answer = await starting
        assert answer["done"] is False
        assert answer["agents"][0]["state"] == "failed"
        assert "error" not in answer

    on_bench(tmp_path, do)


def test_stop_and_restart(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        bench.rig.operations.start([])
        bench.rig.come_up("library")
        bench.rig.come_up("research")
        restarting = asyncio.ensure_future(bench.post("/v1/restart", {"agents": ["research"]}))
        await settled()
        bench.rig.come_up("research")
        await settled()
        assert not restarting.done(), "the old worker drains"
        bench.rig.end("research", old=True)
        answer = await restarting
        assert answer["done"] is True
        assert answer["agents"][0]["generation"] == 2
        restarting = asyncio.ensure_future(bench.post("/v1/restart", {"agents": ["research"], "now": True}))
        await settled()
        assert bench.rig.states()["research"] == "stopping"
        bench.rig.end("research")
        bench.rig.come_up("research")
        assert (await restarting)["agents"][0]["generation"] == 3
        stopping = asyncio.ensure_future(bench.post("/v1/stop"))
        await settled()
        for name in ("research", "library"):
            bench.rig.end(name)
        answer = await stopping
        assert answer["done"] is True
        assert [agent["state"] for agent in answer["agents"]] == ["stopped", "stopped"]

    on_bench(tmp_path, do)


def test_what_others_need_is_stopped_only_with_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        bench.rig.operations.start([])
        bench.rig.come_up("library")
        bench.rig.come_up("research")
        with caplog.at_level("INFO"):
            refused = await bench.post("/v1/stop", {"agents": ["library"]}, status=409)
        told = [record for record in caplog.records if record.name == "pallas.supervisor.control"]
        assert [record.getMessage() for record in told] == ["stop of library, asked for by somebody"]
        assert refused["error"] == ("research needs library; stop it as well with --cascade, or name it")
        assert set(bench.rig.states().values()) == {"ready"}
        stopping = asyncio.ensure_future(bench.post("/v1/stop", {"agents": ["library"], "cascade": True}))
        await settled()
        bench.rig.end("research")
        bench.rig.end("library")
        answer = await stopping
        assert {agent["name"]: agent["state"] for agent in answer["agents"]} == {
            "library": "stopped",
            "research": "stopped",
        }
        again = await bench.post("/v1/stop", {"agents": ["library"]})
        assert again["done"] is True, "research is not wanted any more"

    on_bench(tmp_path, do)


def test_waiting_for_an_agent_whose_dependency_failed_ends_at_once(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        starting = asyncio.ensure_future(bench.post("/v1/start", {"agents": ["research"]}))
        await settled()
        bench.rig.appear("library")
        bench.rig.end("library", Exit(status=78))
        answer = await starting
        assert answer["done"] is False
        assert answer["agents"][0]["message"] == "waiting for library (failed: exit status 78)"

    on_bench(tmp_path, do)


def test_without_wait_the_answer_comes_at_once(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.post("/v1/start", {"agents": ["library"], "wait": False})
        assert answer["done"] is False
        assert answer["agents"][0]["state"] == "starting"

    on_bench(tmp_path, do)


def test_a_timeout_is_504_with_the_agents_as_they_are(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.post("/v1/start", {"timeout": 0.1}, status=504)
        assert answer["done"] is False
        assert answer["error"] == "not ready within 0.1 s"
        assert [agent["state"] for agent in answer["agents"]] == ["starting", "waiting"]

    on_bench(tmp_path, do)


def test_a_timeout_of_nothing_asks_how_it_is(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.post("/v1/wait", {"timeout": 0, "for": "ready", "agents": ["library"]})
        bench.rig.operations.start([])
        await bench.post("/v1/wait", {"timeout": 0, "agents": ["library"]}, status=504)
        bench.rig.come_up("library")
        assert (await bench.post("/v1/wait", {"timeout": 0, "agents": ["library"]}))["done"] is True

    on_bench(tmp_path, do)


def test_wait_for_each_goal(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        assert (await bench.post("/v1/wait", {"for": "stopped"}))["done"] is True
        assert (await bench.post("/v1/wait", {"for": "settled"}))["done"] is True
        assert (await bench.post("/v1/wait", {"for": "ready"}))["done"] is False

    on_bench(tmp_path, do)


def test_waits_do_not_accumulate(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        for _ in range(5):
            await bench.post("/v1/wait", {"for": "ready", "timeout": 0.001, "agents": ["library"]})
        bench.rig.operations.start([])
        for _ in range(5):
            await bench.post(
                "/v1/wait", {"for": "ready", "timeout": 0.001, "agents": ["library"]}, status=504
            )
        assert not bench.rig.manager.engine._changed

    on_bench(tmp_path, do)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("start", {"agents": "research"}, "`agents` is a list of names"),
        ("start", {"agents": [1]}, "`agents` is a list of names"),
        ("stop", {"wait": "yes"}, "`wait` is true or false"),
        ("stop", {"timeout": "soon"}, "`timeout` is a number of seconds from 0 to 86400"),
        ("stop", {"timeout": -1}, "`timeout` is a number of seconds"),
        ("stop", {"timeout": True}, "`timeout` is a number of seconds"),
        (
            "restart",
            {"force": True, "agent": "x"},
            "unknown fields: agent, force; there are agents, wait and timeout",
        ),
        ("wait", {"for": "godot"}, "`for` is 'godot'; say ready, stopped or settled"),
        ("wait", {"for": ["ready"]}, "`for` is a list; say ready, stopped or settled"),
        ("wait", {"for": "\ud800" * 1000}, "`for` is '\\ud800"),
        ("start", {"agents": 5}, "`agents` is a list of names"),
        ("start", {"agents": {"a": 1}}, "`agents` is a list of names"),
        ("stop", {"cascade": 1}, "`cascade` is true or false"),
        ("restart", {"now": "no"}, "`now` is true or false"),
        ("stop", {"timeout": 10**400}, "the body is no JSON: a number is too large"),
        ("stop", {f"{number}\ud800": 1 for number in range(50)}, "unknown fields: '0\\ud800', "),
        ("stop", {"x" * 10_000: 1}, "unknown fields: xxx"),
        ("reload", {"dry_run": 1}, "the body is"),
        ("reload", {"dry": True}, "the body is"),
        ("start", [], "the body is no JSON object"),
    ],
)
def test_what_cannot_be_understood_is_422_and_says_which(
    path: str, body: object, said: str, tmp_path: Path
) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.post(f"/v1/{path}", body, status=422)
        assert said in answer["error"]
        assert set(bench.rig.states().values()) == {"stopped"}

    on_bench(tmp_path, do)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff",
        b"\x00",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"agents": ' + b"[" * 100_000,
        b'{"timeout": ' + b"9" * 5000 + b"}",
        b'{"timeout": NaN}',
        b'{"timeout": 1e999}',
    ],
)
def test_a_body_that_is_no_json(content: bytes, tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        for verb in ("start", "stop", "restart", "wait", "reload"):
            response = await bench.client.post(f"/v1/{verb}", content=content)
            assert response.status_code == 422, response.text
            assert 0 < len(response.json()["error"]) < 300

    on_bench(tmp_path, do)


def test_a_body_without_end_is_refused_when_it_is_too_long(tmp_path: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65536
            yield b" " * 65536

    async def do(bench: Bench) -> None:
        response = await bench.client.post("/v1/start", content=endless())
        assert response.status_code == 413
        assert response.json() == {"error": "the body is longer than 1048576 bytes"}
        assert sent < 2 * MAX_BODY

    on_bench(tmp_path, do)


def test_unknown_agents_are_404(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.post("/v1/start", {"agents": ["nobody"]}, status=404)
        assert answer == {"error": "there is no agent 'nobody'; the agents are: library, research"}
        await bench.get("/v1/logs?agent=nobody", status=404)
        with caplog.at_level("INFO", "pallas"):
            for name in ("", "\ud800", "a\nforged=1", "x" * 100_000):
                answer = await bench.post("/v1/stop", {"agents": [name]}, status=404)
                assert len(answer["error"]) < 300
            await bench.post("/v1/stop", {"agents": [str(number) for number in range(100_000)]}, status=404)
            assert [r for r in caplog.records if r.name.startswith("pallas")] == []

    on_bench(tmp_path, do)


def test_unknown_paths_and_methods_are_json_too(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        assert await bench.get("/v2/status", status=404) == {"error": "Not Found"}
        refused = await bench.get("/v1/start", status=405)
        assert refused == {"error": "GET is not for this path, which takes POST"}

    on_bench(tmp_path, do)


def test_a_defect_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(bench: Bench) -> None:
        def fail() -> None:
            raise ZeroDivisionError("division by zero")

        monkeypatch.setattr(bench.rig.manager.status, "health_document", fail)
        answer = await bench.get("/v1/health", status=500)
        assert answer["error"].startswith("a defect of the supervisor (ZeroDivisionError: division by zero)")

    on_bench(tmp_path, do)


def test_reload(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        library = bench.rig.manager.facts.ports["library"]
        bench.rig.write({"library": {"port": library, "title": "Books"}})
        expected = {
            "dry_run": True,
            "added": [],
            "removed": ["research"],
            "changed": [{"agent": "library", "fields": ["title"], "action": "respawn"}],
            "unchanged": [],
            "older_code": {},
            "gateway": None,
        }
        assert await bench.post("/v1/reload", {"dry_run": True}) == expected
        assert await bench.post("/v1/reload") == {**expected, "dry_run": False}
        assert [agent["name"] for agent in (await bench.get("/v1/status"))["agents"]] == ["library"]

    on_bench(tmp_path, do)


def test_a_configuration_with_problems_is_refused_with_all_of_them(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        bench.rig.write({"library": {"port": 0, "colour": "red"}})
        answer = await bench.post("/v1/reload", status=422)
        assert answer["error"] == "the configuration has 2 problems; nothing was changed"
        assert len(answer["problems"]) == 2
        assert all("agents.yaml" in problem for problem in answer["problems"])

    on_bench(tmp_path, do)


def test_what_cannot_be_reloaded_is_409(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(bench: Bench) -> None:
        bench.rig.write({"library": {"port": bench.rig.manager.facts.ports["library"]}}, name="other")
        assert "name changed" in (await bench.post("/v1/reload", status=409))["error"]

        async def refuse(*, dry_run: bool) -> None:
            raise PortsTakenError("port 24201 (research) is taken by nginx (pid 42)")

        monkeypatch.setattr(bench.rig.reloading, "reload", refuse)
        assert "nginx" in (await bench.post("/v1/reload", status=409))["error"]

    on_bench(tmp_path, do)


def put(rig: Rig, agent: str, number: int) -> None:
    record = {"time": f"2026-01-31T12:00:{number:02d}.000000Z", "level": "INFO", "message": str(number)}
    rig.manager.log_router.put(agent, dict(record))


def messages(content: bytes) -> list[str]:
    return [json.loads(line)["message"] for line in content.splitlines() if line]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "0 1 2 3 4 5"),
        ("?n=2", "4 5"),
        ("?n=0", ""),
        ("?agent=library", "0 2 4"),
        ("?agent=library&agent=research&n=3", "3 4 5"),
        ("?since=2026-01-31T12:00:03Z", "3 4 5"),
        ("?since=2026-01-31T13:00:03%2B01:00", "3 4 5"),
        ("?since=60", ""),
        ("?since=1e300", "0 1 2 3 4 5"),
        ("?since=", "0 1 2 3 4 5"),
        ("?level=info", "0 1 2 3 4 5"),
        ("?level=WARNING", ""),
    ],
)
def test_logs(query: str, expected: str, tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        for number in range(6):
            put(bench.rig, ("library", "research")[number % 2], number)
        response = await bench.client.get(f"/v1/logs{query}")
        assert response.headers["content-type"] == "application/x-ndjson"
        assert messages(response.content) == expected.split()

    on_bench(tmp_path, do)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("n=-1", "`n` is '-1'"),
        ("n=x", "`n` is"),
        ("n=", "`n` is"),
        (f"n={'9' * 5000}", "`n` is"),
        (f"n={10**19}", "`n` is"),
        ("n=%D9%A3", "`n` is"),
        ("since=noon", "`since` is 'noon'"),
        ("since=nan", "`since` is"),
        ("since=-1", "`since` is"),
        ("since=-1e300", "`since` is"),
        ("since=9999-12-31T23:59:59-23:59", "`since` is"),
        ("since=0001-01-01T00:00:00%2B23:59", "`since` is"),
        ("since=%00", "`since` is"),
        (f"since={'1' * 5000}x", "`since` is"),
        ("level=loud", "`level` is 'loud'"),
        ("level=%ff", "`level` is"),
    ],
)
def test_log_queries_that_make_no_sense(query: str, said: str, tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        for follow in ("", "&follow=1"):
            assert said in (await bench.get(f"/v1/logs?{query}{follow}", status=422))["error"]

    on_bench(tmp_path, do)


def test_following_is_wanted_or_not(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.get("/v1/logs?follow=yes", status=422)
        assert answer == {"error": "`follow` is 'yes'; say 1 or 0"}
        assert (await bench.client.get("/v1/logs?follow=0")).status_code == 200

    on_bench(tmp_path, do)


def test_a_query_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.get(f"/v1/logs?{'a' * MAX_QUERY}=", status=413)
        assert answer == {"error": "the query is longer than 32768 bytes"}

    on_bench(tmp_path, do)


def test_following_goes_on_and_ends_with_the_client(tmp_path: Path) -> None:
    """Straight on the ASGI application: httpx' transport would collect the endless answer."""

    async def do(bench: Bench) -> None:
        fleet = bench.rig.manager
        application = bench.rig.control_api()
        put(bench.rig, "library", 1)
        sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if not asked.is_set():
                asked.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        asked = asyncio.Event()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "path": "/v1/logs",
            "raw_path": b"/v1/logs",
            "query_string": b"follow=1&agent=library",
            "headers": [],
        }
        serving = asyncio.ensure_future(application(scope, receive, sent.put))  # type: ignore[arg-type]  # plain dicts are messages, too
        assert (await sent.get())["status"] == 200
        old = (await sent.get())["body"]
        assert messages(old) == ["1"]
        assert old.endswith(b"}\n\n"), "an empty line says where the old records end"
        put(bench.rig, "research", 2)
        put(bench.rig, "library", 3)
        assert messages((await sent.get())["body"]) == ["3"]
        assert len(fleet.log_router.tail.subscribers) == 1
        gone.set()
        await serving
        assert not fleet.log_router.tail.subscribers

    on_bench(tmp_path, do)


def test_every_state_can_be_shown(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        engine = bench.rig.manager.engine
        for state in State:
            engine.agents["library"] = replace(engine.agents["library"], state=state)
            assert (await bench.get("/v1/status"))["agents"][0]["state"] == str(state)

    on_bench(tmp_path, do)
