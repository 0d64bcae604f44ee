"""Large requests are checked beside the loop; which are not read at all is shown with the surfaces."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pallas_worker.calls.large import LARGE, beside


@pytest.mark.parametrize(("size", "here"), [(LARGE - 1, True), (LARGE, False)])
def test_large_bodies_are_checked_beside_the_loop(size: int, here: bool) -> None:
    async def run() -> tuple[int, int]:
        return (await beside(size, threading.get_ident))(), threading.get_ident()

    checked_in, loop_in = asyncio.run(run())
    assert (checked_in == loop_in) is here


@pytest.mark.parametrize("size", [0, LARGE])
def test_what_is_wrong_with_it_is_raised_by_what_is_given(size: int) -> None:
    def check() -> None:
        raise ValueError("no")

    given = asyncio.run(beside(size, check))
    with pytest.raises(ValueError, match="no"):
        given()
