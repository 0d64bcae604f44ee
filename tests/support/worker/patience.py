"""Agents whose servers and LLM providers never count as slow or down because the machine stood still.

What is asserted of health, right after a start or a change, is then what the product makes of what is really there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = """
from functools import partial

from pallas_worker.health import provider_probe, subjects
from pallas_worker.health import report as health
from pallas_worker.fastagent import aggregator

PATIENCE = 180.0
health.FIRST_ROUND_TIMEOUT = PATIENCE
health.Prober = partial(health.Prober, timeout=PATIENCE)
provider_probe.ProviderCheck = partial(provider_probe.ProviderCheck, timeout=PATIENCE)
subjects.SLOW_IN_A_ROW = float("inf")
aggregator.SLOW_ATTACH = PATIENCE
"""
"""Imported in a worker before the agent's own module."""


def make_patient(agents: Path) -> None:
    """Let workers wait so long whose agents' modules are in the package `agents`; other failures they still tell."""
    (agents / "__init__.py").write_text(_PACKAGE)
