"""One turn with an agent: where it is, the call with its progress on the terminal, and what is said of a failure.

Knows the status document and the client of agents; nothing of options or conversations.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import no_such_agent
from pallas_control.mcp.client import call
from pallas_control.mcp.errors import BusyError, CallError, ConnectionLostError, UnavailableError
from pallas_control.mcp.exchange import Endpoint
from pallas_control.mcp.messages import Answer, Progress
from pallas_registry.catalogue.entries import is_of_gateway
from pallasctl.failures import NoSuchAgent
from pallasctl.options import control

if TYPE_CHECKING:
    from pallas_control.documents import AgentStatus, StatusDocument
    from pallas_control.mcp.messages import Question
    from pallasctl.verbs.talk.terminal.status_line import StatusLine

BUSY = "the agent is busy"
"""Begins the error result of a call for which there is no room (docs/clients.md)."""


class Target(NamedTuple):
    """An agent to talk to."""

    name: str
    endpoint: Endpoint
    note: str = ""
    """What keeps it from answering at once, or from answering well; empty if nothing does."""

    @property
    def is_deployed(self) -> bool:
        """Whether it is one of the supervisor here, and not just a URL."""
        return self.endpoint.is_local


class AgentError(CallError):
    """The agent answered with an error; its text may have several lines."""

    kind = "agent"


def find(agent: str) -> Target:
    """The agent by its name, as the supervisor knows it now, or by the URL of its MCP endpoint.

    Raises:
        ControlError: the supervisor cannot be asked.
        NoSuchAgent: it has no such agent.
        UnavailableError: the agent is stopped or has failed, so that a call would be refused.
    """
    if agent.startswith(("http://", "https://")):
        return Target(agent, Endpoint(agent))
    asked = control()
    document: StatusDocument = asked.get("/v1/status")
    known = {entry["name"]: entry for entry in document["agents"]}
    if agent not in known:
        raise NoSuchAgent(no_such_agent([agent], known))
    entry = known[agent]
    if (refusal := _refusal(entry)) is not None:
        raise UnavailableError(refusal)
    url, path = entry.get("url"), entry.get("socket")
    if path is not None:
        url = "http://localhost/mcp"  # the name is for the Host header alone
    elif url is None or is_of_gateway(url):  # on this machine, its port takes the key instead of a token
        url = f"http://localhost:{entry['port']}/mcp"
    gateway = document.get("gateway")
    is_behind = gateway is not None and gateway["workers"] == "behind"
    key = asked.post("/v1/siblings-key", {})["key"] if is_behind else None
    return Target(agent, Endpoint(url, is_local=True, socket=path, key=key), _note(entry))


def take_turn(target: Target, question: Question, timeout: float | None, line: StatusLine) -> Answer:
    """Ask and wait for the answer; an interrupt cancels the call.

    Args:
        timeout: seconds, or None for no limit.

    Raises:
        CallError: there is no answer, or it is an error.
    """
    with contextlib.closing(call(target.endpoint, question, timeout=timeout)) as news, line:
        line.show(target.note or f"waiting for {target.name}")
        for item in news:
            if isinstance(item, Answer):
                break
            if isinstance(item, Progress) and item.message:
                line.show(item.message)
            line.refresh()
    assert isinstance(item, Answer)
    return answered(item)


def answered(answer: Answer) -> Answer:
    """The answer itself.

    Raises:
        CallError: it is an error.
    """
    if answer.is_error:
        text = answer.text.strip() or "an error without a message"
        raise (BusyError if text.startswith(BUSY) else AgentError)(text)
    return answer


def explain(name: str, error: CallError, *, is_deployed: bool) -> tuple[str, list[str]]:
    """A failure for people: one line with the way out, and the lines below it."""
    first, *rest = error.message.splitlines() or [""]
    said = first if name in first else f"{name}: {first}"
    if isinstance(error, UnavailableError) and error.retry_after is not None:
        said += f"; it may answer again in {error.retry_after} s"
    if isinstance(error, ConnectionLostError) and is_deployed:
        said += f"; `pallasctl logs {name}` may say why"
    return said, rest


def _refusal(entry: AgentStatus) -> str | None:
    name, message = entry["name"], entry["message"]
    match entry["state"]:
        case "stopped":
            return f"{name} is stopped; start it with `pallasctl start {name}`"
        case "failed":
            why = f": {message}" if message else ""
            return f"{name} has failed{why}; `pallasctl logs {name}` says more, `pallasctl start {name}` tries again"
        case _:
            return None


def _note(entry: AgentStatus) -> str:
    name, message = entry["name"], entry["message"]
    match entry["state"]:
        case "starting" | "waiting" | "killing" | "stopping":
            return f"{name} is {entry['state']}…" + (f" {message}" if message else "")
        case "ready" if entry["health"] in {"degraded", "error"} and message:
            return f"{name} is {entry['health']}: {message}"
        case _:
            return ""
