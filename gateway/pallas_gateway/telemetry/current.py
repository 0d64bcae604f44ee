"""What request this task works on, as far as metrics tell requests apart."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Current:
    """One request of HTTP."""

    surface: str = "none"
    """What was asked: `management`, `compositor`, `agent`, `project`, `api`, `completions`."""
    outcome: str | None = None
    """How it ended, where the protocol inside knows better than the status of HTTP."""


CURRENT: ContextVar[Current] = ContextVar("pallas_gateway_request")


def current() -> Current:
    """That of this task; one of nothing, if there is none."""
    return CURRENT.get(None) or Current()
