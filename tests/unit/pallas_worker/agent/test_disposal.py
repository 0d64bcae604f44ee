"""When what is left of ended instances is collected."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from pallas_worker.agent.disposal import FEW, IDLE, RARELY, SETTLING, SOME, Garbage, collect_rarely

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cycle:
    """Refers to itself: only a collection takes it away."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def own_collections() -> Iterator[None]:
    """None comes by itself meanwhile, and all is as it was afterwards."""
    before = gc.get_threshold()
    gc.set_threshold(0)
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


def ended(number: int, alive: int) -> bool:
    """Whether a cycle is gone once so many instances have ended."""
    garbage = Garbage()
    for _ in range(SETTLING):
        garbage.add(1)
    left = weakref.ref(Cycle())
    for _ in range(number):
        garbage.add(alive)
    return left() is None


def test_some_are_collected_together() -> None:
    assert not ended(SOME - 1, 1)
    assert ended(SOME, 1)


def test_the_more_are_alive_the_more_have_to_end() -> None:
    assert not ended(2 * FEW - 1, FEW)
    assert ended(2 * FEW, FEW)


def test_not_while_many_are_alive() -> None:
    assert not ended(10 * SOME, FEW + 1)


def test_what_the_first_calls_have_loaded_is_not_looked_through_again() -> None:
    garbage = Garbage()
    for _ in range(2 * (IDLE + 1)):
        garbage.add(IDLE + 1)
    assert gc.get_freeze_count() == 0, "some of it belongs to calls"
    for _ in range(SETTLING):
        garbage.add(IDLE)
    frozen = gc.get_freeze_count()
    assert frozen > 0
    for _ in range(SOME):
        garbage.add(IDLE)
    assert gc.get_freeze_count() == frozen, "by the first calls alone"


def test_not_where_the_agent_has_turned_collections_off() -> None:
    gc.disable()
    assert not ended(SOME, 1)


def test_python_looks_through_everything_now_and_then_all_the_same() -> None:
    gc.set_threshold(1234, 9, 10)
    collect_rarely()
    assert gc.get_threshold() == (1234, 9, RARELY)
