"""What the supervisor passes to a worker, and the exit statuses by which the worker answers.

A `WorkerSpec` goes down as JSON in an anonymous memory file, beside the descriptors of `Descriptors`. The lifeline is
never written to: its end of file means that the supervisor is gone.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.protocol.agent.definition import AgentDefinition
from pallas_common.protocol.agent.llm import ModelCapabilities
from pallas_common.protocol.agent.settings import AgentSettings
from pallas_common.protocol.agent.sibling import Sibling
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.probe_interval import PROBE_INTERVAL

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
    """The agent's listening socket, TCP or unix; the supervisor keeps its own copy."""
    lifeline: int
    """Read end of a pipe; end of file when the supervisor is gone."""
    report: int
    """Write end of a pipe for `Report` messages."""
    records: int
    """Write end of a pipe for log records; non-blocking."""
    output: int
    """Write end of a pipe that becomes stdout and stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec(AgentSettings):
    """All that one worker is passed, with its agent's settings. Times are in seconds."""

    agent: str
    source: AgentSource
    key: str | None = field(default=None, repr=False)
    """Of this start: who shows it may override what the agent's definition says; nobody can where there is none."""
    siblings_key: str | None = field(default=None, repr=False)
    """Of the deployment: its agents show it to each other."""
    sibling_urls: tuple[str, ...] = ()
    """By which ports of agents are reached, each without a path: the siblings' key is for no one else."""
    is_behind: bool = False
    """Whether the agent stands behind the gateway: its port takes calls with one of the two keys alone."""
    token: str | None = field(default=None, repr=False)
    """The agent's own for the gateway, of this start; None where there is no gateway."""
    gateway_urls: tuple[str, ...] = ()
    """By which the gateway is reached, each without a path: the token is for no one else."""
    title: str
    description: str
    version: str
    deployment: str
    port: int | None
    """None where the listening socket is a unix socket."""
    generation: int
    """Number of this start of the agent, from 1; unique while the supervisor lives."""
    directory: str
    """Working directory, where the agent's source and the fast-agent configuration are looked up."""
    listener_outlives: bool = False
    """Whether the service manager keeps the listening socket for the next supervisor: it must not be shut down."""
    allowed_hosts: tuple[str, ...]
    """Names and addresses that a Host header may have, with any port, and the origins of pages that may ask."""
    metrics_directory: str
    metrics_slot: str
    """Names this worker's metrics files; letters and digits only."""
    log_level: str
    root_log_level: str
    default_model: str | None = None
    models: tuple[str, ...] = ()
    """Those that a call may have in place of the agent's own."""
    capabilities: ModelCapabilities | None = None
    probe_interval: float = PROBE_INTERVAL
    """From one probe of what the agent needs to the next."""
    cgroup: str | None = None
    """Path of the control group that the worker is to join; None if it has none of its own."""
    output_schema: Mapping[str, object] | None = None
    """A JSON Schema that the agent's answers have to fit."""
    definition: AgentDefinition | None = None
    """What the agent is made from where `source` says so."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`NAME/KEY` of each secret that the definition refers to → its value."""
    siblings: tuple[Sibling, ...] = ()
    """The agents that may be among the servers of this one."""
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
            fields["source"] = AgentSource(**fields["source"])
            if (definition := fields.get("definition")) is not None:
                fields["definition"] = AgentDefinition.from_json(definition)
            fields["siblings"] = tuple(Sibling(**each) for each in fields.get("siblings", ()))
            fields["allowed_hosts"] = tuple(fields["allowed_hosts"])
            fields["models"] = tuple(fields.get("models", ()))
            fields["gateway_urls"] = tuple(fields.get("gateway_urls", ()))
            fields["sibling_urls"] = tuple(fields.get("sibling_urls", ()))
            return cls(**fields)
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a worker specification: {error}") from error
