"""Tool calls while they run: each is told, counted and a span, from its beginning to its end.

Knows fast-agent's results of tools; must not know agents, nor why a call may run.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from mcp_types import TextContent

from pallas_common.problems import shortened
from pallas_common.protocol.link.redacted_stdio import put_back_closed
from pallas_worker.interface.turn import ToolCalled, ToolReturned
from pallas_worker.telemetry.tracing import set_outcome, span

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_types import CallToolResult
    from opentelemetry.trace import Span

    from pallas_worker.fastagent.tools.rules import PendingCall
    from pallas_worker.interface.turn import TurnEvent
    from pallas_worker.telemetry.metrics import ToolOutcome

LONGEST_TEXT = 2000
"""Characters of a result that are told; the agent's model gets it whole."""
LONGEST_ARGUMENTS = 16 * 1024
"""Characters of the arguments on a span, where what is said is on spans at all."""

OWN = "own"
"""Stands for the server of a tool that no server has."""

Counts = Counter[tuple[str, "ToolOutcome"]]
"""By server and outcome, how many calls there were."""


class RunningCall:
    """One call from its beginning to its end: both are told once, whatever happens in between."""

    def __init__(self, call: PendingCall, tell: Callable[[TurnEvent], None], counts: Counts) -> None:
        self.call = call
        self._tell = tell
        self._counts = counts
        self._entered = False
        self._ended = False
        tell(ToolCalled(call.agent, call.id, call.server, call.tool, call.arguments))

    async def run(self, call_tool: Callable[[], Awaitable[CallToolResult]]) -> CallToolResult:
        """The tool's result; of what runs inside, the first is the call, and all else a part of it."""
        if self._entered:
            return await call_tool()
        self._entered = True
        put_back_closed()  # a tool that prints is not to fail for what another one has closed
        call = self.call
        with span(f"execute_tool {call.tool}", agent=call.agent, server=call.server or OWN) as current:
            if current.is_recording():
                _describe(current, call)
            result: CallToolResult | None = None
            try:
                result = await call_tool()
            finally:
                set_outcome(current, self.end(result))
            return result

    def end(self, result: CallToolResult | None, outcome: ToolOutcome | None = None) -> ToolOutcome:
        """The call has ended, with None if it broke off; how it went. What comes after the first end is not told."""
        ok = result is not None and not result.is_error
        went: ToolOutcome = outcome or ("ok" if ok else "error")
        if not self._ended:
            self._ended = True
            call = self.call
            count(self._counts, call, went)
            self._tell(ToolReturned(call.agent, call.id, call.server, call.tool, ok, told_text(result)))
        return went


def count(counts: Counts, call: PendingCall, outcome: ToolOutcome) -> None:
    """One call has had this outcome."""
    counts[call.server or OWN, outcome] += 1


def told_text(result: CallToolResult | None) -> str:
    """The texts of a result, cut where they are long."""
    texts: list[str] = []
    length = -1
    for block in result.content if result is not None else ():
        if isinstance(block, TextContent):
            texts.append(block.text[: LONGEST_TEXT + 1])
            length += len(texts[-1]) + 1
            if length > LONGEST_TEXT:
                break
    return shortened("\n".join(texts), LONGEST_TEXT)


def _describe(current: Span, call: PendingCall) -> None:
    """In OpenTelemetry's names for tool calls; arguments leave the process only where what is said may."""
    current.set_attribute("gen_ai.operation.name", "execute_tool")
    current.set_attribute("gen_ai.tool.name", call.tool)
    current.set_attribute("gen_ai.tool.call.id", call.id)
    arguments = json.dumps(call.arguments, default=str)[:LONGEST_ARGUMENTS]
    current.set_attribute("gen_ai.tool.call.arguments", arguments)
