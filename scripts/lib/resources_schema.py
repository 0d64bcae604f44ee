"""The JSON schema of resources, for editors. It accepts every document of one resource that Pallas accepts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scripts.lib.schema import AGENT, DIALECT, value_of

from pallas_common.protocol.agent.parameters import EFFORTS, MAX_BIASES, MAX_STOPS, PARAMETERS, TIERS
from pallas_common.protocol.agent.settings import RULES
from pallas_registry.deployment.agent_entry import RUN_KEYS
from pallas_registry.reading import rules
from pallas_registry.resources.documents import KEYS, METADATA_KEYS, NETWORK_KEY
from pallas_registry.resources.kinds import agent, common, llm, names, project, secret, server
from pallas_registry.resources.kinds.table import TABLE
from pallas_registry.resources.model import (
    API_VERSION,
    KINDS,
    NETWORKS,
    OTHER_API_VERSIONS,
    WITH_NETWORK,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scripts.lib.schema import Schema

_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
_ANY: Schema = {"type": "object"}
_LINE: Schema = {"type": "string", "minLength": 1, "maxLength": names.LONGEST_DESCRIPTION + 50}
_LONG: Schema = {"type": "string", "minLength": 1, "maxLength": names.LONGEST_TEXT}
_WORD: Schema = {"type": "string", "minLength": 1, "maxLength": rules.LONGEST_MODEL, "pattern": "^[^ ]+$"}
_TEXT: Schema = {"type": "string", "minLength": 1}


def _name(kind: str) -> Schema:
    """What a resource of the kind may be called."""
    found: Schema = {"type": "string", "pattern": f"^{names.LLM_NAME if kind == 'llm' else names.NAME}$"}
    never = [{"pattern": "__"}]
    if kind == "server":
        never.append({"pattern": f"^{names.AGENT_SERVER}"})
    return {**found, "not": {"anyOf": never}}


def _named(kind: str) -> Schema:
    """The name of another resource, alone or as `{name: …}`."""
    return {"anyOf": [_name(kind), _object({"name": _name(kind)}, ["name"])]}


def _all_named(kind: str) -> Schema:
    return {"type": "array", "items": _named(kind), "maxItems": common.MOST_NAMES}


def _object(properties: Mapping[str, Schema], required: list[str] | None = None) -> Schema:
    needed = {"required": required} if required else {}
    return {"type": "object", **needed, "additionalProperties": False, "properties": dict(properties)}


def _texts(pattern: str, value: Schema) -> Schema:
    """A mapping whose keys match the pattern."""
    return {"type": "object", "propertyNames": {"pattern": f"^{pattern}$"}, "additionalProperties": value}


_FUNCTION = _object(
    {"type": {"const": "function"}, "function": _object({"name": _TEXT}, ["name"])}, ["type", "function"]
)
_OTHER_PARAMETERS: dict[str, Schema] = {
    "logit_bias": {"type": "object", "maxProperties": MAX_BIASES},
    "stop": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MAX_STOPS}]},
    "tool_choice": {"anyOf": [{"enum": ["auto", "none", "required"]}, _FUNCTION]},
    "parallel_tool_calls": {"type": "boolean"},
    "reasoning_effort": {"enum": list(EFFORTS)},
    "service_tier": {"enum": list(TIERS)},
    "extra": _ANY,
}
_PARAMETERS = {name: _OTHER_PARAMETERS.get(name, {"type": "number"}) for name in (*PARAMETERS, "extra")}
_RUN = {name: value_of(RULES[name]) if name in RULES else AGENT[name] for name in RUN_KEYS}

_SPECS: dict[str, dict[str, Schema]] = {
    "agent": {
        "description": {"type": "string", "minLength": 1, "maxLength": 150},
        "llm": _named("llm"),
        "model": _WORD,
        "models": _all_named("llm"),
        "project": _named("project"),
        "systemPrompt": _LONG,
        "defaultParams": _object(_PARAMETERS),
        "servers": _all_named("server"),
        "tools": {"type": "array", "items": _TEXT, "maxItems": agent.MOST_PATTERNS},
        "outputSchema": _ANY,
        "maxIterations": {"type": "integer", "minimum": 1, "maximum": agent.MOST_ITERATIONS},
        "proxyModelName": _WORD,
        "extras": _ANY,
        "run": _object(_RUN),
    },
    "llm": {
        "description": _LINE,
        "type": {"enum": list(llm.PROVIDERS)},
        "model": _WORD,
        "url": {"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://", "maxLength": names.LONGEST_URL},
        "apiKeyRef": {
            "anyOf": [
                {"type": "string", "pattern": f"^{names.NAME}/{names.KEY_NAME}$"},
                _object({"name": _name("secret"), "key": _TEXT}, ["name", "key"]),
            ]
        },
        "extras": _ANY,
    },
    "secret": {
        "data": {
            **_texts(names.KEY_NAME, {"anyOf": [_TEXT, _object({"digest": _TEXT}, ["digest"])]}),
            "minProperties": 1,
            "maxProperties": secret.MOST_KEYS,
        },
    },
    "server": {
        "description": _LINE,
        "transport": {"enum": list(server.TRANSPORTS)},
        "url": _TEXT,
        "headers": _texts(".+", _SCALAR),
        "forwardInboundAuth": {"type": "boolean"},
        "command": _TEXT,
        "args": {"type": "array", "items": {"type": "string"}, "maxItems": server.MOST_ENTRIES},
        "env": _texts(rules.ENVIRONMENT_NAME, _SCALAR),
        "cwd": _TEXT,
        "readTimeoutSeconds": {"type": "integer", "minimum": 1},
    },
    "project": {
        "description": _LINE,
        "servers": _all_named("server"),
        "prompts": {
            "type": "array",
            "items": _object({"name": _name("project"), "description": _LINE, "text": _LONG}, ["name", "text"]),
            "maxItems": project.MOST_PROMPTS,
        },
    },
}  # fmt: skip
_REQUIRED = {"llm": ["type", "model"], "secret": ["data"]}
_NOT_BOTH = {"agent": ("llm", "model"), "server": ("url", "command")}


def page() -> str:
    """The schema's whole text."""
    metadata = {
        "name": {"type": "string"},
        **dict.fromkeys(METADATA_KEYS[1:], _SCALAR),
        NETWORK_KEY: {"enum": list(NETWORKS)},
    }
    whole: dict[str, Schema] = {
        "apiVersion": {"enum": [API_VERSION, *OTHER_API_VERSIONS]},
        "kind": {"enum": list(KINDS)},
        "metadata": _object(metadata, ["name"]),
        "spec": _ANY,
        "status": {},
    }
    schema = {
        "$schema": DIALECT,
        "title": "A resource of Pallas",
        "description": "An agent, an LLM, a secret, an MCP server or a project, as `pallasctl apply` takes it",
        **_object({key: whole[key] for key in KEYS}, ["apiVersion", "kind", "metadata", "spec"]),
        "allOf": [_of_kind(kind) for kind in KINDS],
        "definitions": {kind: _spec(kind) for kind in KINDS},
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _of_kind(kind: str) -> Schema:
    said: Schema = {
        "metadata": {
            "properties": {"name": _name(kind), **({} if kind in WITH_NETWORK else {NETWORK_KEY: False})}
        },
        "spec": {"$ref": f"#/definitions/{kind}"},
    }
    return {"if": {"properties": {"kind": {"const": kind}}}, "then": {"properties": said}}


def _spec(kind: str) -> Schema:
    spec = _object({key: _SPECS[kind][key] for key in TABLE[kind].keys}, _REQUIRED.get(kind))
    if kind in _NOT_BOTH:
        spec["not"] = {"required": list(_NOT_BOTH[kind])}
    return spec
