"""How an inspection is ordered and what comes back: an agent's code is tried in a process of its own, not served.

`pallas check` starts one inspector for each interpreter, which forks a guard for each order. The guard forks the one
in which the agent's code runs, bounds its time, ends all that it has started, and alone writes the answer, an
`InspectionEnd`. The inspected process writes lines to its guard: `Report`s as at a start, and an `Inspection` last.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pallas_common.protocol.typed_json import build, read_object

MOST_LINES = 256 * 1024
"""Bytes of an inspected process's lines that are taken."""
MOST_OUTPUT = 16 * 1024
"""Bytes of what it prints that are kept: the last ones."""
MOST_ANSWER = 8 * (MOST_LINES + MOST_OUTPUT)
"""Bytes of an `InspectionEnd`: its texts may become longer within JSON."""

MOST_ITEMS = 100
"""Warnings, servers and the like of one agent."""

Depth = Literal["local", "online"]
"""Whether servers and LLM providers are asked as well."""


class InspectionDescriptors(NamedTuple):
    """What goes to an inspector with an order."""

    spec: int
    """Memory file that holds the JSON of a `WorkerSpec`."""
    answer: int
    """Write end of a pipe for the `InspectionEnd`; its end of file means that nothing of the inspection is left."""
    lifeline: int
    """Read end of a pipe; at its end of file the inspection is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorReady:
    """An inspector's first packet."""

    version: str
    """Of Pallas, in that interpreter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionOrder:
    """One order: a packet, with `InspectionDescriptors`."""

    depth: Depth
    timeout: float
    """Seconds from the fork to the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedServer:
    """One downstream MCP server."""

    name: str
    transport: Literal["http", "sse", "stdio"]
    address: str
    """Scheme, host and port of its URL, or its command: nothing that can hold a secret."""
    up: bool | None
    """None where it was not asked."""
    latency: float | None
    """Seconds."""
    trouble: str | None
    """What a worker would log of it, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedProvider:
    """One LLM provider."""

    name: str
    up: bool
    latency: float | None
    """Seconds."""
    trouble: str | None
    counts: bool
    """Whether the agent's health depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """An agent that can be started, and what it is made of."""

    served: str
    """What the served agent is called in its code."""
    agents: tuple[str, ...]
    """That one and those that it is made of."""
    model: str | None
    """The served agent's model, `provider.model-name`."""
    models: tuple[str, ...]
    """All models that are asked for an answer."""
    servers: tuple[InspectedServer, ...]
    providers: tuple[InspectedProvider, ...]
    """Those that were asked."""
    failure: str | None
    """Why no call could be answered, and what to do."""
    warnings: tuple[str, ...]
    """What a worker would warn of at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionEnd:
    """How an inspection ended, in the words of its guard."""

    lines: str
    """What the inspected process wrote to its guard; whatever its code has written there."""
    output: str
    """The end of what it printed."""
    printed: int
    """Bytes that it printed."""
    status: int | None
    """Exit status, or None."""
    signal: int | None
    """Number of the signal that ended it, or None."""
    timed_out: bool
    seconds: float


def encode(message: InspectorReady | InspectionOrder | Inspection | InspectionEnd) -> bytes:
    """The message as one line of JSON, with its line feed."""
    return json.dumps(dataclasses.asdict(message)).encode() + b"\n"


def decode[T: InspectorReady | InspectionOrder | Inspection | InspectionEnd](kind: type[T], line: bytes) -> T:
    """The message in one line that `encode` wrote.

    Raises:
        ValueError: the line is none of that kind.
    """
    return build(kind, read_object(line))
