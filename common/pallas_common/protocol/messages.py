"""What supervisor and worker say to each other, and nothing else.

Down: a `WorkerSpec` as JSON in an anonymous memory file, the descriptors of `Descriptors`, and `Notice` messages of
`probe_sharing` on the `notices` pipe. Up: `Report` messages on the `report` pipe, and log records on the `records`
pipe; whatever the agent prints, on `output` (its stdout and stderr). Messages are JSON objects, one a line. The
lifeline is never written to: its end of file means that the supervisor is gone.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pallas_common.protocol.limits import (
    LIVENESS_INTERVAL,
    MAX_CONCURRENCY,
    MAX_QUEUE,
    MAX_REQUEST_BYTES,
    MINIMUM_LIVENESS_INTERVAL,
    SLOW_AFTER,
)
from pallas_common.protocol.llm import ModelCapabilities
from pallas_common.protocol.notices import PROBE_INTERVAL, ProbeResult
from pallas_common.protocol.typed_json import build, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

EXIT_PERMANENT = 78
"""Exit status of a worker whose failure a restart cannot mend (EX_CONFIG of sysexits.h)."""

EXIT_FAILURE = 70
"""Exit status of a worker that failed for a reason of the moment (EX_SOFTWARE of sysexits.h)."""


EXIT_OUT_OF_MEMORY = 71
"""Exit status of a worker that ran into its memory limit (EX_OSERR of sysexits.h)."""


class Descriptors(NamedTuple):
    """The descriptors that a worker inherits, in the order in which they are passed."""

    spec: int
    """Memory file that holds the JSON of a `WorkerSpec`."""
    listen: int
    """The agent's listening TCP socket; the supervisor keeps its own copy."""
    lifeline: int
    """Read end of a pipe; end of file when the supervisor is gone."""
    report: int
    """Write end of a pipe for `Report` messages."""
    records: int
    """Write end of a pipe for log records; non-blocking."""
    output: int
    """Write end of a pipe that becomes stdout and stderr."""
    notices: int
    """Read end of a pipe for `Notice` messages; at its end of file nobody shares probes with the worker any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """All that one worker is told. Times are in seconds."""

    agent: str
    module: str
    title: str
    description: str
    version: str
    deployment: str
    port: int
    generation: int
    """Number of this start of the agent, from 1; unique while the supervisor lives."""
    directory: str
    """Working directory, where the module and the fast-agent configuration are looked up."""
    listener_outlives: bool = False
    """Whether the service manager keeps the listening socket for the next supervisor: it must not be shut down."""
    allowed_hosts: tuple[str, ...]
    """Names and addresses that a Host header may have, with any port, and the origins of pages that may ask."""
    metrics_directory: str
    metrics_slot: str
    """Names this worker's metrics files; letters and digits only."""
    stop_timeout: float
    """How long a drain may take after SIGTERM."""
    log_level: str
    root_log_level: str
    default_model: str | None = None
    capabilities: ModelCapabilities | None = None
    max_concurrency: int = MAX_CONCURRENCY
    """Calls that run at a time; the others wait."""
    max_queue: int = MAX_QUEUE
    """Calls that wait at most; those beyond are refused."""
    max_request_bytes: int = MAX_REQUEST_BYTES
    """Bytes of one request's body."""
    liveness_interval: float = LIVENESS_INTERVAL
    """From one heartbeat to the next."""
    memory_limit: int | None = None
    """Bytes that it may take; None if that is not limited."""
    probe_interval: float = PROBE_INTERVAL
    """From one probe of what the agent needs to the next."""
    slow_after: float = SLOW_AFTER
    """Beyond which such a probe counts as slow."""
    probe_key: str | None = field(default=None, repr=False)
    """Names the targets of probes that workers share; None to share none."""
    cgroup: str | None = None
    """Path of the control group that the worker is to join; None if it has none of its own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The whole environment of the worker."""

    def to_json(self) -> bytes:
        """The spec as UTF-8 JSON."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> WorkerSpec:
        """The spec that `to_json` wrote.

        Raises:
            ValueError: `data` is not such JSON.
        """
        try:
            fields = json.loads(data)
            if (capabilities := fields["capabilities"]) is not None:
                fields["capabilities"] = ModelCapabilities(**capabilities)
            fields["allowed_hosts"] = tuple(fields["allowed_hosts"])
            return cls(**fields)
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a worker specification: {error}") from error


Stage = Literal["importing", "creating", "serving"]
Status = Literal["ok", "degraded", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """The worker has begun this stage of its start."""

    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyReport:
    """The agent's module is imported, one instance was made and disposed of, and the port is served."""

    model: str | None
    """The model of the served agent, `provider.model-name`, or None if it has none."""
    capabilities: ModelCapabilities | None
    """What the registry may publish for this agent's own model."""
    served: str | None = None
    """What the served agent is called in its module, where that may be another name."""


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
    latency: float
    """Seconds that the probe took."""
    error: str | None = None
    checked: str | None = None
    """When it ended, as RFC 3339."""


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
    """The serving loop turns. The first one comes before `ReadyReport`, the last one before the drain."""

    interval: float
    """Seconds until the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport:
    """What the worker looks at and others may look at, too: it wants to hear of it, or to be told to probe it."""

    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedReport:
    """What the worker has found by probes of its own, of targets that it shares."""

    results: tuple[ProbeResult, ...]


Report = StageReport | ReadyReport | FailedReport | HealthReport | Heartbeat | WatchReport | ProbedReport

_KINDS: Mapping[str, type[Report]] = {
    "stage": StageReport,
    "ready": ReadyReport,
    "failed": FailedReport,
    "health": HealthReport,
    "heartbeat": Heartbeat,
    "watch": WatchReport,
    "probed": ProbedReport,
}
_NAMES = {type_: name for name, type_ in _KINDS.items()}


def encode_report(report: Report) -> bytes:
    """The report as one line of JSON, with its line feed."""
    return json.dumps({"kind": _NAMES[type(report)], **dataclasses.asdict(report)}).encode() + b"\n"


def decode_report(line: bytes) -> Report:
    """The report in one line that `encode_report` wrote.

    Whoever wrote it, every field of what is returned is of its type, numbers are finite, and texts can be written.

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
