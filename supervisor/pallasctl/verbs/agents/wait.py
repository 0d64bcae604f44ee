"""The verb `wait`: until agents are ready or stopped. It also waits for a supervisor that is just starting.

Knows one request of the control API; decides nothing about agents.
"""

from __future__ import annotations

import time

import click

from pallas_control.errors import UnknownAgentError, UnreachableError
from pallasctl import options
from pallasctl.verbs.agents.goals import ask, report
from pallasctl.verbs.gateway.operate import ask_gateway

_POLL = 0.1


@click.command()
@options.watched_argument
@options.all_option
@click.option(
    "--for",
    "goal",
    type=click.Choice(["ready", "stopped"]),
    default="ready",
    show_default=True,
    help="What to wait for.",
)
@options.timeout_option("How long to wait.")
@options.supervisor_options
def wait(agents: tuple[str, ...], *, every: bool, goal: str, timeout: float) -> None:
    """Wait until agents are ready, or stopped; `gateway` is the gateway.

    A supervisor that does not answer yet is waited for too, where the goal is `ready`. The exit status is 1
    once an agent cannot get there any more, or at the time-out.
    """
    names = options.chosen_agents(agents, every)
    with_gateway = False
    deadline = time.monotonic() + timeout
    while True:
        left = max(deadline - time.monotonic(), _POLL)
        try:
            body = {"agents": names, "wait": True, "timeout": left, "for": goal}
            document = ask("/v1/wait", body, left, goal)
        except UnreachableError:
            if goal != "ready" or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL)
        except UnknownAgentError:
            if not _is_gateway(names):
                raise
            with_gateway, names = True, [name for name in names if name != options.GATEWAY]
            if not names:
                break
        else:
            report(document, goal, waited=True)
            break
    if with_gateway:
        ask_gateway("wait", goal, wait=True, timeout=max(deadline - time.monotonic(), _POLL))


def _is_gateway(names: list[str]) -> bool:
    """Whether the name that no agent has is the gateway's."""
    return options.GATEWAY in names and options.control().get("/v1/status").get("gateway") is not None
