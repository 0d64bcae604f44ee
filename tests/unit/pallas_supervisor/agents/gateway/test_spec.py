"""What the process of the gateway is passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pallas_supervisor.agents.gateway.spec import store_of


@pytest.mark.parametrize(
    ("store", "opened"),
    [
        (None, "sqlite:/state/gateway.db"),
        ("sqlite:own.db", "sqlite:/state/own.db"),
        ("sqlite:/srv/own.db", "sqlite:/srv/own.db"),
        ("sqlite:////srv/own.db", "sqlite:////srv/own.db"),
        ("postgresql://pallas@db/pallas", "postgresql://pallas@db/pallas"),
    ],
)
def test_the_store_is_opened_wherever_the_process_is(store: str | None, opened: str) -> None:
    assert store_of(store, Path("/state")) == opened
