"""A goal for agents, ready or stopped: asked for, waited for and reported. What start, stop, restart and wait share.

Knows these requests and their answer; each verb has its own name, help and flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pallas_control.client import GRACE
from pallas_control.errors import RefusedError, UnknownAgentError
from pallasctl import options
from pallasctl.failures import Failure, NoSuchAgent
from pallasctl.text import STATE_COLOURS, one_line, paint
from pallasctl.verbs.state.readiness import READY

if TYPE_CHECKING:
    from pallas_control.documents import AgentStatus, VerbDocument
    from pallasctl.options import Option


def goal_verb(name: str, goal: str, help_: str, *flags: Option) -> click.Command:
    """A verb that asks for a goal; the options in `flags` go into the request by their names."""

    def run(agents: tuple[str, ...], *, every: bool, no_wait: bool, timeout: float, **given: bool) -> None:
        body = {"agents": options.chosen_agents(agents, every), "wait": not no_wait, "timeout": timeout}
        body |= {flag: True for flag, is_set in given.items() if is_set}
        document = ask(f"/v1/{name}", body, timeout, goal)
        report(document, goal, waited=not no_wait)

    command = click.command(name, help=help_)(run)
    no_wait = click.option(
        "--no-wait", is_flag=True, help="Return when the supervisor has taken the request."
    )
    timeout = options.timeout_option(f"How long to wait until they are {goal}.")
    every: tuple[Option, ...] = (
        options.agents_argument,
        options.all_option,
        *flags,
        no_wait,
        timeout,
        options.supervisor_options,
    )
    for option in every:
        option(command)
    return command


def ask(path: str, body: dict[str, Any], timeout: float, goal: str) -> VerbDocument:
    """The supervisor's answer to a verb.

    Raises:
        Failure: it refused, or the goal was not reached in time.
    """
    try:
        document: VerbDocument = options.control().post(path, body, timeout=timeout + GRACE)
    except UnknownAgentError as error:
        if options.GATEWAY in body["agents"] and path != "/v1/wait":
            verb = path.removeprefix("/v1/")
            said = f"the gateway is no agent: `pallasctl gateway {verb}`"
            raise NoSuchAgent(error.message, details=[*error.details, said]) from None
        raise
    except RefusedError as refusal:
        late = [_line(agent) for agent in refusal.document.get("agents", ()) if not _is_reached(agent, goal)]
        raise Failure(refusal.message, details=[*refusal.details, *late]) from None
    return document


def report(document: VerbDocument, goal: str, *, waited: bool) -> None:
    """Prints where the agents have come to.

    Raises:
        Failure: the goal cannot be reached any more.
    """
    done = document["done"] or not waited
    failed = [] if done else [agent for agent in document["agents"] if not _is_reached(agent, goal)]
    for agent in document["agents"]:
        if agent not in failed:
            click.echo(_line(agent))
    if not done:
        named = " ".join(agent["name"] for agent in failed)
        if not named:
            raise Failure(f"not {goal} in time; it goes on: `pallasctl status` says how far it is")
        raise Failure(
            f"not {goal}: `pallasctl logs {named}` says more", details=[_line(agent) for agent in failed]
        )


def _is_reached(agent: AgentStatus, goal: str) -> bool:
    """Whether the agent is where it was to come to; one that is idle counts as ready."""
    return agent["state"] in (READY if goal == "ready" else (goal,))


def _line(agent: AgentStatus) -> str:
    state = paint(agent["state"], STATE_COLOURS.get(agent["state"]))
    process = f" (pid {agent['pid']})" if agent["pid"] is not None else ""
    message = f": {one_line(agent['message'])}" if agent["message"] else ""
    return f"{agent['name']}: {state}{process}{message}"
