"""What a changed configuration means for each agent. Pure: compares frozen values, changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from pallas_registry.deployment import Agent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_registry.deployment import Deployment, ModelSettings

Action = Literal["live", "respawn", "rebind"]

ACTIONS: Mapping[str, Action] = {
    "icon": "live",
    "depends_on": "live",
    "restart": "live",
    "start_timeout": "live",
    "stop_timeout": "live",
    "max_failures": "live",
    "reset_after": "live",
    "on_dependency_loss": "live",
    "module": "respawn",
    "title": "respawn",
    "description": "respawn",
    "python": "respawn",
    "env": "respawn",
    "max_concurrency": "respawn",
    "max_queue": "respawn",
    "max_request_bytes": "respawn",
    "liveness_interval": "respawn",
    "liveness_misses": "live",
    "memory_limit": "respawn",
    "port": "rebind",
}
"""What a change of each field of an agent asks for: nothing, a new process, or a new socket and process."""

DEPLOYMENT_ACTIONS: Mapping[str, Action] = {
    "namespace": "live",
    "version": "respawn",
    "host": "respawn",
}
"""The same for fields of the deployment, which concern every agent."""

FIXED = ("name", "registry_port", "bind")
"""Fields of the deployment that only a restart of the supervisor changes; `bind` follows `host` by default."""

_RANK: Mapping[Action, int] = {"live": 0, "respawn": 1, "rebind": 2}


@dataclass(frozen=True, slots=True)
class Change:
    """The changed fields of one agent, and the strongest action that they ask for."""

    fields: tuple[str, ...]
    action: Action


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reload will do; `fixed` names fields that it cannot change."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, Change]
    unchanged: tuple[str, ...]
    fixed: tuple[str, ...]

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
        }


def plan_reload(
    old: Deployment, new: Deployment, *, old_settings: ModelSettings, new_settings: ModelSettings
) -> Plan:
    """Compare two configurations."""
    common: dict[str, Action] = {
        field: action
        for field, action in DEPLOYMENT_ACTIONS.items()
        if getattr(old, field) != getattr(new, field)
    }
    if old_settings != new_settings:
        common["fastagent.config.yaml"] = "respawn"
    changed = {}
    for name in new.agents:
        if name in old.agents:
            actions = {**common, **_differences(old.agents[name], new.agents[name])}
            if actions:
                changed[name] = Change(tuple(actions), max(actions.values(), key=_RANK.__getitem__))
    return Plan(
        added=tuple(name for name in new.agents if name not in old.agents),
        removed=tuple(name for name in old.agents if name not in new.agents),
        changed=changed,
        unchanged=tuple(name for name in new.agents if name in old.agents and name not in changed),
        fixed=tuple(field for field in FIXED if getattr(old, field) != getattr(new, field)),
    )


def _differences(old: Agent, new: Agent) -> dict[str, Action]:
    return {
        field.name: ACTIONS[field.name]
        for field in fields(Agent)
        if field.name != "name" and getattr(old, field.name) != getattr(new, field.name)
    }
