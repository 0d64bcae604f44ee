"""Exits and times as people read them. Pure."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.states import Exit


def describe_exit(exit_: Exit) -> str:
    """`exit status 78`, `killed by SIGKILL`, `killed by SIGKILL (out of memory)`."""
    reason = f" ({exit_.reason})" if exit_.reason else ""
    if exit_.signal is None:
        return f"exit status {exit_.status}{reason}"
    try:
        name = signal.Signals(exit_.signal).name
    except ValueError:
        name = f"signal {exit_.signal}"
    return f"killed by {name}{reason}"


def describe_seconds(seconds: float) -> str:
    """A wait rounded as people say it: `0.4 s`, `2 s`."""
    return f"{seconds:.1f} s" if seconds < 1 else f"{round(seconds)} s"
