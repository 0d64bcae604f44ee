"""What the supervisor's metrics read of the agents, as plain fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_supervisor.lifecycle.states import Agent, Policy, State

if TYPE_CHECKING:
    from pallas_common.protocol.reports import Status
    from pallas_supervisor.telemetry.process_metrics import WorkerProcess


@dataclass
class Facts:
    """The facts themselves; `add` knows of one more agent."""

    agents: dict[str, Agent] = field(default_factory=dict)
    ports: dict[str, int | None] = field(default_factory=dict)
    processes: list[WorkerProcess] = field(default_factory=list)
    zygote_pid: int | None = None
    health: dict[str, Status] = field(default_factory=dict)
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    call_bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    lost_lines: dict[tuple[str, str], int] = field(default_factory=dict)
    unreadable_reports: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, state: State = State.READY) -> None:
        self.agents[name] = Agent(name=name, policy=Policy(), state=state)
        self.ports[name] = 24200 + len(self.agents)
        self.health[name] = "degraded"
        self.call_bounds[name] = (32, 64)
        self.memory[name] = (2**20, 2**29)
        self.lost_lines[name, "flood"] = 0
        self.unreadable_reports[name] = 0
