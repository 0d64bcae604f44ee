"""What this supervisor prints: nothing, records as lines, or, in a terminal, the story of its agents.

Knows which of them it is to be and connects it; nothing of what is said.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING

from pallas_common import __version__
from pallas_common.logs.own_loggers import own_logger
from pallas_common.protocol.gateway import GATEWAY, OPERATOR_FILE
from pallas_registry.catalogue.entries import page_url, published_url
from pallas_registry.environment.variables import logs_to_stderr
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.logs.console.lines import AgentView, DeploymentView
from pallas_supervisor.logs.console.plain import Console
from pallas_supervisor.logs.console.terminal import Screen, Terminal

if TYPE_CHECKING:
    import contextlib

    from pallas.assignment import Assignment
    from pallas_supervisor.agents.manager import AgentManager
    from pallas_supervisor.lifecycle.states import Agent


def in_terminal(assignment: Assignment) -> bool:
    """Whether people look on: stderr is a terminal, and not where records are wanted as JSON."""
    if assignment.background or logs_to_stderr(os.environ):
        return False
    return sys.stderr is not None and sys.stderr.isatty()


def open_console(assignment: Assignment) -> None:
    """Print the records as lines, where that is what is wanted; from now on, whatever the agents are."""
    if assignment.background or logs_to_stderr(os.environ) or in_terminal(assignment):
        return
    console = Console(assignment.configuration.deployment.name)
    if assignment.quiet:
        console.setLevel(logging.WARNING)
    own_logger().addHandler(console)


def open_terminal(assignment: Assignment, manager: AgentManager, stack: contextlib.AsyncExitStack) -> None:
    """Tell the story in the terminal, if there is one, until `stack` is left."""
    if not in_terminal(assignment):
        return
    deployment = assignment.configuration.deployment
    names = [*deployment.agents, *([] if deployment.gateway is None else [GATEWAY])]
    screen = Screen(sys.stderr, names, os.environ, quiet=assignment.quiet)
    engine = manager.engine
    terminal = Terminal(
        screen,
        manager.log_router,
        Views(manager).look,
        lambda: engine.shutting_down,
        asyncio.get_running_loop(),
    )
    stack.callback(terminal.close)
    terminal.open(
        DeploymentView(
            name=deployment.name,
            version=__version__,
            file=str(deployment.path),
            page=None if assignment.only else page_url(deployment),
            agents=tuple(deployment.agents),
            gateway=None if deployment.gateway is None else deployment.gateway.public_url,
            token=None
            if (state := assignment.configuration.state_directory) is None
            else str(state / OPERATOR_FILE),
        )
    )
    manager.observers.changed.add(terminal.changed)


class Views:
    """The agents as they are, without what only a request is worth: memory and files.

    They are looked at with each change; those that are idle and have been before are not made anew.
    """

    def __init__(self, manager: AgentManager) -> None:
        self._status = manager.status
        self._idle: dict[str, tuple[Agent, object, AgentView]] = {}

    def look(self) -> list[AgentView]:
        """All agents, in their order."""
        found = []
        idle = {}
        for name, agent in self._status.agents.items():
            deployed = self._status.deployment.agents[name]
            known = self._idle.get(name)
            if known is None or known[0] is not agent or known[1] is not deployed:
                known = agent, deployed, self._view(agent)
            if agent.state is State.IDLE:
                idle[name] = known
            found.append(known[2])
        self._idle = idle
        return found

    def _view(self, agent: Agent) -> AgentView:
        deployed = self._status.deployment.agents[agent.name]
        health, message = self._status.condition(agent)
        return AgentView(
            name=agent.name,
            state=str(agent.state),
            url=published_url(self._status.deployment, deployed) or "",
            desired=str(agent.desired),
            health=health,
            message=message,
            generation=agent.generation,
            failures=agent.failures,
            pid=agent.pid,
            last_exit=None if agent.last_exit is None else describe_exit(agent.last_exit),
            needs=deployed.depends_on,
            on_demand=deployed.start == "on-demand",
        )


def print_nothing_more() -> None:
    """Lead stdout and stderr of this process to the null device; its log is open."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    os.close(null)
