"""How exits and waiting times are written."""

from __future__ import annotations

import pytest

from pallas_supervisor.lifecycle.exits import describe_exit, describe_seconds
from pallas_supervisor.lifecycle.states import Exit


@pytest.mark.parametrize(
    ("exit_", "text"),
    [
        (Exit(status=0), "exit status 0"),
        (Exit(status=78), "exit status 78"),
        (Exit(signal=9), "killed by SIGKILL"),
        (Exit(signal=50), "killed by signal 50"),
    ],
)
def test_exits(exit_: Exit, text: str) -> None:
    assert describe_exit(exit_) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (0.44, "0.4 s"), (0.97, "1.0 s"), (1.6, "2 s"), (29.7, "30 s")]
)
def test_waits(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text
