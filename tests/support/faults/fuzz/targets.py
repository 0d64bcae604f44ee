"""The inputs of a supervisor that somebody else controls, and one round of an attack on each.

A round writes hostile material into one input, may kill the victim in the middle of it, and returns; what has to hold
afterwards is checked by `watched_fleet`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.faults.fuzz.metrics_files import attack_metrics
from support.faults.fuzz.pipes import attack_output, attack_records, attack_report
from support.faults.fuzz.ports import (
    attack_absent_agent_port,
    attack_agent_port,
    attack_control,
    attack_registry,
)
from support.faults.fuzz.surroundings import attack_configuration, attack_environment

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from support.faults.fuzz.watched_fleet import WatchedFleet


TARGETS: dict[str, Callable[[WatchedFleet, random.Random], None]] = {
    "report": attack_report,
    "records": attack_records,
    "output": attack_output,
    "metrics": attack_metrics,
    "registry": attack_registry,
    "agent_port": attack_agent_port,
    "absent_agent_port": attack_absent_agent_port,
    "control": attack_control,
    "configuration": attack_configuration,
    "environment": attack_environment,
}
"""Input → one round of an attack on it."""
