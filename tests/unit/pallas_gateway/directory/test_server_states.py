"""People and agents are told one state of a server, whoever of its two users knows it first."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_gateway.directory.server_states import server_state

BEGUN = {"state": "initializing", "since": "1", "error": None}
FAILED = {"state": "failed", "since": "2", "error": "no answer"}
RUNNING = {"state": "running", "since": "2", "error": None, "incomplete": "only 1 of its tools are used"}
DOWN = {"up": False, "since": "3", "error": "no answer in time"}
UP = {"up": True, "since": "3", "error": None}


@pytest.mark.parametrize(
    ("composed", "looked", "expected"),
    [
        (None, None, ("initializing", None, None, None)),
        (BEGUN, None, ("initializing", "1", None, None)),
        (BEGUN, DOWN, ("failed", "3", "no answer in time", None)),
        (BEGUN, UP, ("running", "3", None, None)),
        (None, DOWN, ("failed", "3", "no answer in time", None)),
        (FAILED, UP, ("failed", "2", "no answer", None)),
        (RUNNING, DOWN, ("running", "2", None, "only 1 of its tools are used")),
    ],
)
def test_the_gateways_own_connection_counts_once_it_is_known(
    composed: dict[str, Any] | None, looked: dict[str, Any] | None, expected: tuple[Any, ...]
) -> None:
    assert server_state(composed, looked) == expected
