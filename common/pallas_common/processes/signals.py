"""Signals that end a process unless it says otherwise, and that others send for reasons of their own.

Knows signals; nothing of what the process does.
"""

from __future__ import annotations

import signal

ORDINARY = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGPWR,
    signal.SIGSTKFLT,
)
"""Those that log rotation, timers, terminals and monitors send; SIGHUP, SIGINT and SIGTERM ask for something."""


def outlive_ordinary_signals() -> None:
    """Let none of these end this process, where nobody handles it. For the main thread.

    By a function that does nothing: what is ignored would be ignored by programs that are started as well.
    """
    for number in ORDINARY:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _nothing)


def _nothing(*_: object) -> None:
    pass
