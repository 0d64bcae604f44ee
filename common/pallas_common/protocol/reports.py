"""What a worker reports to the supervisor: `Report` messages on the `report` pipe, as JSON objects, one a line."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pallas_common.protocol.agent.llm import ModelCapabilities  # noqa: TC001 - `decode_report` looks it up
from pallas_common.protocol.agent.settings import MINIMUM_LIVENESS_INTERVAL
from pallas_common.protocol.typed_json import build, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

Stage = Literal["importing", "creating", "serving"]
Status = Literal["ok", "degraded", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """The worker has begun this stage of its start."""

    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """One of the agents that the served agent is made of, or itself."""

    name: str
    kind: str
    """fast-agent's word: `agent`, `router`, `chain`, …"""
    model: str | None
    """`provider.model-name`; None if it asks none."""
    agents: tuple[str, ...] = ()
    """The parts that it uses."""
    servers: tuple[str, ...] = ()
    """The MCP servers that it uses."""
    tools: tuple[str, ...] = ()
    """What it could call at the start, as far as servers answered that do not know who calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """A downstream MCP server, as it is configured."""

    name: str
    transport: Literal["http", "sse", "stdio"]
    target: str
    """Its address without credentials and query, or the command and what it runs."""
    forwards_bearer: bool = False
    """Whether it gets the caller's bearer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyReport:
    """The agent's module is imported, one instance was made and disposed of, and the port is served."""

    model: str | None
    """The model of the served agent, `provider.model-name`, or None if it has none."""
    capabilities: ModelCapabilities | None
    """What the registry may publish for this agent's own model."""
    served: str | None = None
    """What the served agent is called in its module, where that may be another name."""
    parts: tuple[PartReport, ...] = ()
    """What the served agent is made of: itself first."""
    servers: tuple[ServerReport, ...] = ()
    """What the parts use."""
    left_out: int = 0
    """Parts, servers and tools that had no room in this report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """A file of the user's, as it was loaded."""

    path: str
    """In the working directory."""
    state: str
    """Its size in bytes and its time of change in nanoseconds."""
    digest: str | None = None
    """Of its content; None of a large file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReport:
    """Files of the user's that the worker has loaded with its agent's source; several of these reports tell all."""

    files: tuple[FileMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReport:
    """The worker gives up; its exit follows."""

    message: str
    """One line for people: the last line of the traceback, without secrets."""
    permanent: bool
    """A restart cannot mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamHealth:
    """The newest probe of one downstream MCP server."""

    name: str
    up: bool
    latency: float | None
    """Seconds that the probe took; None for an agent that starts on demand, which no probe may wake."""
    error: str | None = None
    checked: str | None = None
    """When it ended, as RFC 3339."""
    incomplete: str | None = None
    """What is missing in its lists of tools and the like, which calls have read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderHealth:
    """The newest check of the active LLM provider."""

    name: str
    up: bool
    latency: float | None = None
    """Seconds that the check took."""
    error: str | None = None
    checked: str | None = None
    """When it ended, as RFC 3339."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """One round of background probes, as `get_health` answers it."""

    status: Status
    timestamp: str
    message: str | None = None
    downstreams: tuple[DownstreamHealth, ...] = ()
    provider: ProviderHealth | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The serving event loop is responsive. The first one comes before `ReadyReport`, the last one before the drain."""

    interval: float
    """Seconds until the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleReport:
    """No call has run or waited for the agent's `idle_timeout`, and the worker takes no connection for now.

    Said again each time that it passes again, should the worker not be ended.
    """


Report = StageReport | CodeReport | ReadyReport | FailedReport | HealthReport | Heartbeat | IdleReport

_KINDS: Mapping[str, type[Report]] = {
    "stage": StageReport,
    "ready": ReadyReport,
    "code": CodeReport,
    "failed": FailedReport,
    "health": HealthReport,
    "heartbeat": Heartbeat,
    "idle": IdleReport,
}
_NAMES = {type_: name for name, type_ in _KINDS.items()}


_dumps = json.dumps
"""Python's own, whatever an agent's code puts in its place: what goes wrong by that has to be reported."""


def encode_report(report: Report) -> bytes:
    """The report as one line of JSON, with its line feed."""
    return _dumps({"kind": _NAMES[type(report)], **dataclasses.asdict(report)}).encode() + b"\n"


def decode_report(line: bytes) -> Report:
    """The report in one line that `encode_report` wrote.

    Every field of it is of its type, numbers are finite and texts can be written, whatever the line holds.

    Raises:
        ValueError: the line is not a known report; the message says why, in a few words.
    """
    fields = read_object(line)
    name = fields.pop("kind", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError("not of a known kind")
    report = build(kind, fields)
    if isinstance(report, Heartbeat) and report.interval < MINIMUM_LIVENESS_INTERVAL:
        raise ValueError(f"interval: {report.interval:g} is below {MINIMUM_LIVENESS_INTERVAL:g}")
    return report
