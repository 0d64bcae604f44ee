"""An agent in the words of the REST API: as a document, and what a request makes of its `spec`. Pure.

The words are the reference's: flat, with `llm` and `project` as names. A field of the `spec` that it does not have
stands beside them under its own name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_common.problems import did_you_mean, kind_of, quoted, shortened
from pallas_gateway.http.errors import ApiError
from pallas_gateway.servers.management.content.documents import STATES
from pallas_registry.resources.kinds.agent import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

type Json = dict[str, Any]

REFERENCES = {"llm": "llm", "llmId": "llm", "project": "project", "projectId": "project"}
"""Field → the kind of resource that it names."""
SHOWN = ("id", "ownerId", "createdAt", "updatedAt", "state", "health", "source")
"""What Pallas says of an agent, and nobody else: a document can be sent back as it was read."""
_FIELDS = (*KEYS, "llmId", "projectId")
_UNCHANGEABLE = ("id", "ownerId", "createdAt")
_NAMES = ("description", "systemPrompt", "llm", "model", "project", "proxyModelName")
_PLACED = re.compile(
    r"(?:the request:\d+: )?(?P<field>(?:metadata|spec)\.[\w.\[\]-]+): (?P<said>.*)", re.DOTALL
)


def agent_document(resource: Mapping[str, Any], model: str | None, directory: str | None) -> Json:
    """The agent.

    Args:
        resource: as the control API tells it, and the principal may see it.
        model: what its llm says that it is, where it has one.
        directory: the deployment's; files there are named without it.
    """
    metadata, spec = resource["metadata"], resource.get("spec") or {}
    status = resource.get("status") or {}
    known: Json = {name: spec.get(name) for name in _NAMES}
    known["model"] = spec.get("model") or model
    rest = {name: value for name, value in spec.items() if name not in _NAMES}
    return {
        "id": metadata.get("uid") or metadata["name"],
        "name": metadata["name"],
        **known,
        "defaultParams": {},
        "extras": {},
        **rest,
        "ownerId": metadata.get("owner"),
        "version": metadata.get("version"),
        "createdAt": metadata.get("createdAt"),
        "updatedAt": metadata.get("updatedAt"),
        "state": STATES.get(status.get("state", ""), "suspended"),
        "health": status.get("health", "unknown"),
        "source": source_of(resource, directory),
    }


def source_of(resource: Mapping[str, Any], directory: str | None) -> Json:
    """What the agent is made from, and where that is written: `{"kind": "resource"}` of a declared one."""
    source = resource["metadata"].get("source")
    if not source:
        return {"kind": "resource"}
    file = str(source.get("file") or "")
    if directory:
        file = file.removeprefix(f"{directory.rstrip('/')}/")
    return {"kind": source.get("kind", "file"), "file": file, "line": source.get("line")}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request makes of an agent."""

    spec: Json
    version: int | None
    """That it was made for."""


def wanted(
    body: Mapping[str, Any],
    before: Json | None,
    named: Callable[[str, str, object], str],
) -> Wanted:
    """What a body says that an agent is to be.

    Args:
        before: its document, with `spec` added, where it is there already.
        named: name of a resource by kind and what stands for it, its name or uid; the field is the first argument.

    Raises:
        ApiError: a field is unknown, or two contradict each other.
    """
    version = body.get("version")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise invalid("version", f"must be a whole number, not {kind_of(version)}")
    if "spec" in body:
        if other := next((name for name in body if name not in ("spec", "name", "version", *SHOWN)), None):
            raise invalid(other, "stands beside `spec`, which says all; remove one of the two")
        if not isinstance(body["spec"], dict):
            raise invalid("spec", f"must be an object, not {kind_of(body['spec'])}")
        return Wanted(body["spec"], version)
    spec: Json = dict((before or {}).get("spec") or {})
    given: dict[str, str] = {}
    for field, value in body.items():
        if field in ("name", "version") or field in SHOWN:
            _check_same(field, value, before)
            continue
        if field not in _FIELDS:
            near = did_you_mean(field, _FIELDS)
            remedy = (
                f"did you mean `{near}`?" if near else "remove it; docs/resources.md has the fields of agents"
            )
            raise invalid(shortened(field), f"there is no such field; {remedy}")
        key = REFERENCES.get(field, field)
        if value is None:
            spec.pop(key, None)
            continue
        if field in REFERENCES:
            value = named(field, key, value)
            if given.setdefault(key, value) != value:
                raise invalid(field, f"says another one than `{key}`; remove one of the two")
        spec[key] = value
    _choose_model(spec, body, before)
    return Wanted(spec, version)


def _check_same(field: str, value: object, before: Json | None) -> None:
    if before is None:
        if field not in ("name", "version"):
            raise invalid(field, "is said by Pallas; remove it")
    elif field in (*_UNCHANGEABLE, "name") and value != before[field]:
        raise invalid(field, f"cannot be changed: it is {quoted(str(before[field]))}; remove it")


def _choose_model(spec: Json, body: Mapping[str, Any], before: Json | None) -> None:
    """Of `llm` and `model` an agent has one: the one that is newly said."""
    if "llm" not in spec or "model" not in spec:
        return
    says_llm = body.get("llm") is not None or body.get("llmId") is not None
    says_model = body.get("model") is not None
    if not says_model or (before is not None and body["model"] == before["model"]):
        del spec["model"]  # as a document that was read has it beside the llm
    elif not says_llm or (before is not None and spec["llm"] == before["llm"]):
        del spec["llm"]


def in_our_words(said: str) -> tuple[str | None, str]:
    """The field of a problem of a resource, and what it says, as the request had it."""
    found = _PLACED.fullmatch(said)
    if found is None:
        return None, said
    field = found["field"].removeprefix("spec.").removeprefix("metadata.")
    return field, f"{field}: {found['said']}"


def invalid(field: str, message: str) -> ApiError:
    """A field is wrong."""
    return ApiError(400, "invalid", f"{field}: {message}", field=field)
