"""The status page over HTTP, of a fleet without processes: what it says, what it never says, how it is cached."""

from __future__ import annotations

import asyncio
import gzip
import re
from typing import TYPE_CHECKING

import httpx

from harness.ports import free_ports
from pallas_registry.protocol import FailedReport
from pallas_supervisor.directory import Directory
from pallas_supervisor.page import routes
from pallas_supervisor.public_api import public_api
from pallas_supervisor.states import Exit
from unit.supervisor_fleet import Rig, rig

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
            transport = httpx.ASGITransport(public_api(made.fleet, Directory(made.fleet)))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:24200") as client:
                await do(made, client)

    asyncio.run(run())


def row(markup: str, agent: str) -> str:
    return markup.split(f'id="agent-{agent}"')[1].split("</tr>")[0]


def test_it_says_what_health_says_and_nothing_of_the_environment(tmp_path: Path):
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


def test_what_an_agent_is_called_and_says_is_text(tmp_path: Path):
    async def do(made: Rig, client: httpx.AsyncClient) -> None:
        made.operations.start(["library"])
        made.appear("library")
        made.fleet._reported(
            "library", made.fleet.agents["library"].generation, FailedReport(message=HOSTILE, permanent=True)
        )
        made.end("library", Exit(status=78))
        body = (await client.get("/")).text
        assert made.states() == {"library": "failed", "research": "stopped"}
        assert "&lt;script&gt;alert(1)" in row(body, "library")
        assert body.count("<script") == 1, "the page's own"
        assert "&lt;script&gt;alert(1)" in row(body, "research")

    on_rig(tmp_path, do, title=HOSTILE, description=HOSTILE)


def test_nothing_but_files_of_its_own_is_allowed_and_none_is_named(tmp_path: Path):
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


def test_a_view_is_sent_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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


def test_it_is_compressed_for_those_who_take_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def do(_made: Rig, client: httpx.AsyncClient) -> None:
        monkeypatch.setattr(routes, "FRESH", 60.0)
        async with client.stream("GET", "/page/view", headers={"accept-encoding": "gzip"}) as answer:
            raw = b"".join([part async for part in answer.aiter_raw()])
        plain = await client.get("/page/view", headers={"accept-encoding": "identity"})
        assert answer.headers["vary"] == "Accept-Encoding"
        assert gzip.decompress(raw) == plain.content
        assert "content-encoding" not in plain.headers

    on_rig(tmp_path, do)
