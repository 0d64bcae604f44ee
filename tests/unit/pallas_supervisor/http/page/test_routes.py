"""The status page over HTTP, without processes: what it says, what it never says, how it is cached."""

from __future__ import annotations

import asyncio
import gzip
import re
from typing import TYPE_CHECKING

import httpx

from pallas_common.protocol.reports import FailedReport, HealthReport, ReadyReport
from pallas_supervisor.http.page import routes
from pallas_supervisor.lifecycle.states import Exit
from support.ports import free_ports
from support.supervisor.rig import Rig, rig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import pytest

HOSTILE = "<script>alert(1)</script>\"'&"


def on_rig(directory: Path, do: Callable[[Rig, httpx.AsyncClient], Awaitable[None]], **fields: str) -> None:
    async def run() -> None:
        library, research = free_ports(2)
        agents = {
            "library": {"port": library, "env": {"PASSWORD": "geheim"}},
            "research": {"port": research, "depends_on": ["library"], **fields},
        }
        async with rig(directory, agents) as made:
            transport = httpx.ASGITransport(made.public_api())
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:24200") as client:
                await do(made, client)

    asyncio.run(run())


def row(markup: str, agent: str) -> str:
    return markup.split(f'id="agent-{agent}"')[1].split("</tr>")[0]


def test_it_says_what_health_says_and_nothing_of_the_environment(tmp_path: Path) -> None:
    async def do(made: Rig, client: httpx.AsyncClient) -> None:
        made.operations.start([])
        made.come_up("library")
        made.end("library", Exit(status=78))
        answer = await client.get("/")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        why = (await client.get("/health")).json()["agents"]["library"]["message"]
        assert why == "exit status 78"
        assert why in row(answer.text, "library")
        assert "0 of 2 agents ready" in answer.text
        assert "geheim" not in answer.text
        assert "PASSWORD" not in answer.text

    on_rig(tmp_path, do)


def test_what_an_agent_is_called_and_says_is_text(tmp_path: Path) -> None:
    async def do(made: Rig, client: httpx.AsyncClient) -> None:
        made.operations.start(["library"])
        made.appear("library")
        made.report("library", FailedReport(message=HOSTILE, permanent=True))
        made.end("library", Exit(status=78))
        body = (await client.get("/")).text
        assert made.states() == {"library": "failed", "research": "stopped"}
        assert "&lt;script&gt;alert(1)" in row(body, "library")
        assert body.count("<script") == 1, "the page's own"
        assert "&lt;script&gt;alert(1)" in row(body, "research")

    on_rig(tmp_path, do, title=HOSTILE, description=HOSTILE)


def test_who_has_failed_is_seen_to_have_failed_and_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do(made: Rig, client: httpx.AsyncClient) -> None:
        made.operations.start([])
        made.come_up("library")
        report = HealthReport(status="degraded", timestamp="2026-03-12T12:00:00Z", message="Slow: x")
        made.report("library", report)
        made.appear("research")
        made.report(
            "research",
            FailedReport(message="SyntaxError", permanent=True),
        )
        made.end("research", Exit(status=78))
        assert made.states() == {"library": "ready", "research": "failed"}
        body = (await client.get("/")).text
        status = re.sub("<[^>]*>", " ", body.split('role="status"')[1].split("</p>")[0])
        assert " ".join(status.partition(">")[2].split()) == (
            "degraded 1 failed 1 of 2 agents ready, 1 of these not well"
        )
        assert "is-failed" in body.split('role="status"')[1].split("</p>")[0]
        assert 'class="trouble lost"' in body
        health = row(body, "research").split('class="health"')[1].split("</td>")[0]
        assert "is-error" in health
        assert "SyntaxError" in health
        assert "pallasctl logs research" in body
        monkeypatch.setattr(routes, "FRESH", 0.0)
        made.operations.stop(["research"])
        assert made.states()["research"] == "stopped"
        body = (await client.get("/page/view")).text
        assert "is-failed" not in body.split('role="status"')[1].split("</p>")[0]
        assert "is-error" not in row(body, "research").split('class="health"')[1].split("</td>")[0]

    on_rig(tmp_path, do)


def test_an_agents_row_says_where_it_is_reached_and_what_it_serves(tmp_path: Path) -> None:
    async def do(made: Rig, client: httpx.AsyncClient) -> None:
        made.operations.start(["library"])
        made.appear("library")
        ready = ReadyReport(model="openai.gpt-5\u202e<b>", capabilities=None, served="other")
        made.report("library", ready)
        body = (await client.get("/")).text
        port = made.manager.drift.deployment.agents["library"].port
        assert f"http://localhost:{port}/mcp" in row(body, "library")
        assert "serves agents.library: other" in row(body, "library")
        assert r"openai.gpt-5\u202e&lt;b&gt;" in row(body, "library")
        assert "serves agents.research<" in row(body, "research")
        assert "begins in 15 s at most" in row(body, "library")

    on_rig(tmp_path, do)


def test_nothing_but_files_of_its_own_is_allowed_and_none_is_named(tmp_path: Path) -> None:
    async def do(_made: Rig, client: httpx.AsyncClient) -> None:
        answer = await client.get("/")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert not re.search(r'\son\w+=|\sstyle=|(src|href)="(/|\w+:)', answer.text)
        for asset in re.findall(r'(?:src|href)="(page/[^"]*)"', answer.text):
            found = await client.get(f"/{asset}")
            assert found.status_code == 200, asset
            assert found.headers["x-content-type-options"] == "nosniff"

    on_rig(tmp_path, do)


def test_a_view_is_sent_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(made: Rig, client: httpx.AsyncClient) -> None:
        monkeypatch.setattr(routes, "FRESH", 60.0)
        first = await client.get("/page/view")
        tag = {"if-none-match": first.headers["etag"]}
        assert (await client.get("/page/view", headers=tag)).status_code == 304
        made.operations.start(["library"])
        assert (await client.get("/page/view", headers=tag)).status_code == 304, (
            "what is fresh is shown again"
        )
        monkeypatch.setattr(routes, "FRESH", 0.0)
        changed = await client.get("/page/view", headers=tag)
        assert changed.status_code == 200
        assert 'data-state="starting"' in row(changed.text, "library")

    on_rig(tmp_path, do)


def test_it_is_compressed_for_those_who_take_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(_made: Rig, client: httpx.AsyncClient) -> None:
        monkeypatch.setattr(routes, "FRESH", 60.0)
        async with client.stream("GET", "/page/view", headers={"accept-encoding": "gzip"}) as answer:
            raw = b"".join([part async for part in answer.aiter_raw()])
        plain = await client.get("/page/view", headers={"accept-encoding": "identity"})
        assert answer.headers["vary"] == "Accept-Encoding"
        assert gzip.decompress(raw) == plain.content
        assert "content-encoding" not in plain.headers

    on_rig(tmp_path, do)


def test_how_to_connect_is_a_page_of_its_own_and_below_the_fleet(tmp_path: Path) -> None:
    async def do(_: Rig, client: httpx.AsyncClient) -> None:
        alone = await client.get("/page/connect")
        assert alone.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in alone.headers["content-security-policy"]
        for body in (alone.text, (await client.get("/")).text):
            assert body.count("claude mcp add --transport http library http://localhost:") == 2
        assert "claude mcp add" not in (await client.get("/page/view")).text, "it is not sent again and again"
        again = await client.get("/page/connect", headers={"if-none-match": alone.headers["etag"]})
        assert again.status_code == 304

    on_rig(tmp_path, do)
