"""Words of others on one bounded line, without secrets: for reasons, messages and the log. Pure.

A downstream server, a provider or a program says what it likes, at any length. `known` are this process's secrets.
"""

from __future__ import annotations

from pallas_common.terminal_text import terminal_line
from pallas_worker.telemetry.redact import Redactor, known

MARGIN = 2_000
"""Characters beyond the bound that secrets are looked for in, so that none is cut in half and not recognised."""

_redact = Redactor(known)


def one_line(text: str, most: int) -> str:
    """The text with at most so many characters, its white space collapsed and control characters escaped."""
    words = " ".join(text[: most + MARGIN].split())
    line = terminal_line(_redact(words))
    return line if len(line) <= most else f"{line[: most - 1]}…"
