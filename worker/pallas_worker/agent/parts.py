"""What the served agent is made of, for people who look: its parts, their servers and tools. Bounded, without secrets.

Knows fast-agent's definitions and downstream servers as facts; makes no agent and talks to no server.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fast_agent.agents.agent_types import AgentType
from fast_agent.core.validation import get_agent_dependencies

from pallas_common.problems import shortened
from pallas_common.protocol.reports import PartReport, ServerReport
from pallas_worker.agent.models.agent_kinds import asks_a_model
from pallas_worker.redact import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pallas_worker.downstreams.facts import Downstream

LONGEST_NAME = 100
"""Characters of a name or an address."""
ROOM = 24 * 1024
"""Bytes that all names together take in a report: one that is longer than a line may be is not read at all."""

_KINDS = {AgentType.BASIC.value: "agent"}
"""Where people write another word than fast-agent keeps."""


class _Room:
    """What is left of a report's room."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.left_out = 0

    def take(self, *texts: str | None) -> bool:
        """Take the room that these need together; whether there was enough."""
        self._left -= sum(len(json.dumps(text)) + 4 for text in texts)
        self.left_out += self._left < 0
        return self._left >= 0


def parts_of(
    served: str,
    definitions: Mapping[str, Mapping[str, Any]],
    servers: Sequence[Downstream],
    tools: Mapping[str, Sequence[str]],
    model_of: Callable[[Any], str | None],
) -> tuple[tuple[PartReport, ...], tuple[ServerReport, ...], int]:
    """The parts, the served agent first; the servers that they use; and how much had no room.

    Args:
        definitions: of the served agent and all that it is made of.
        tools: by part, the names of the tools that it could call when an instance was tried.
        model_of: the model of an agent's configuration, `provider.model-name`.
    """
    room = _Room(ROOM)
    found_servers = tuple(server for server in map(_server, servers) if room.take(server.name, server.target))
    parts = []
    for name in sorted(definitions, key=lambda name: name != served):
        data = definitions[name]
        model = model_of(data["config"]) if asks_a_model(data) else None
        kind = _KINDS.get(said := str(data.get("type") or AgentType.BASIC.value), said)
        if not room.take(_short(name), _short(kind), model and _short(model)):
            continue
        parts.append(
            PartReport(
                name=_short(name),
                kind=_short(kind),
                model=None if model is None else _short(model),
                agents=_taken(sorted(get_agent_dependencies(dict(data)) & definitions.keys()), room),
                servers=_taken(data["config"].servers, room),
                tools=_taken(tools.get(name, ()), room),
            )
        )
    return tuple(parts), found_servers, room.left_out


def _taken(names: Iterable[str], room: _Room) -> tuple[str, ...]:
    return tuple(name for name in map(_short, dict.fromkeys(names)) if room.take(name))


def _short(text: str) -> str:
    return shortened(redact(str(text)), LONGEST_NAME)


def _server(server: Downstream) -> ServerReport:
    return ServerReport(
        name=_short(server.name),
        transport=server.transport,
        target=_short(_target(server)),
        forwards_bearer=server.forward_inbound_auth,
    )


def _target(server: Downstream) -> str:
    """Where it is: an address without what may be secret in it, or a command and what it runs."""
    if server.url is not None:
        try:
            parts = urlsplit(server.url)
            host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError:
            return ""
        return f"{parts.scheme}://{host or ''}{port}{parts.path}"
    # Arguments may be secrets: only what is run is told, the first that is no option.
    run = next((argument for argument in server.args if not argument.startswith("-")), "")
    return f"{server.command or ''} {run}".strip()
