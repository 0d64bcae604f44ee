"""What the supervisor passes to the gateway: its settings, the specification of its process, where calls go.

A `GatewaySpec` goes down as JSON in an anonymous memory file beside the descriptors of `Descriptors`, like a
`WorkerSpec`. `Upstreams` is what `GET /v1/upstreams` of the control API answers to the gateway's process and to nobody
else, because it holds keys and the secrets of servers.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PORT = 24199

Auth = Literal["token", "none"]
WorkerAccess = Literal["open", "behind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one principal, and all principals of one tenant together, may take."""

    requests_per_minute: int = 100
    concurrent: int = 10
    """Requests at a time; of an agent's own token its `max_concurrency` counts instead, and no rate."""
    tenant_requests_per_minute: int = 1000
    tenant_concurrent: int = 100
    tool_timeout: float = 60.0
    """Seconds that a relayed tool call may take; not `ask_agent`, not `chat`."""
    subscriptions_per_minute: int = 60
    """Requests to subscribe or unsubscribe."""
    subscriptions: int = 1000
    """Resources that one principal may have subscribed to at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """An issuer of tokens (OpenID Connect Discovery 1.0) whose subjects count as humans."""

    issuer: str
    audience: str
    groups_claim: str = "groups"
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Group → the grants of those in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What `gateway:` in `agents.yaml` says. Times are in seconds, sizes in bytes."""

    port: int = DEFAULT_PORT
    bind: str
    public_url: str
    """By which clients reach it, without a slash at the end."""
    store: str | None = None
    """`sqlite:PATH`, `postgresql://…`; None: `gateway.db` in the state directory."""
    auth: Auth = "token"
    workers: WorkerAccess = "open"
    oidc: Oidc | None = None
    limits: Limits = Limits()
    audit_content: bool = False
    """Whether the audit has arguments and answers."""
    stop_timeout: float = 10.0
    liveness_interval: float = 5.0
    liveness_misses: int = 6
    memory_limit: int | None = None
    max_failures: int = 5
    max_request_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySpec:
    """All that one process of the gateway is passed."""

    settings: GatewaySettings = field(repr=False)
    deployment: str
    version: str
    generation: int
    """Number of this start, from 1; unique while the supervisor lives."""
    title: str
    """Of the deployment, for people."""
    control_socket: str
    state_directory: str
    store: str = field(repr=False)
    """URL of the database as SQLAlchemy writes it; may hold a password."""
    allowed_hosts: tuple[str, ...]
    metrics_directory: str
    metrics_slot: str
    log_level: str
    root_log_level: str
    listener_outlives: bool = False
    memory_limit: int | None = None
    cgroup: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to_json(self) -> bytes:
        """The spec as UTF-8 JSON."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> GatewaySpec:
        """The spec that `to_json` wrote.

        Raises:
            ValueError: `data` is not such JSON.
        """
        try:
            fields = json.loads(data)
            settings = fields["settings"]
            settings["limits"] = Limits(**settings["limits"])
            if (oidc := settings["oidc"]) is not None:
                oidc["groups"] = {name: tuple(grants) for name, grants in oidc["groups"].items()}
                settings["oidc"] = Oidc(**oidc)
            fields["settings"] = GatewaySettings(**settings)
            fields["allowed_hosts"] = tuple(fields["allowed_hosts"])
            return cls(**fields)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a specification of a gateway: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUpstream:
    """An MCP server that calls are relayed to, with all that connecting takes: secrets are filled in."""

    name: str
    settings: Mapping[str, Any] = field(repr=False)
    """In the words of fast-agent's settings: `transport` (`http`, `sse`, `stdio`), `url`, `headers`, `command`, `args`,
    `env`, `cwd`, `read_timeout_seconds`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerToken:
    """The agent token of one start of an agent."""

    generation: int
    digest: str
    """SHA-256 of the token's text, hexadecimal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUpstream:
    """Where an agent is called, and what it may use."""

    name: str
    uid: str | None
    """Of the resource; None for an agent of `agents.yaml`."""
    port: int | None
    socket: str | None
    """Path of the unix socket; one of the two is None."""
    key: str | None = field(default=None, repr=False)
    """Of the worker that serves; None while there is none."""
    tokens: tuple[WorkerToken, ...] = ()
    """Of all its workers that are there."""
    max_concurrency: int = 32
    depends_on: tuple[str, ...] = ()
    servers: tuple[ServerUpstream, ...] = ()
    tools: tuple[str, ...] | None = None
    """Patterns of the tools that it may call, `server__tool`; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPrompt:
    """A text that the agents of a project share."""

    name: str
    text: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectUpstream:
    """Servers, prompts and agents that belong together."""

    name: str
    description: str = ""
    servers: tuple[ServerUpstream, ...] = ()
    prompts: tuple[ProjectPrompt, ...] = ()
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstreams:
    """All of them, or those that were asked for."""

    agents: tuple[AgentUpstream, ...] = ()
    projects: tuple[ProjectUpstream, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON says it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Upstreams:
        """What `to_json` wrote, after a way through JSON.

        Raises:
            TypeError, KeyError: it is not such a document.
        """
        return cls(
            agents=tuple(_agent(each) for each in document["agents"]),
            projects=tuple(
                ProjectUpstream(
                    **{
                        **each,
                        "servers": _servers(each["servers"]),
                        "prompts": tuple(ProjectPrompt(**prompt) for prompt in each["prompts"]),
                        "agents": tuple(each["agents"]),
                    }
                )
                for each in document["projects"]
            ),
        )


def _agent(fields: Mapping[str, Any]) -> AgentUpstream:
    tools = fields["tools"]
    return AgentUpstream(
        **{
            **fields,
            "tokens": tuple(WorkerToken(**token) for token in fields["tokens"]),
            "depends_on": tuple(fields["depends_on"]),
            "servers": _servers(fields["servers"]),
            "tools": None if tools is None else tuple(tools),
        }
    )


def _servers(found: Any) -> tuple[ServerUpstream, ...]:
    return tuple(ServerUpstream(**server) for server in found)
