"""What agents of fast-agent have to obey and to tell while one call runs: a context variable of its task.

All agents, children and tools of a call run in its task or in tasks that it makes. Servers' sampling does not. Knows no
agent: the guard, the streams and the call itself meet here.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from pallas_worker.interface.history import History

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from pallas_common.protocol.mcp.chain import Chain
    from pallas_worker.interface.turn import TurnEvent, TurnRequest


class Speech(Protocol):
    """Takes what models say, piece by piece. `model` tells apart those that speak at the same time."""

    def piece(self, model: object, agent: str, text: str, *, reasoning: bool) -> None:
        """A further piece of the message that this agent's model is writing."""

    def end(self, model: object) -> None:
        """The message is whole: what comes next from this model begins another one."""

    def begin_again(self, model: object, agent: str) -> None:
        """What has come of the message is void: the model is asked again, or was asked in vain."""

    def may_begin_again(self, model: object) -> bool:
        """Whether what has come of the message can still be taken back from whoever reads it."""


async def no_wait() -> None:
    """There is room for everything, always."""


@dataclass(frozen=True, slots=True)
class CurrentCall:
    """One call while it runs."""

    request: TurnRequest
    tell: Callable[[TurnEvent], None]
    """Takes what happens, in its order; never waits, never raises."""
    speech: Speech
    """Takes what models say, and tells it as text; never waits, never raises."""
    room: Callable[[], Awaitable[None]] = no_wait
    """Waits until there is room for more of what models say: no model's stream is read on before."""
    asks_again: bool = True
    """Whether a model whose request failed may be asked again: not where it is known that this is of no use."""
    clients: WeakSet[Any] = field(default_factory=WeakSet)
    """The HTTP clients that its LLMs have made, to be closed with it: fast-agent leaves some to Python's collector."""
    chain: Chain = ()
    """The agents that the call has come by, this one last: other agents are told."""
    asking: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while it waits for another agent's answer."""


class _Silent:
    """Where nobody listens any more."""

    def piece(self, model: object, agent: str, text: str, *, reasoning: bool) -> None:
        """Goes nowhere."""

    def end(self, model: object) -> None:
        """Goes nowhere."""

    def begin_again(self, model: object, agent: str) -> None:
        """Goes nowhere."""

    def may_begin_again(self, _: object) -> bool:
        """Nobody has read anything."""
        return True

    def tell(self, event: TurnEvent) -> None:
        """Goes nowhere."""


_SILENT = _Silent()


@dataclass(slots=True)
class _Place:
    """Where a call stands; contexts of what it began, of a connection's tasks say, keep this place and not the call."""

    call: CurrentCall


_current: ContextVar[_Place | None] = ContextVar("pallas_call", default=None)


def current_call() -> CurrentCall | None:
    """The call that the running task belongs to; None outside of calls.

    In a task that has outlived its call, what was allowed in the call still is, and nobody is told of anything.
    """
    place = _current.get()
    return None if place is None else place.call


@contextmanager
def as_current(call: CurrentCall) -> Iterator[None]:
    """Within the block, and in all tasks made there, `call` is the current one."""
    place = _Place(call)
    token = _current.set(place)
    try:
        yield
    finally:
        _current.reset(token)
        rules = replace(call.request, message="", images=(), history=History())
        place.call = CurrentCall(rules, _SILENT.tell, _SILENT, chain=call.chain)
