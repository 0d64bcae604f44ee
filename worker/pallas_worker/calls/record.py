"""What the log says of a call once it has ended: one line with its outcome, duration, tools, tokens and caller.

Knows what is told while a call runs; must not know how it is made. No argument, answer or token of anybody is in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import shortened
from pallas_worker.interface.turn import ToolCalled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_common.protocol.mcp.chain import Chain
    from pallas_worker.interface.turn import ModelUsage, TurnEvent, TurnRequest

MOST_TOOLS = 20
"""Names of tools in one line."""
LONGEST_NAME = 100
"""Characters of a tool's or caller's name."""

_log = get_logger("pallas.worker.calls")


@dataclass(slots=True)
class CallRecord:
    """One call, as far as it has come."""

    surface: str
    caller: str
    rows: int = 0
    """Of the history that it came with."""
    acted: bool = False
    """Whether a tool has been called."""
    _tools: Counter[str] = field(default_factory=Counter)
    _tokens: Counter[str] = field(default_factory=Counter)
    _rounds: int = 0

    def begin(self, request: TurnRequest) -> None:
        """Take what the caller has sent, and log what of the history is not used."""
        history = request.history
        self.rows = len(history.rows)
        for fault in history.left_out:
            what = "skipped" if fault.part == "row" else f"{fault.part} left out"
            _log.warning(f"history[{fault.index}] {what}: {fault.reason}")
        if history.more:
            _log.warning(f"history: {history.more} more malformed rows")

    def note(self, event: TurnEvent) -> None:
        """Take what happens."""
        if isinstance(event, ToolCalled):
            self.acted = True
            self._tools[shortened(event.tool, LONGEST_NAME)] += 1

    def use(self, turns: Iterable[ModelUsage]) -> None:
        """Take the round-trips to models of one instance."""
        for turn in turns:
            self._rounds += 1
            self._tokens.update(turn.tokens)

    def end(self, outcome: str, seconds: float, kind: str | None = None) -> None:
        """Log it.

        Args:
            outcome: `ok`, `incomplete`, `error` or `cancelled`.
            kind: of an error, or why it is incomplete.
        """
        tools = [f"{name} ×{n}" if n > 1 else name for name, n in self._tools.most_common(MOST_TOOLS)]
        if len(self._tools) > MOST_TOOLS:
            tools.append(f"and {len(self._tools) - MOST_TOOLS} more")
        cached = self._tokens["cache_read"] + self._tokens["cache_write"]
        taken, given = self._tokens["input"] + cached, self._tokens["output"]
        ended = outcome if kind is None else f"{outcome} ({kind})"
        duration = round(seconds, 2)
        said = [f"{self.surface}: {ended} after {duration} s", f"{self.rows} history rows"]
        said.append(f"{self._rounds} model rounds, {taken} tokens in, {given} out")
        if tools:
            said.append(f"tools {', '.join(tools)}")
        _log.info(
            f"{'; '.join(said)}; caller {self.caller}",
            outcome=outcome,
            **({} if kind is None else {"kind": kind}),
            duration=duration,
            tools=dict(self._tools.most_common(MOST_TOOLS)),
            tokens_in=taken,
            tokens_out=given,
            caller=self.caller,
        )


def who_calls(headers: Mapping[str, str], chain: Chain) -> str:
    """Name a caller: the agent that has handed the call on, or else the program, as it names itself."""
    if chain:
        return f"agent {chain[-1].partition('@')[0]}"
    program = headers.get("user-agent", "").strip()
    return shortened("".join(c if c.isprintable() else "?" for c in program), LONGEST_NAME) or "unknown"
