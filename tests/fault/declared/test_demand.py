"""Declared agents on demand, called at random among kills: no call fails, none runs twice, all come to rest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.load.demand import Crowd, apply, ask, await_rest, declared, names, rest, sockets

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = 60


def test_agents_called_at_random_among_kills_answer_and_come_to_rest(tmp_path: Path) -> None:
    with Fleet(make_deployment(tmp_path / "fleet")) as fleet:
        assert apply(fleet, declared(AGENTS, idle_timeout=1.0)) == {"created": AGENTS}
        first = names(AGENTS)[0]
        assert ask(sockets(fleet)[first], first, "first") == (200, "first")
        await_rest(fleet)
        fleet.spare()
        before = rest(fleet)
        crowd = Crowd(fleet, seed=13)
        kills = ("worker", "zygote", "supervisor")
        crowd.run(kills, between=4, callers=3, pause=0.1)
        tally = crowd.tally
        assert not tally.failed
        assert not tally.twice
        assert tally.kills == Counter(kills)
        await_rest(fleet)
        fleet.spare()
        fleet.await_that(lambda: rest(fleet) <= before, f"no more than {before}, but {rest(fleet)}")
