"""The shapes of the control API's answers (docs/control-api.md), for the type checker.

Knows no transport and no output; a supervisor of another version may send more keys than these.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class SourceStatus(TypedDict):
    """Where an agent is declared."""

    kind: Literal["file", "resource"]
    file: NotRequired[str]
    line: NotRequired[int | None]


class AgentStatus(TypedDict):
    """One agent in the status document."""

    name: str
    state: str
    desired: Literal["up", "down"]
    pid: int | None
    port: int | None
    url: NotRequired[str | None]
    """Where clients reach it, by the gateway or by its own port; None without either."""
    socket: NotRequired[str | None]
    """Path of the unix socket that it listens on; None with a port."""
    restarts: int
    failures: int
    max_failures: int
    since: str
    health: str
    message: str
    last_exit: str | None
    generation: int
    start: NotRequired[Literal["always", "on-demand"]]
    source: NotRequired[SourceStatus]
    depends_on: list[str]
    resident_memory: int | None
    outdated: NotRequired[list[str]]
    """Files that say something else now than at the start of its process, those of `changed_code` among them."""
    changed_code: NotRequired[list[str]]
    """Source files that have changed since."""
    replacing: NotRequired[bool]
    """A worker that goes by the newest files is about to take over, or its turn comes."""


class GatewayStatus(TypedDict):
    """The gateway in the status document."""

    state: str
    desired: Literal["up", "down"]
    pid: int | None
    bind: str
    port: int
    url: str
    """Where it listens."""
    public_url: str
    """By which clients reach it."""
    workers: Literal["open", "behind"]
    restarts: int
    failures: int
    max_failures: int
    since: str
    health: str
    message: str
    last_exit: str | None
    generation: int
    resident_memory: int | None


class SupervisorStatus(TypedDict):
    """The supervisor in the status document."""

    pid: int
    version: str
    since: str
    state_directory: NotRequired[str | None]
    """Where resources are kept; None: its user has no home."""


class FilesStatus(TypedDict):
    """The configuration files in the status document."""

    changed: list[str]
    problems: int


class EventPosition(TypedDict):
    """Of the newest event: what comes after it is not in the document yet."""

    epoch: str
    seq: int


class StatusDocument(TypedDict):
    """`GET /v1/status`."""

    deployment: str
    file: NotRequired[str]
    """Of `agents.yaml`, absolute."""
    directory: NotRequired[str]
    """Working directory of the agents."""
    url: NotRequired[str | None]
    """Of the status page; None where one agent runs alone."""
    supervisor: SupervisorStatus
    configuration: NotRequired[FilesStatus]
    agents: list[AgentStatus]
    gateway: NotRequired[GatewayStatus | None]
    """None: the deployment has none."""
    events: NotRequired[EventPosition]


class EventDocument(TypedDict):
    """A line of `GET /v1/events`; besides, each event has fields of its own."""

    epoch: str
    seq: int
    time: str
    kind: str
    name: str
    event: str


class VerbDocument(TypedDict):
    """What start, stop, restart and wait answer."""

    done: bool
    agents: list[AgentStatus]


class GatewayVerbDocument(TypedDict):
    """What start, stop and restart of the gateway answer."""

    done: bool
    gateway: GatewayStatus


class ChangedAgent(TypedDict):
    """One agent whose definition a reload changes."""

    agent: str
    fields: list[str]
    action: Literal["live", "respawn", "rebind"]


class GatewayAddress(TypedDict):
    """Where the gateway listens, and by which URL clients reach it."""

    bind: str
    port: int
    public_url: str


class ChangedGateway(TypedDict):
    """What a reload does with the gateway."""

    change: Literal["added", "removed", "changed"]
    fields: list[str]
    action: Literal["live", "respawn", "rebind"] | None
    before: GatewayAddress | None
    after: GatewayAddress | None


class ReloadDocument(TypedDict):
    """What reload answers."""

    dry_run: bool
    added: list[str]
    removed: list[str]
    changed: list[ChangedAgent]
    unchanged: list[str]
    older_code: NotRequired[dict[str, list[str]]]
    """Source files that have changed since the start of agents that get no new process."""
    gateway: NotRequired[ChangedGateway | None]
    """None: nothing of it changes."""


class AppliedResource(TypedDict):
    """What became of one resource."""

    resource: str
    """`agent/deployer`."""
    outcome: Literal["created", "configured", "unchanged", "pruned", "deleted", "refused", "missing"]
    note: NotRequired[str]
    """What has been passed over."""
    file: NotRequired[str | None]
    problems: NotRequired[list[str]]


class AppliedDocument(TypedDict):
    """What applying and deleting resources answer."""

    dry_run: NotRequired[bool]
    results: list[AppliedResource]
    problems: NotRequired[list[str]]
