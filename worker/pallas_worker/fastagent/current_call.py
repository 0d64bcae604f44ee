"""What agents of fast-agent have to obey and to tell while one call runs: a context variable of its task.

All agents, children and tools of a call run in its task or in tasks that it makes. Servers' sampling does not. Knows no
agent: the guard, the streams and the call itself meet here.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pallas_worker.interface.turn import TurnEvent, TurnRequest


@dataclass(frozen=True, slots=True)
class CurrentCall:
    """One call while it runs."""

    request: TurnRequest
    tell: Callable[[TurnEvent], None]
    """Takes what happens, in its order; never waits, never raises."""


_current: ContextVar[CurrentCall | None] = ContextVar("pallas_call", default=None)


def current_call() -> CurrentCall | None:
    """The call that the running task belongs to; None outside of calls."""
    return _current.get()


@contextmanager
def as_current(call: CurrentCall) -> Iterator[None]:
    """Within the block, and in all tasks made there, `call` is the current one."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
