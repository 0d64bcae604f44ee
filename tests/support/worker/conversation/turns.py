"""Turns of a worker's agent by chat completions, as streams: what is told while they run, and what they end with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.worker.process import RunningWorker


@dataclass
class Told:
    """What came of one turn."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """The messages of the turn, to be sent as history."""
    finish: str = ""
    text: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What was told of tools and of other agents."""
    failure: dict[str, Any] | None = None
    """The error of a turn that has failed."""

    def of(self, type_: str, *fields: str) -> list[tuple[Any, ...]]:
        """These fields of the events of this type."""
        return [tuple(event[name] for name in fields) for event in self.events if event["type"] == type_]


def turn(
    worker: RunningWorker,
    agent: str,
    message: str = "",
    history: list[dict[str, Any]] | None = None,
    **fields: Any,
) -> Told:
    """One turn of a worker whose agent has `overrides: true`; without a message, from what the history ends with."""
    messages = [*(history or []), *([{"role": "user", "content": message}] if message else [])]
    body = {"model": agent, "messages": messages, "stream": True, **fields}
    told = Told()
    with httpx.stream("POST", f"{worker.origin}/v1/chat/completions", json=body, timeout=120) as response:
        if response.status_code != 200:
            told.failure = json.loads(response.read())["error"]
            return told
        for chunk in _chunks(response):
            _take(told, chunk)
    return told


def _chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _take(told: Told, chunk: dict[str, Any]) -> None:
    if "error" in chunk:
        told.failure = chunk["error"]
        return
    for choice in chunk["choices"]:
        told.text += choice["delta"].get("content") or ""
        told.finish = choice["finish_reason"] or told.finish
    extra = chunk.get("pallas")
    if extra and extra["type"] == "turn":
        told.rows = extra["messages"]
    elif extra:
        told.events.append(extra)
