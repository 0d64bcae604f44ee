"""Worker, gateway and database killed in the middle of turns with tools: what was told is kept, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.gateway.postgres import shared_postgres
from support.gateway.turns.killed import killing

if TYPE_CHECKING:
    from pathlib import Path

    from support.gateway.turns.killed import Victim

KILLS: dict[str, tuple[Victim, ...]] = {
    "sqlite": ("gateway", "worker", "gateway"),
    "postgresql": ("postgres", "gateway", "backend", "worker"),
}


@pytest.mark.parametrize("database", KILLS)
def test_what_was_told_of_turns_survives_kills(tmp_path: Path, database: str) -> None:
    postgres = shared_postgres() if database == "postgresql" else None
    with killing(tmp_path / "fleet", talkers=3, seed=15, postgres=postgres) as running:
        for victim in KILLS[database]:
            running.once(victim)
        running.talkers.go_on()
        running.talkers.pause()
        ended = running.check()
    assert ended["answered"] >= 3 * (len(KILLS[database]) + 1)
    assert ended["failed"] + ended["broken off"] + ended["never begun"] > 0, "no turn was hit"
