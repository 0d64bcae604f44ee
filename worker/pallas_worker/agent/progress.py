"""The progress of a running call: fast-agent's tool events as MCP progress, strictly increasing.

Knows the message patterns of the interface document and the shape of fast-agent's tool execution handler;
must not know transports: it is given a `send`, which does nothing for a client that did not ask.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    type Send = Callable[[float, float | None, str | None], Awaitable[None]]
    """Sends one notification: progress, total or None, message or None."""

_log = get_logger("pallas.worker.progress")

SEND_TIMEOUT = 5.0
"""Seconds after which a client that does not read is given up: it must not hold the agent."""

MAX_RELAYED = 64 * 1024
"""Characters of a message that a downstream server may have passed on."""

LOOP = "agent_loop"
"""fast-agent's name for the tool that stands for the agent's own loop."""

_STEP = re.compile(r"(?P<agent>\S.* )?(?P<step>step \d+ )\((?P<kind>llm|tool)(s? [^)]*)?\)")
"""A step as fast-agent reports it: of a loop, or of another agent's with its name; with tools named or counted."""
_TOOL = re.compile(r"[^\s/]+/\S+: (started|completed|failed)")
"""What a downstream agent of Pallas reports of its tools; it has the format of ours, and is passed on."""


class _Open(NamedTuple):
    """A tool that has begun and not ended."""

    label: str
    is_loop: bool


class Progress:
    """The progress of one call; fast-agent calls the `on_…` methods, of several tools at a time."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._order = asyncio.Lock()
        self._broken = False
        self._next = 0
        self._ids = itertools.count(1)
        self._open: dict[str, _Open] = {}

    async def on_tool_start(
        self,
        tool_name: str,
        server_name: str,
        arguments: dict[str, Any] | None,
        tool_use_id: str | None = None,
    ) -> str:
        """A tool begins; returns the id by which the later events name it."""
        del arguments
        call_id = tool_use_id or f"call-{next(self._ids)}"
        if call_id not in self._open:
            is_loop = tool_name == LOOP
            label = server_name if is_loop else f"{server_name}/{tool_name}"
            self._open[call_id] = _Open(label, is_loop)
            if not is_loop:
                await self._report(f"{label}: started")
        return call_id

    async def on_tool_progress(
        self, tool_call_id: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """A step of the agent's loop, or what a downstream server reports of its tool."""
        del progress, total
        tool = self._open.get(tool_call_id)
        is_loop = tool is not None and tool.is_loop
        if message is not None and len(message) > MAX_RELAYED:
            message = None
        if step := _STEP.fullmatch(message or ""):
            agent = f"{tool.label} " if tool is not None and is_loop else step["agent"]
            await self._report(f"{agent}{step['step']}({step['kind']})" if agent else None)
        elif not is_loop and (known := _TOOL.fullmatch(message or "")):
            await self._report(message, ended=known[1] != "started")
        else:
            await self._report(None)

    async def on_tool_complete(
        self, tool_call_id: str, success: bool, content: list[Any] | None, error: str | None
    ) -> None:
        """A tool has ended; the details of an error are for the log, not for a status line."""
        del content, error
        tool = self._open.pop(tool_call_id, None)
        if tool is not None and not tool.is_loop:
            await self._report(f"{tool.label}: {'completed' if success else 'failed'}", ended=True)

    async def on_tool_permission_denied(
        self, tool_name: str, server_name: str, tool_use_id: str | None, error: str | None = None
    ) -> None:
        """A tool may not be used: it fails before it began."""
        del error
        self._open.pop(tool_use_id or "", None)
        await self._report(f"{server_name}/{tool_name}: failed", ended=True)

    async def get_tool_call_id_for_tool_use(self, tool_use_id: str) -> str | None:
        """The id of an open tool, which is the LLM's own."""
        return tool_use_id if tool_use_id in self._open else None

    async def ensure_tool_call_exists(
        self, tool_use_id: str, tool_name: str, server_name: str, arguments: dict[str, Any] | None = None
    ) -> str:
        """The id of a tool, which begins now unless it is open."""
        return await self.on_tool_start(tool_name, server_name, arguments, tool_use_id)

    async def close(self) -> None:
        """The call has ended: tools that are still open have failed (fast-agent does not say so itself)."""
        for call_id in list(self._open):
            await self.on_tool_complete(call_id, False, None, None)

    async def _report(self, message: str | None, *, ended: bool = False) -> None:
        """Send the next number; a client that cannot be reached is not tried again, and fails nothing."""
        async with self._order:
            number = float(self._next)
            if ended and not number:
                number = 1.0  # a total of 0 says nothing
            self._next = int(number) + 1
            if self._broken:
                return
            try:
                async with asyncio.timeout(SEND_TIMEOUT):
                    await self._send(number, number if ended else None, message)
            except Exception as error:  # noqa: BLE001 - progress is best effort, whatever the transport raises
                self._broken = True
                _log.debug("progress is not delivered any more: %r", error)
