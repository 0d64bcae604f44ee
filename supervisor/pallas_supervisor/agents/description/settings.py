"""What is in effect for an agent and for the deployment, each value with the place that it comes from. Pure.

Knows the frozen facts and where they stand in `agents.yaml`; values of variables that may be secrets are left out.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.settings import RULES, AgentSettings, effects
from pallas_common.protocol.probe_interval import INTERVAL_VARIABLE
from pallas_common.secrets.patterns import is_secret_name, redact
from pallas_common.terminal_text import terminal_line
from pallas_registry.deployment.model import Agent, Deployment
from pallas_registry.environment.dotenv import DOTENV
from pallas_registry.fastagent_files.models import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pallas_common.secrets.values import KnownSecrets
    from pallas_registry.deployment.model import Place
    from pallas_registry.source import Configuration

    type Row = dict[str, Any]
    """`name`, `value`, `from` (`agents.yaml`, `defaults`, `built in`, …) and `line`, None where there is none."""

ENTRY, SHARED, BUILT_IN = "agents.yaml", "defaults", "built in"
"""What `from` says: the entry itself, `defaults:` of the same file, or neither."""

RESOURCE = "resource"
"""What `from` says of what a declared agent says itself."""

_OF_THE_SPEC = {"description": "description", "outputSchema": "output_schema"}
"""Fields of a declared agent that are not below `run:`."""
_BUILT_IN_SETTINGS = AgentSettings()

AGENT_FIELDS = tuple(name for name in effects(dataclasses.fields(Agent)) if name not in ("env", "definition"))
DEPLOYMENT_FIELDS = tuple(effects(dataclasses.fields(Deployment)))


def agent_settings(agent: Agent) -> list[Row]:
    """All that is in effect for the agent, its variables apart; of what need not be said, what is set."""
    rows = []
    for name in AGENT_FIELDS:
        value = getattr(agent, name)
        if name in _OPTIONAL and value is None:
            continue
        rows.append({"name": name, "value": _json(value), **_origin(agent.places.get(name))})
    return rows


def declared_settings(agent: Agent, spec: Mapping[str, Any], defaults: AgentSettings) -> list[Row]:
    """All that is in effect for a declared agent, with its resource or `defaults:` as the place of what they say.

    Args:
        defaults: of agents.yaml.
    """
    said = {*spec.get("run", ()), *(field for key, field in _OF_THE_SPEC.items() if key in spec)}
    rows = agent_settings(agent)
    for row in rows:
        name = row["name"]
        if name in said:
            row["from"] = RESOURCE
        elif (
            name in RULES and name != "start" and getattr(defaults, name) != getattr(_BUILT_IN_SETTINGS, name)
        ):
            row["from"] = SHARED
    return rows


_OPTIONAL = {
    each.name for each in dataclasses.fields(Agent) if each.default is None and "rule" not in each.metadata
}
"""Fields that an entry need not have, and that have no value then."""


def deployment_settings(deployment: Deployment) -> list[Row]:
    """All that is in effect for the deployment, in the order in which the file is usually written."""
    names = sorted(DEPLOYMENT_FIELDS, key=_ORDER.index)
    rows = [
        {
            "name": name,
            "value": _json(getattr(deployment, name)),
            **_origin(deployment.places.get(name)),
        }
        for name in names
    ]
    return [*rows, *_of_gateway(deployment)]


def _of_gateway(deployment: Deployment) -> Iterator[Row]:
    """What is in effect for the gateway, if there is one; neither the password of its store nor a client's secret."""
    if deployment.gateway is None:
        return
    for each in dataclasses.fields(deployment.gateway):
        value = getattr(deployment.gateway, each.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            said = dataclasses.asdict(value).items()
            value = {name: field for name, field in said if field is not None and not is_secret_name(name)}
        path = f"gateway.{each.name}"
        shown = redact(value) if isinstance(value, str) else value
        yield {"name": path, "value": _json(shown), **_origin(deployment.places.get(path))}


_ORDER = ("name", "version", "namespace", "host", "hosts", "bind", "registry_port", "max_surge", "preload")


_MAY_BE_SECRET = re.compile(r"(?i)_headers$|(?:^|_)(?:auth|pwd|pass|pw|dsn)(?:_|$)")
"""Names that are too short a sign for a text to be struck out of every log, and enough not to print a value here."""

_IS_OPAQUE = re.compile(
    r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+=]{20,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
"""What people do not write by hand: a key, whatever its name; not names of models, which have hyphens or dots."""


def variables(agent: Agent, secrets: KnownSecrets) -> list[Row]:
    """The variables of the agent's `env`; `value` is None and `hidden` true where it may be a secret."""
    rows = []
    for name, value in agent.env.items():
        hidden = (
            is_secret_name(name)
            or _MAY_BE_SECRET.search(name) is not None
            or _IS_OPAQUE.fullmatch(value) is not None
            or redact(value) != value
            or secrets.strike(value) != value
        )
        place = agent.places.get(f"env.{name}")
        rows.append(
            {"name": name, "value": None if hidden else value, "hidden": hidden, **_origin(place)},
        )
    return rows


def environment_settings(taken: Configuration, environ: Mapping[str, str]) -> list[Row]:
    """What is set for all agents elsewhere than in `agents.yaml`.

    Args:
        environ: the environment, with what `.env` has added.
    """

    def origin(variable: str, otherwise: Callable[[], str]) -> str:
        if not environ.get(variable):
            return otherwise()
        return f"{variable} ({DOTENV if variable in taken.dotenv else 'environment'})"

    settings = taken.settings
    file = FILE_NAME if settings.file is None else terminal_line(settings.file.name)
    rows: list[tuple[str, object, str]] = [
        ("default_model", settings.default_model, file if settings.default_model else BUILT_IN),
        (
            "log_level",
            taken.levels.pallas,
            origin("PALLAS_LOG_LEVEL", lambda: file if settings.log_level else BUILT_IN),
        ),
        ("root_log_level", taken.levels.root, origin("PALLAS_ROOT_LOG_LEVEL", lambda: "follows log_level")),
        ("probe_interval", taken.probe_interval, origin(INTERVAL_VARIABLE, lambda: BUILT_IN)),
    ]
    return [{"name": name, "value": value, "from": from_, "line": None} for name, value, from_ in rows]


def _origin(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {"from": BUILT_IN, "line": None}
    return {"from": SHARED if place.shared else ENTRY, "line": place.line}


def _json(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, str | int | float | dict) else str(value)
