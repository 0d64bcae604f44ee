"""Many calls of one worker with three downstream servers, among failures and callers that leave.

Knows how calls are sent and what is looked at from outside; must not know how a worker works.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2

from fakes.downstream import Fault, Recorded, RunningDownstream, run_downstream
from support.worker.census import agent
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project
from support.worker.raw import raw_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LANES = 8
"""Calls at a time."""
KINDS = ("good", "good", "good", "leave", "good", "good", "refuse", "good", "good", "reset")
"""What happens to a call's tool, in turn."""


@dataclass(frozen=True, slots=True)
class Soak:
    """A worker and its servers: one of each protocol era, and one that keeps no sessions."""

    worker: RunningWorker
    servers: dict[str, RunningDownstream]

    async def calls(self, first: int, count: int) -> None:
        """Make so many calls, with numbers from `first` on; the odd ones in the older protocol."""
        numbers = iter(range(first, first + count))
        async with httpx2.AsyncClient(timeout=120, verify=False) as http:

            async def lane() -> None:
                for number in numbers:
                    await self._call(http, number)

            await asyncio.gather(*(lane() for _ in range(LANES)))

    async def _call(self, http: httpx2.AsyncClient, number: int) -> None:
        kind = KINDS[number % len(KINDS)]
        name = f"{kind}-{number:06}"
        server = list(self.servers)[number % len(self.servers)]
        message = f"***CALL_TOOL {server}__echo {json.dumps({'text': name})}"
        headers, body = raw_call("legacy" if number % 2 else "auto", message, name)
        headers["authorization"] = f"Bearer tok-{name}"
        sent = asyncio.create_task(http.post(self.worker.url, headers=headers, content=body))
        if kind == "leave":
            await asyncio.to_thread(self.servers[server].wait_for, lambda seen: _is_in(seen, name))
            sent.cancel()
            await asyncio.gather(sent, return_exceptions=True)
            return
        response = await sent
        assert response.status_code == 200, response.text
        assert kind != "good" or name in response.text, response.text

    def forget(self) -> None:
        """Drop what the servers have recorded of calls: only this process's memory is meant."""
        for server in self.servers.values():
            server.forget()


def _is_in(seen: list[Recorded], name: str) -> bool:
    return any(name.encode() in request.body for request in reversed(seen))


def _fault(request: Recorded) -> Fault | None:
    """What the name in a tool call's text asks for."""
    if request.rpc_method != "tools/call":
        return None
    match request.json["params"]["arguments"]["text"].partition("-")[0]:
        case "leave":
            return Fault(hold=True)
        case "refuse":
            return Fault(status=503)
        case "reset":
            return Fault(reset=True)
        case _:
            return None


@contextmanager
def run_soak(directory: Path) -> Iterator[Soak]:
    """Run a worker and its servers until the block ends."""
    with ExitStack() as stack:
        servers = {
            "modern": stack.enter_context(run_downstream(era="modern", fault=_fault)),
            "legacy": stack.enter_context(run_downstream(era="legacy", fault=_fault)),
            "stateless": stack.enter_context(run_downstream(stateless=True, fault=_fault)),
        }
        declared = {
            name: {"transport": "http", "url": server.url, "forward_inbound_auth": name == "legacy"}
            for name, server in servers.items()
        }
        made = project(directory, agents=agent(list(servers)), servers=declared)
        yield Soak(stack.enter_context(run_worker(made, log_level="WARNING")), servers)
