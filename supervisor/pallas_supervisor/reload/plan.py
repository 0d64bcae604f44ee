"""What a changed configuration means for each agent. Pure: compares frozen values, changes nothing."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.settings import effects
from pallas_common.protocol.gateway import GatewaySettings, gateway_urls
from pallas_common.terminal_text import terminal_line
from pallas_registry.deployment.model import Agent, Deployment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pallas_common.protocol.agent.settings import Effect

ACTIONS = effects(fields(Agent))
"""What a change of each field of an agent asks for."""

_OF_DEPLOYMENT = effects(fields(Deployment))

DEPLOYMENT_ACTIONS = {name: effect for name, effect in _OF_DEPLOYMENT.items() if effect != "fixed"}
"""The same for fields of the deployment, which concern every agent."""

FIXED = tuple(name for name, effect in _OF_DEPLOYMENT.items() if effect == "fixed")
"""Fields of the deployment that only a restart of the supervisor changes."""

FIXED_VARIABLES = (
    "PALLAS_AGENTS_CONFIG",
    "PALLAS_CGROUP",
    "PALLAS_LOG_FILE",
    "PALLAS_LOG_STDERR",
    "PALLAS_RUNTIME_DIR",
    "PALLAS_STATE_DIR",
)
"""Variables that the supervisor reads at its start only; where `.env` holds them, they are fixed as well."""

_OF_GATEWAY = effects(fields(GatewaySettings))

_RANK: Mapping[Effect, int] = {"live": 0, "respawn": 1, "rebind": 2}


@dataclass(frozen=True, slots=True)
class Change:
    """The changed fields of one agent, and the strongest action that they ask for."""

    fields: tuple[str, ...]
    action: Effect


@dataclass(frozen=True, slots=True)
class GatewayChange:
    """That the gateway appears, goes, or goes by other settings."""

    before: GatewaySettings | None
    after: GatewaySettings | None
    fields: tuple[str, ...] = ()
    """Those of its settings that somebody has changed, where it stays."""
    action: Effect | None = None
    """The strongest that they ask for; None where it appears or goes."""

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    def to_json(self) -> dict[str, Any]:
        """Its part of the answer of `POST /v1/reload`."""
        return {
            "change": self.kind,
            "fields": list(self.fields),
            "action": self.action,
            "before": _address(self.before),
            "after": _address(self.after),
        }


def _address(settings: GatewaySettings | None) -> dict[str, Any] | None:
    if settings is None:
        return None
    return {"bind": settings.bind, "port": settings.port, "public_url": settings.public_url}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reload will do; `fixed` names fields that it cannot change."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, Change]
    unchanged: tuple[str, ...]
    fixed: tuple[str, ...]
    older_code: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Source files that have changed, of agents that get no new process."""
    gateway: GatewayChange | None = None
    """None: it stays as it is, or there is none."""

    def to_json(self, *, dry_run: bool) -> dict[str, Any]:
        """The answer of `POST /v1/reload`."""
        return {
            "dry_run": dry_run,
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": [
                {"agent": name, "fields": list(change.fields), "action": change.action}
                for name, change in self.changed.items()
            ],
            "unchanged": list(self.unchanged),
            "older_code": {name: list(files) for name, files in self.older_code.items()},
            "gateway": None if self.gateway is None else self.gateway.to_json(),
        }


def plan_reload(
    old: Deployment,
    new: Deployment,
    stale_files: Mapping[str, Iterable[str]] | None = None,
    changed_code: Mapping[str, tuple[str, ...]] | None = None,
) -> Plan:
    """Compare two configurations.

    Args:
        stale_files: the files that say something else now for the worker of an agent than at its start.
        changed_code: the source files that its worker has loaded and that have changed since; no reason for a new
            process, as nobody knows whether the change is finished.
    """
    changed = {}
    for name in new.agents:
        if name in old.agents:
            actions = _differences(old, new, name)
            files = set((stale_files or {}).get(name, ()))
            if _moves(actions):
                files.discard(terminal_line(new.path.name))  # said more precisely already
            actions |= dict.fromkeys(sorted(files), "respawn")
            if actions:
                changed[name] = Change(tuple(actions), max(actions.values(), key=_RANK.__getitem__))
    return Plan(
        added=tuple(name for name in new.agents if name not in old.agents),
        removed=tuple(name for name in old.agents if name not in new.agents),
        changed=changed,
        unchanged=tuple(name for name in new.agents if name in old.agents and name not in changed),
        fixed=(
            *(name for name in FIXED if getattr(old, name) != getattr(new, name)),
            *_fixed_of_gateway(old, new),
        ),
        older_code={
            name: files
            for name, files in (changed_code or {}).items()
            if files and name in new.agents and (name not in changed or changed[name].action == "live")
        },
        gateway=_gateway_change(old, new),
    )


def needs_process(old: Deployment, new: Deployment, name: str) -> bool:
    """Whether a worker that was started for the one is not what the other says."""
    return name not in new.agents or _moves(_differences(old, new, name))


def _moves(actions: Mapping[str, Effect]) -> bool:
    return any(action != "live" for action in actions.values())


def _differences(old: Deployment, new: Deployment, name: str) -> dict[str, Effect]:
    # What workers are told of the gateway; the rest of its settings is no business of theirs.
    moved: dict[str, Effect] = {"gateway": "respawn"} if _told(old) != _told(new) else {}
    return {
        **moved,
        **_changed(DEPLOYMENT_ACTIONS, old, new),
        **_changed(ACTIONS, old.agents[name], new.agents[name]),
    }


def gateway_action(old: GatewaySettings, new: GatewaySettings) -> Effect | None:
    """The strongest that a change of the gateway's settings asks for; None if nothing has changed."""
    actions = _changed(_OF_GATEWAY, old, new)
    if not actions:
        return None
    return max(actions.values(), key=_RANK.__getitem__)


def _gateway_change(old: Deployment, new: Deployment) -> GatewayChange | None:
    before, after = old.gateway, new.gateway
    if before is None or after is None:
        return None if before is after else GatewayChange(before, after)
    actions = _changed(_OF_GATEWAY, before, after)
    if not actions:
        return None
    written = {field for field in actions if _is_written(f"gateway.{field}", old, new)}
    # What follows from another field is no news beside it: the URL from the port.
    named = tuple(field for field in actions if field in written or field != "public_url")
    return GatewayChange(before, after, named or tuple(actions), gateway_action(before, after))


def _fixed_of_gateway(old: Deployment, new: Deployment) -> Iterator[str]:
    """What was changed of the gateway that only a restart changes, and what follows from it."""
    before, after = old.gateway, new.gateway
    if old.bind == new.bind and old.agents_bind != new.agents_bind:
        if before is None or after is None:
            access = ("behind" if each.workers_behind else "open" for each in (old, new))
            yield f"gateway (and with it gateway.workers, from {' to '.join(access)})"
        else:
            yield "gateway.workers"
    if _overlap(before, after):
        yield "gateway.bind"


def _is_written(place: str, *deployments: Deployment) -> bool:
    return any(place in deployment.places for deployment in deployments)


def _overlap(old: GatewaySettings | None, new: GatewaySettings | None) -> bool:
    """Whether the same port is to be listened on at all addresses instead of one, or at one instead of all.

    The system refuses the second of both, and the first cannot be given up before: the process at work has it, too.
    """
    if old is None or new is None or old.port != new.port or old.bind == new.bind:
        return False
    return any(ipaddress.ip_address(each.bind).is_unspecified for each in (old, new))


def _told(deployment: Deployment) -> tuple[tuple[str, ...], bool]:
    urls = () if deployment.gateway is None else gateway_urls(deployment.gateway, deployment.host)
    return urls, deployment.workers_behind


def _changed(actions: Mapping[str, Effect], before: object, after: object) -> dict[str, Effect]:
    return {name: action for name, action in actions.items() if getattr(before, name) != getattr(after, name)}
