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
from pallas_registry.catalogue.entries import endpoint, page_url
from pallas_registry.environment.variables import logs_to_stderr
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.logs.console.lines import AgentView, DeploymentView
from pallas_supervisor.logs.console.plain import Console
from pallas_supervisor.logs.console.terminal import Screen, Terminal

if TYPE_CHECKING:
    import contextlib

    from pallas.assignment import Assignment
    from pallas_supervisor.agents.manager import AgentManager


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
    screen = Screen(sys.stderr, deployment.agents, os.environ, quiet=assignment.quiet)
    engine = manager.engine
    terminal = Terminal(
        screen,
        manager.log_router,
        lambda: views(manager),
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
        )
    )
    manager.observers.changed.add(terminal.changed)


def views(manager: AgentManager) -> list[AgentView]:
    """The agents as they are, without what only a request is worth: memory and files."""
    status = manager.status
    deployment = status.deployment
    found = []
    for name, agent in status.agents.items():
        health, message = status.condition(agent)
        found.append(
            AgentView(
                name=name,
                state=str(agent.state),
                url=endpoint(deployment.host, deployment.agents[name].port) or "",
                desired=str(agent.desired),
                health=health,
                message=message,
                generation=agent.generation,
                failures=agent.failures,
                pid=agent.pid,
                last_exit=None if agent.last_exit is None else describe_exit(agent.last_exit),
                needs=deployment.agents[name].depends_on,
            )
        )
    return found


def print_nothing_more() -> None:
    """Lead stdout and stderr of this process to the null device; its log is open."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    os.close(null)
