"""Behind a gateway the port of an agent takes calls with a key alone, and says where to go without one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from pallas_worker.http.key_guard import KeyGuard
from pallas_worker.process.zygote.warm_up import SPEC

BEHIND = replace(
    SPEC,
    agent="jarvis",
    is_behind=True,
    key="of-this-start",
    siblings_key="of-siblings",
    gateway_urls=("https://agents.example.com", "http://localhost:24199"),
)


def ask(path: str, *keys: str, **changes: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        guard = KeyGuard(PlainTextResponse("passed on"), replace(BEHIND, **changes))
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, headers=[(b"Pallas-Key", key.encode()) for key in keys])

    return asyncio.run(run())


@pytest.mark.parametrize("key", ["of-this-start", "of-siblings"])
@pytest.mark.parametrize("path", ["/mcp", "/v1/chat/completions", "/v1/models", "/any"])
def test_each_of_the_two_keys_admits(path: str, key: str) -> None:
    assert ask(path, key).text == "passed on"


@pytest.mark.parametrize("path", ["/", "/livez", "/metrics"])
def test_what_asks_nothing_of_the_agent_is_for_everybody(path: str) -> None:
    assert ask(path).text == "passed on"


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("/mcp", "ask https://agents.example.com/mcp/agents/jarvis instead"),
        ("/metrics/more", "ask https://agents.example.com/mcp/agents/jarvis instead"),
        ("/v1/models", "ask https://agents.example.com/v1, with the model jarvis instead"),
    ],
)
def test_without_a_key_the_gateway_is_named(path: str, way: str) -> None:
    refused = ask(path)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Pallas-Key")
    assert way in refused.text
    if path.startswith("/v1/"):
        assert refused.json()["error"]["code"] == "no_key"


@pytest.mark.parametrize(
    "keys",
    [("guessed",), ("",), ("of-siblings", "of-siblings"), ("of-siblings ü",)],
)
def test_any_other_key_is_refused(keys: tuple[str, ...]) -> None:
    refused = ask("/v1/chat/completions", *keys)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "wrong_key")


def test_where_no_key_was_made_none_admits() -> None:
    assert ask("/mcp", "", key=None, siblings_key=None).status_code == 403
