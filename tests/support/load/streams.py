"""A caller of chat completions that streams: what it is told, and what it makes of it.

Knows the shape of the chunks; must not know what a test expects in them.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from support.worker.process import RunningWorker

PATIENCE = 180.0
"""Seconds after which a failing test stops to wait."""


@asynccontextmanager
async def streaming(
    worker: RunningWorker, message: str, agent: str = "demo"
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The chunks of an answer, one by one, on a connection of its own; leaving the block closes it."""
    body = {"model": agent, "messages": [{"role": "user", "content": message}], "stream": True}
    async with (
        httpx.AsyncClient(timeout=PATIENCE) as client,
        client.stream("POST", f"{worker.origin}/v1/chat/completions", json=body) as response,
    ):
        if response.status_code != httpx.codes.OK:
            raise AssertionError((await response.aread()).decode())
        yield _chunks(response)


async def _chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


async def streamed(worker: RunningWorker, message: str, agent: str = "demo") -> list[dict[str, Any]]:
    """All chunks of an answer."""
    async with streaming(worker, message, agent) as chunks:
        return [chunk async for chunk in chunks]


def answer_in(chunks: Iterable[dict[str, Any]]) -> str:
    """The answer that the chunks make, without what they take back."""
    answer = ""
    for chunk in chunks:
        assert "error" not in chunk, chunk
        retry = chunk.get("pallas") or {}
        if retry.get("type") == "retry" and retry["of"] == "answer":
            assert retry["characters"] <= len(answer)
            answer = answer[: len(answer) - retry["characters"]]
        for choice in chunk["choices"]:
            answer += choice["delta"].get("content") or ""
    return answer
