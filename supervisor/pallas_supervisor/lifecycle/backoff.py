"""How long to wait before the next start. Pure: the random draw is passed in."""

from __future__ import annotations

INITIAL = 0.5
FACTOR = 2.0
LONGEST = 30.0
JITTER = 0.1


def backoff_seconds(failures: int, draw: float, *, was_ready: bool) -> float:
    """The wait before the start that follows `failures` failures in a row (at least 1), in seconds.

    The first failure of a worker that was serving is answered at once: its clients are waiting, and nothing speaks
    for a defect yet. After that, and for a worker that never became ready, the wait is 0.5 s, doubling up to 30 s,
    spread by ±10 % with `draw` in [0, 1), so that agents which died together do not come back together.
    """
    if failures < 1:
        raise ValueError(f"no back-off without a failure: {failures}")
    doublings = failures - 1 - was_ready
    if doublings < 0:
        return 0.0
    nominal = min(INITIAL * FACTOR ** min(doublings, 16), LONGEST)
    return nominal * (1.0 + JITTER * (2.0 * draw - 1.0))


def budget_spent(failures: int, max_failures: int) -> bool:
    """Whether so many failures in a row are the last that are answered with a restart."""
    return failures >= max_failures
