"""Hostile bytes on each input of a supervisor, the same few rounds each time; `scripts/bench fuzz` goes on longer."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from support.faults.fuzz.targets import TARGETS
from support.faults.fuzz.watched_fleet import WatchedFleet

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 8


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedFleet]:
    # How long a turn of the loop took says what else the machine is doing.
    with WatchedFleet(tmp_path_factory.mktemp("fuzz") / "watched", stall_matters=False) as watched:
        yield watched


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_bytes_harm_nobody_but_who_sends_them(fleet: WatchedFleet, target: str) -> None:
    for number in range(ROUNDS):
        TARGETS[target](fleet, random.Random(f"1/{target}/{number}"))
        fleet.check()
