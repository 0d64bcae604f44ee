"""`agent`: who answers, by which model, with which instruction, parameters and tools, and how it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.problems import did_you_mean
from pallas_common.protocol.agent.definition import MAX_ITERATIONS
from pallas_common.protocol.agent.parameters import PARAMETERS, Function, ParameterError, parse_parameters
from pallas_registry.deployment.agent_entry import read_run
from pallas_registry.deployment.output_schema import inline_schema
from pallas_registry.reading import rules
from pallas_registry.resources.kinds import names
from pallas_registry.resources.kinds.common import all_named, extras, named, said, texts

if TYPE_CHECKING:
    from pallas_registry.reading.fields import Fields

KEYS = (
    *(
        "description",
        "llm",
        "model",
        "models",
        "project",
        "systemPrompt",
        "defaultParams",
        "servers",
        "tools",
    ),
    *("outputSchema", "maxIterations", "proxyModelName", "extras", "run"),
)
MOST_ITERATIONS = 1000
MOST_PATTERNS = 1000
START = "on-demand"
"""Of `run`, unless it says otherwise."""

_ELSEWHERE = {
    "response_format": "write the schema behind `outputSchema:`",
    "tools_allowlist": "write the patterns behind `tools:`",
    "systemOverride": "write `systemPrompt:`",
    "system_override": "write `systemPrompt:`",
    "systemAppend": "write it at the end of `systemPrompt:`",
    "system_append": "write it at the end of `systemPrompt:`",
    "messages": "remove it: a conversation begins with what its caller says",
    "model": "write `llm:` or `model:` beside `defaultParams:`",
}
"""Parameters of a request that are no defaults."""


def read(name: str, fields: Fields) -> dict[str, Any]:
    """The spec."""
    fields.only(KEYS)
    if "llm" in fields and "model" in fields:
        fields.refuse("model", "stands beside `llm`, and an agent has one of them", "remove one of the two")
    run = fields.section("run")
    found = {} if run is None else read_run(name, run)
    if run is not None:
        _check_variables(run, found)
    if found.get("start") == START:
        del found["start"]
    rounds = fields.whole_number("maxIterations", 1, MOST_ITERATIONS)
    return said(
        KEYS,
        {
            "description": fields.line_of_text("description", rules.published_text),
            "llm": named(fields, "llm", "llm"),
            "model": fields.text("model", rules.model),
            "models": all_named(fields, "models", "llm"),
            "project": named(fields, "project", "project"),
            "systemPrompt": fields.text("systemPrompt", names.long_text),
            "defaultParams": _parameters(fields),
            "servers": all_named(fields, "servers", "server"),
            "tools": _tools(fields),
            "outputSchema": inline_schema(fields, "outputSchema"),
            "maxIterations": None if rounds == MAX_ITERATIONS else rounds,
            "proxyModelName": fields.text("proxyModelName", names.one_word),
            "extras": extras(fields),
            "run": found,
        },
        may_be_empty=("tools",),
    )


def _tools(fields: Fields) -> list[str] | None:
    """The patterns; none at all is said as well: that the agent may call nothing."""
    if "tools" not in fields:
        return None
    return list(dict.fromkeys(texts(fields, "tools", names.tool_pattern, MOST_PATTERNS)))


def _check_variables(run: Fields, found: dict[str, Any]) -> None:
    section = run.section("env") if "env" in found else None
    for name, value in found.get("env", {}).items() if section is not None else ():
        if section is not None and (complaint := names.without_secrets(value)):
            section.refuse(name, *complaint)


def _parameters(fields: Fields) -> dict[str, Any]:
    section = fields.section("defaultParams")
    if section is None:
        return {}
    found: dict[str, Any] = {}
    for key in section:
        if key not in PARAMETERS and key != "extra":
            near = did_you_mean(key, PARAMETERS)
            other = f"did you mean `{near}`?" if near else f"known here: {', '.join(PARAMETERS)}, extra"
            section.refuse(key, "is no default parameter", _ELSEWHERE.get(key, other))
        elif section.is_empty(key):
            section.refuse(key, "is empty", "give it a value, or remove the key")
        else:
            found[key] = section.value(key)
    try:
        return _canonical(found)
    except ParameterError:
        # Each on its own, so that all are told; then together, as one may contradict another.
        if all([_fits(section, {key: value}) for key, value in found.items()]):  # noqa: C419 - all of them
            _fits(section, found)
        return {}


def _fits(section: Fields, given: dict[str, Any]) -> bool:
    try:
        parse_parameters(given)
    except ParameterError as error:
        key = next((key for key in given if error.field.startswith(key)), "")
        section.add(section.line(key), error.field, error.complaint, "mend the value, or remove the key")
        return False
    return True


def _canonical(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters as they are shown: in the order of their table, stop sequences as a list, whole numbers whole.

    Raises:
        ParameterError: one does not fit.
    """
    parsed = parse_parameters(given)
    if parsed is None:
        return {}
    found = {key: _plain(parsed.values[key]) for key in PARAMETERS if key in parsed.values}
    return {**found, "extra": dict(parsed.extra)} if parsed.extra else found


def _plain(value: object) -> object:
    match value:
        case Function(name):
            return {"type": "function", "function": {"name": name}}
        case tuple():
            return list(value)
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
