"""The JSON schema of `agents.yaml`, for editors: the values of keys from the code, their meaning from the docs.

It accepts whatever Pallas accepts. What only Pallas can see, such as a port that two agents share, it does not refuse:
for that there is `pallas check`.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.settings import RULES, Choice, Seconds, Size, Truth, WholeNumber
from pallas_common.protocol.gateway import FOREVER, GATEWAY_RULES, LIMIT_RULES, GatewaySettings, Limits
from pallas_registry.deployment import gateway_section
from pallas_registry.deployment.agent_entry import KEYS
from pallas_registry.deployment.agents_file import KEYS as DEPLOYMENT_KEYS
from pallas_registry.deployment.agents_file import MOST_PRELOADED
from pallas_registry.deployment.gateway_section import KEYS as GATEWAY_KEYS
from pallas_registry.deployment.model import Agent, Deployment
from pallas_registry.reading import rules
from pallas_registry.reading.fields import LARGEST_NUMBER, LONGEST_TIME

if TYPE_CHECKING:
    from pallas_common.protocol.agent.settings import Rule

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
DIALECT = "http://json-schema.org/draft-07/schema#"
"""The newest that the YAML servers of all editors know."""

type Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 100}
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_AGENT_NAME: Schema = {
    "type": "string",
    "pattern": f"^{rules.AGENT_NAME}$",
    "not": {"enum": sorted(rules.RESERVED_AGENT_NAMES)},
}

_DEPLOYMENT: dict[str, Schema] = {
    "name": _TEXT,
    "version": {"type": "string", "minLength": 1, "maxLength": 255},
    "host": {"type": "string", "maxLength": 253},
    "hosts": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "namespace": {"type": "string", "pattern": f"^{rules.NAMESPACE}$"},
    "registry_port": _PORT,
    "bind": {"type": "string"},
    "max_surge": {"type": "integer", "minimum": 1, "maximum": LARGEST_NUMBER},
    "preload": {
        "type": "array",
        "items": {"type": "string", "pattern": f"^{rules.MODULE}$", "maxLength": rules.MODULE_LENGTH},
        "uniqueItems": True,
        "maxItems": MOST_PRELOADED,
    },
    "gateway": {"$ref": "#/definitions/gateway"},
    "defaults": {"$ref": "#/definitions/settings"},
    "agents": {
        "type": "object",
        "propertyNames": _AGENT_NAME,
        "additionalProperties": {"$ref": "#/definitions/agent"},
    },
}

AGENT: dict[str, Schema] = {
    "module": {"type": "string", "minLength": 1},
    "card": {"type": "string", "minLength": 1},
    "port": _PORT,
    "title": _TEXT,
    "description": _TEXT,
    "depends_on": {"type": "array", "items": _AGENT_NAME, "uniqueItems": True},
    "icon": {"type": "string", "minLength": 1, "maxLength": 255},
    "output_schema": {"anyOf": [{"type": "object"}, {"type": "string", "minLength": 1}]},
    "models": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": rules.LONGEST_MODEL, "pattern": "^[^ ]+$"},
        "uniqueItems": True,
    },
    "python": {"type": "string", "minLength": 1},
    "env": {
        "type": "object",
        "propertyNames": {"pattern": f"^{rules.ENVIRONMENT_NAME}$"},
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
}

_URL: Schema = {"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://", "maxLength": rules.LONGEST_URL}


def _one_or_several(each: Schema) -> Schema:
    several = {"type": "array", "minItems": 1, "maxItems": gateway_section.MOST_TEXTS, "items": each}
    return {"oneOf": [each, several]}


_GATEWAY: dict[str, Schema] = {
    "port": _PORT,
    "bind": {"type": "string"},
    "public_url": _URL,
    "store": {"type": "string", "pattern": "^(sqlite|postgresql):", "maxLength": rules.LONGEST_STORE},
    "oidc": {
        "type": "object",
        "required": ["issuer", "audience"],
        "additionalProperties": False,
        "properties": {
            "issuer": _URL,
            "audience": _one_or_several({"type": "string", "minLength": 1, "maxLength": rules.LONGEST_URL}),
            "scopes": _one_or_several({"type": "string", "pattern": f"^({gateway_section.SCOPE})$"}),
            "groups_claim": {"type": "string", "minLength": 1, "maxLength": 255},
            "client_id": {"type": "string", "minLength": 1, "maxLength": rules.LONGEST_CLIENT},
            "client_secret": {"type": "string", "minLength": 1, "maxLength": rules.LONGEST_CLIENT},
            "groups": {
                "type": "object",
                "maxProperties": gateway_section.MOST_GROUPS,
                "additionalProperties": {
                    "type": "array",
                    "maxItems": gateway_section.MOST_GRANTS,
                    "items": {"type": "string", "pattern": f"^({gateway_section.GRANT})$"},
                },
            },
        },
    },
    "limits": {"$ref": "#/definitions/limits"},
    "threads": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "keep": {"type": "string", "pattern": r"^(forever|[0-9][0-9.dhms]*[dhms])$", "default": FOREVER}
        },
    },
}

_ONE_SOURCE = ("module", "card")
"""Of these, an agent has exactly one."""


def page() -> str:
    """The schema's whole text."""
    meanings = _meanings(PAGE.read_text())
    settings = {name: value_of(rule) for name, rule in RULES.items()}
    own = {name: AGENT[name] for name in KEYS if name not in RULES}
    schema = {
        "$schema": DIALECT,
        "title": "agents.yaml of Pallas",
        "description": "Which agents are served as MCP servers, on which ports, and who needs whom",
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": _described({name: _DEPLOYMENT[name] for name in DEPLOYMENT_KEYS}, meanings, Deployment),
        "definitions": {
            "gateway": _of_gateway(GATEWAY_KEYS, "gateway", GatewaySettings, meanings),
            "limits": _of_gateway(tuple(LIMIT_RULES), "gateway.limits", Limits, meanings),
            "settings": {
                "type": "object",
                "additionalProperties": False,
                "properties": _described(settings, meanings, Agent),
            },
            "agent": {
                "type": "object",
                "required": ["port"],
                "oneOf": [{"required": [name]} for name in _ONE_SOURCE if name in own],
                "additionalProperties": False,
                "properties": _described({**own, **settings}, meanings, Agent),
            },
        },
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _of_gateway(
    keys: tuple[str, ...], path: str, owner: type[GatewaySettings | Limits], meanings: dict[str, str]
) -> Schema:
    """The mapping at `path`, whose keys have their rows there."""
    known = {**GATEWAY_RULES, **LIMIT_RULES}
    properties = {name: _GATEWAY[name] if name in _GATEWAY else value_of(known[name]) for name in keys}
    described = {name: meanings[f"{path}.{name}"] for name in keys}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": _described(properties, described, owner),
    }


def value_of(rule: Rule) -> Schema:
    """The values that a setting may have."""
    match rule:
        case WholeNumber(minimum):
            return {"type": "integer", "minimum": minimum, "maximum": LARGEST_NUMBER}
        case Seconds(minimum):
            least: Schema = {"minimum": minimum} if minimum else {"exclusiveMinimum": 0}
            return {"type": "number", **least, "maximum": int(LONGEST_TIME)}
        case Size(minimum):
            size = r"^(none|[0-9]+(\.[0-9]+)?\s*[A-Za-z]*)$"
            return {"anyOf": [{"type": "integer", "minimum": minimum}, {"type": "string", "pattern": size}]}
        case Choice(words):
            return {"enum": list(words)}
        case Truth():
            return {"type": "boolean"}


def _described(
    properties: dict[str, Schema],
    meanings: dict[str, str],
    owner: type[Agent | Deployment | GatewaySettings | Limits],
) -> dict[str, Schema]:
    """The properties with their meanings, and the defaults of `owner` where they are plain values."""
    defaults = {each.name: each.default for each in fields(owner)}
    described = {}
    for name, schema in properties.items():
        default = defaults.get(name, MISSING)
        plain = isinstance(default, str | int | float)
        described[name] = {
            "description": meanings[name],
            **schema,
            **({"default": default} if plain else {}),
        }
    return described


def _meanings(page: str) -> dict[str, str]:
    """Key → what the tables of the page say of it, without markup."""
    said = {}
    for line in page.split("## fastagent")[0].splitlines():
        if match := re.match(r"\| `([\w.]+)` \|[^|]*\| ([^|]*)\|", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", match[2]).replace("`", "").strip()
            said[match[1]] = text[0].upper() + text[1:]
    return said
