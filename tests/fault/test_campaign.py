"""A short fault campaign on one fleet, the same in every run; `scripts/bench faults` runs longer ones.

Needs root, for small disks that can be filled, and a C compiler, for a clock that jumps. PALLAS_TEST_SEED draws others.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from support.faults.campaign import Campaign
from support.faults.faults import FAULTS

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("PALLAS_TEST_SEED", "1"))
COUNT = 40
"""Each kind once, but for those that take long."""
LONG = ("freeze the zygote",)
"""Kinds of which the time-outs alone take too long here."""

MEMORY = 24 * 2**20
"""Bytes by which the supervisor may grow in so short a time: its rings of log lines fill up, and nothing else."""


def test_nothing_that_befalls_a_fleet_leaves_a_trace(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    with ExitStack() as stack:
        try:
            campaign = stack.enter_context(Campaign(tmp_path / "campaign", SEED, flood=5_000_000, brood=12))
        except RuntimeError as error:
            if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
                raise
            pytest.skip(f"not run: {error}")
        outcomes = list(campaign.run([fault for fault in FAULTS if fault.name not in LONG], COUNT))
        assert len(outcomes) == COUNT
        assert campaign.calls.total["ok"] > COUNT
        assert campaign.control.asked > COUNT
        assert outcomes[-1].memory - outcomes[0].memory < MEMORY
