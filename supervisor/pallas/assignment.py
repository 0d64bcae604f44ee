"""What a supervisor is to run, as `pallas` was called. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pallas_registry.resources.files import ResourceFiles
from pallas_registry.source import alone
from pallas_supervisor.sockets.activation import Inheritance

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_registry.source import Configuration
    from pallas_supervisor.processes.keeper.client import Keeper
    from pallas_supervisor.processes.zygote_client import Zygote


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What this supervisor is to run."""

    configuration: Configuration
    """What `.env` says in it is in the environment already."""
    zygote: Zygote | None
    keeper: Keeper | None = None
    """The parent of all that is started; None to be that ourselves."""
    directory: Path
    """Working directory of the agents."""
    only: str | None = None
    """The one agent that is run, without registry and dependencies; None for all."""
    quiet: bool = False
    """Whether problems alone are printed."""
    background: bool = False
    """Whether nothing is printed any more once the log is open: nobody looks on."""
    resources: ResourceFiles = field(default_factory=ResourceFiles)
    """Has read those of the configuration."""
    inheritance: Inheritance = field(default_factory=Inheritance)
    """What the service manager handed down."""


def single(assignment: Assignment, name: str) -> Assignment:
    """The same deployment with one agent alone, without registry and dependencies."""
    given = assignment.configuration
    configuration = replace(given, deployment=alone(given.deployment, name))
    return replace(assignment, configuration=configuration, only=name)
