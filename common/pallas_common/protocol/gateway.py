"""What the supervisor passes to the gateway: its settings, the specification of its process, where calls go.

A `GatewaySpec` goes down as JSON in an anonymous memory file beside the descriptors of `Descriptors`, like a
`WorkerSpec`. `Upstreams` is what `GET /v1/upstreams` of the control API answers to the gateway's process and to nobody
else, because it holds keys and the secrets of servers.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from pallas_common.protocol.agent.settings import (
    MINIMUM_LIVENESS_INTERVAL,
    Choice,
    Seconds,
    Size,
    Truth,
    WholeNumber,
    on_change,
    setting,
)
from pallas_common.protocol.keys import http_origins, local_names
from pallas_common.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.settings import Rule

GATEWAY = "gateway"
"""What people, commands, logs and events call it, where no agent is called so."""

GATEWAY_NAME = f"@{GATEWAY}"
"""Of the gateway among processes; no agent can be called so."""

OPERATOR_FILE = "operator.token"
"""File in the state directory: the first human token, mode 0600."""

INSTANCE_FILE = "instance"
"""File in the state directory: the id by which a store knows the deployment that it belongs to."""

DEFAULT_PORT = 24199
DEFAULT_GROUPS_CLAIM = "groups"
DEFAULT_SCOPES = ("openid", "profile", "email")

FOREVER = "forever"

Auth = Literal["token", "none"]
WorkerAccess = Literal["open", "behind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one principal, and all principals of one tenant together, may take."""

    requests_per_minute: int = field(default=100, metadata=setting(WholeNumber(1), "respawn"))
    concurrent: int = field(default=10, metadata=setting(WholeNumber(1), "respawn"))
    """Requests at a time; of an agent's own token as many for each of its `max_concurrency` turns, and no rate."""
    tenant_requests_per_minute: int = field(default=1000, metadata=setting(WholeNumber(1), "respawn"))
    tenant_concurrent: int = field(default=100, metadata=setting(WholeNumber(1), "respawn"))
    tool_timeout: float = field(default=60.0, metadata=setting(Seconds(), "respawn"))
    """Seconds that a relayed tool call may take; not `ask_agent`, not `chat`."""
    subscriptions_per_minute: int = field(default=60, metadata=setting(WholeNumber(1), "respawn"))
    """Requests to subscribe or unsubscribe."""
    subscriptions: int = field(default=1000, metadata=setting(WholeNumber(1), "respawn"))
    """Resources that one principal may have subscribed to at a time."""
    storage: int | None = field(default=1024**3, metadata=setting(Size(1024**2), "respawn"))
    """Bytes of one principal's threads; None for as many as the disk has."""
    tenant_storage: int | None = field(default=10 * 1024**3, metadata=setting(Size(1024**2), "respawn"))
    """Bytes of the threads of all principals of a tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """How long conversations are kept."""

    keep: str = FOREVER
    """For how long after a thread's last activity, as a duration; `forever`."""

    @property
    def seconds(self) -> float | None:
        """The same as a number; None for ever."""
        return None if self.keep == FOREVER else parse_duration(self.keep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """An issuer of tokens (OpenID Connect Discovery 1.0) whose subjects count as humans."""

    issuer: str
    audience: tuple[str, ...]
    """A token is for one of these."""
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    """What a login asks the issuer for; `openid` among it."""
    groups_claim: str = DEFAULT_GROUPS_CLAIM
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Group → the grants of those in it."""
    client_id: str | None = None
    """Of the gateway at the issuer, for people who log in by a browser; None: they do so with a token alone."""
    client_secret: str | None = field(default=None, repr=False)
    """Of a client that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What `gateway:` in `agents.yaml` says. Times are in seconds, sizes in bytes.

    Each field says what a change of it asks for: a new process of the gateway, a new socket as well, or a restart of
    the supervisor.
    """

    port: int = field(default=DEFAULT_PORT, metadata=on_change("rebind"))
    bind: str = field(metadata=on_change("rebind"))
    public_url: str = field(metadata=on_change("respawn"))
    """By which clients reach it, without a slash at the end."""
    store: str | None = field(default=None, repr=False, metadata=on_change("respawn"))
    """`sqlite:PATH`, `postgresql://…`; None: `gateway.db` in the state directory."""
    auth: Auth = field(default="token", metadata=setting(Choice(get_args(Auth)), "respawn"))
    workers: WorkerAccess = field(
        default="behind", metadata=setting(Choice(get_args(WorkerAccess)), "respawn")
    )
    """Whether the ports of agents are for everybody or, behind the gateway, for who shows a key, on loopback alone."""
    oidc: Oidc | None = field(default=None, metadata=on_change("respawn"))
    limits: Limits = field(default=Limits(), metadata=on_change("respawn"))
    threads: Threads = field(default=Threads(), metadata=on_change("respawn"))
    audit_content: bool = field(default=False, metadata=setting(Truth(), "respawn"))
    """Whether the audit has arguments and answers."""
    stop_timeout: float = field(default=10.0, metadata=setting(Seconds(), "live"))
    liveness_interval: float = field(
        default=5.0, metadata=setting(Seconds(MINIMUM_LIVENESS_INTERVAL), "respawn")
    )
    liveness_misses: int = field(default=6, metadata=setting(WholeNumber(0), "live"))
    memory_limit: int | None = field(default=None, metadata=setting(Size(128 * 1024**2), "respawn"))
    max_failures: int = field(default=5, metadata=setting(WholeNumber(1), "live"))
    max_request_bytes: int = field(default=32 * 1024 * 1024, metadata=setting(WholeNumber(1024), "respawn"))


GATEWAY_RULES: Mapping[str, Rule] = {
    each.name: each.metadata["rule"] for each in fields(GatewaySettings) if "rule" in each.metadata
}
"""Setting → the values that it may have, of those that follow from no other one."""
LIMIT_RULES: Mapping[str, Rule] = {each.name: each.metadata["rule"] for each in fields(Limits)}
"""The same of limits."""


def gateway_urls(settings: GatewaySettings, host: str) -> tuple[str, ...]:
    """All URLs by which the gateway is reached, each without a path.

    Args:
        host: of the deployment.
    """
    names = [*local_names(settings.bind)]
    if not ipaddress.ip_address(settings.bind).is_loopback:
        names.append(host)
    return tuple(dict.fromkeys((settings.public_url, *http_origins(names, [settings.port]))))


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
    waits_for_store: bool = False
    """Where nobody else could serve: it waits for a store that is away, where a replacement would fail."""
    memory_limit: int | None = None
    cgroup: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> dict[str, str]:
        """What no log may have of it, by name, the environment apart."""
        oidc = self.settings.oidc
        return {"store": self.store, "client_secret": (oidc and oidc.client_secret) or ""}

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
            settings["threads"] = Threads(**settings["threads"])
            if (oidc := settings["oidc"]) is not None:
                oidc["audience"], oidc["scopes"] = tuple(oidc["audience"]), tuple(oidc["scopes"])
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
    closed: bool = False
    """Whether its URL may lead nowhere but where `pallas_common.http.reach` says."""


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
    host: str = "127.0.0.1"
    """Address of this machine at which the port is reached."""
    key: str | None = field(default=None, repr=False)
    """Of the worker that serves; None while there is none."""
    siblings_key: str | None = field(default=None, repr=False)
    """By which its port admits whoever may set nothing beside a message."""
    tokens: tuple[WorkerToken, ...] = ()
    """Of all its workers that are there."""
    max_concurrency: int = 32
    depends_on: tuple[str, ...] = ()
    servers: tuple[ServerUpstream, ...] = ()
    tools: tuple[str, ...] | None = None
    """Patterns of the tools that it may call, `server__tool`; None for all."""

    @property
    def origin(self) -> str:
        """URL of its port without a path; behind a unix socket one that says nothing."""
        if self.port is None:
            return "http://127.0.0.1"
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


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
