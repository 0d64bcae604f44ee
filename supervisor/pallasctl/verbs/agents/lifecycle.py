"""The verbs `start`, `stop` and `restart`, which ask for a goal and wait for it.

Knows the verbs' requests and how to report their end; `wait` reports in the same words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pallas_control.client import GRACE
from pallas_control.errors import Failure, Refused
from pallasctl.options import (
    agents_argument,
    all_option,
    chosen_agents,
    control,
    socket_option,
    timeout_option,
)
from pallasctl.text import one_line, paint
from pallasctl.verbs.state.status import STATE_COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pallas_control.client import Control
    from pallas_control.documents import AgentStatus, VerbDocument


def _verb(
    name: str, goal: str, help_: str, *more: Callable[[Callable[..., None]], Callable[..., None]]
) -> click.Command:
    """A verb that asks for a goal; `more` are flags of its own, which go into the request by their names."""

    def run(agents: tuple[str, ...], *, every: bool, no_wait: bool, timeout: float, **flags: bool) -> None:
        names = chosen_agents(agents, every)
        body = {"agents": names, "wait": not no_wait, "timeout": timeout}
        body |= {flag: True for flag, given in flags.items() if given}
        document = ask(control(), f"/v1/{name}", body, timeout, goal)
        report(document, goal, waited=not no_wait)

    options: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
        agents_argument,
        all_option,
        *more,
        click.option("--no-wait", is_flag=True, help="Return when the supervisor has taken the request."),
        timeout_option(f"How long to wait until they are {goal}."),
        socket_option,
    )
    command: Callable[..., None] = run
    for option in reversed(options):
        command = option(command)
    return click.command(name, help=help_)(command)


start = _verb("start", "ready", "Start agents, and what they depend on.\n\nWaits until they are ready.")
stop = _verb(
    "stop",
    "stopped",
    "Stop agents.\n\nCalls in flight are finished, within stop_timeout. Waits until they are stopped.",
    click.option("--cascade", is_flag=True, help="Stop those that depend on them as well."),
)
restart = _verb(
    "restart",
    "ready",
    "Restart agents without losing a call.\n\nThe new worker is ready before the old one drains. Several "
    "agents are restarted one after the other, after what they depend on (max_surge in agents.yaml); the "
    "first that does not come up ends it, and the old workers go on. Waits until the old workers are gone.",
    click.option("--now", is_flag=True, help="Stop the old worker first; callers get a 503 meanwhile."),
)


def ask(control_: Control, path: str, body: dict[str, Any], timeout: float, goal: str) -> VerbDocument:
    """The supervisor's answer to a verb.

    Raises:
        Failure: it refused, or the goal was not reached in time.
    """
    try:
        document: VerbDocument = control_.post(path, body, timeout=timeout + GRACE)
    except Refused as refusal:
        late = _lines(refusal.document.get("agents", ()), lambda agent: agent["state"] != goal)
        raise Failure(refusal.message, details=[*refusal.details, *late]) from None
    return document


def report(document: VerbDocument, goal: str, *, waited: bool) -> None:
    """Prints where the agents have come to.

    Raises:
        Failure: the goal cannot be reached any more.
    """
    done = document["done"] or not waited
    for line in _lines(document["agents"], lambda agent: done or agent["state"] == goal):
        click.echo(line)
    if not done:
        failed = _lines(document["agents"], lambda agent: agent["state"] != goal)
        raise Failure(f"not {goal}: `pallasctl logs AGENT` says more", details=failed)


def _lines(agents: Sequence[AgentStatus], which: Callable[[AgentStatus], bool]) -> list[str]:
    return [_line(agent) for agent in agents if which(agent)]


def _line(agent: AgentStatus) -> str:
    state = paint(agent["state"], STATE_COLOURS.get(agent["state"]))
    process = f" (pid {agent['pid']})" if agent["pid"] is not None else ""
    message = f": {one_line(agent['message'])}" if agent["message"] else ""
    return f"{agent['name']}: {state}{process}{message}"
