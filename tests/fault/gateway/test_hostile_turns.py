"""Whatever a model says: no turn without an end, no 500, and no thread that goes on no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.gateway.postgres import shared_postgres
from support.gateway.turns.hostile import hostile_turns

if TYPE_CHECKING:
    from pathlib import Path

TURNS = 60
"""On each store; `scripts/bench gateway/hostile_turns` has more."""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_threads_go_on_after_whatever_a_model_has_said(tmp_path: Path, database: str) -> None:
    postgres = shared_postgres() if database == "postgresql" else None
    with hostile_turns(tmp_path / "fleet", people=4, seed=27, postgres=postgres) as running:
        seen = running.talk(TURNS, kills=1)
    assert not seen.wrong, "\n".join(seen.wrong[:5])
    assert seen.ends["echoed"] >= TURNS // 8
    assert seen.ends["whole 200"] > 0
    assert seen.ends["streamed final"] > 0
