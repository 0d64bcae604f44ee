"""How the model is asked to answer: parameters of a chat completion, checked, of a request or of an agent's definition.

Pure. Knows names, types and ranges; must not know providers, which differ in what they take.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pallas_common.problems import kind_of, quoted, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    type Check = Callable[[str, object], object]
    """Takes name and value, never None; returns the value to use."""

MAX_STOPS = 4
LONGEST_STOP = 256
"""Characters of a stop sequence."""
MAX_BIASES = 1024
"""Tokens in `logit_bias`."""
MAX_EXTRA_BYTES = 64 * 1024
"""Of `extra`, as JSON."""
MAX_EXTRA_DEPTH = 8
"""Objects and lists in one another in `extra`, itself included."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
TIERS = ("auto", "default", "flex", "priority")
CHOICES = ("auto", "none", "required")

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_TOKEN = re.compile(r"[0-9]{1,10}")
_LARGEST_COUNT = 10_000_000
"""Of tokens: more than any model has, and few enough for every provider's integer."""


class ParameterError(ValueError):
    """A parameter that is unknown, malformed or out of its range."""

    def __init__(self, field: str, complaint: str) -> None:
        super().__init__(f"{field}: {complaint}")
        self.field = field
        """Its name, or the place in it, such as `stop[1]`."""
        self.complaint = complaint


def refuse(field: str, complaint: str) -> NoReturn:
    """Refuse the value at `field`."""
    raise ParameterError(field, complaint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Those that are given; one that is not in `values` is as the agent's definition says."""

    values: Mapping[str, object]
    """Name → checked value; None clears the agent's default. Stop sequences are a tuple."""
    extra: Mapping[str, object]
    """For the request's body alone, as the provider names it."""


class Function(NamedTuple):
    """A `tool_choice` that names the one tool that the model has to call."""

    name: str


def parse_parameters(given: Mapping[str, object]) -> Parameters | None:
    """The parameters, by their names in `PARAMETERS` and `extra`; None where none is given.

    Raises:
        ParameterError: one is unknown, malformed or out of its range; its name is `field`.
    """
    values: dict[str, object] = {}
    for name, value in given.items():
        if name == "extra":
            continue
        if (check := _CHECKS.get(name)) is None:
            refuse(shortened(name), f"is no parameter; known are {', '.join(PARAMETERS)} and extra")
        values[name] = None if value is None else check(name, value)
    extra = _extra(given.get("extra"), values)
    if "max_completion_tokens" in values:
        _unite(values)
    if not values and not extra:
        return None
    return Parameters(values=values, extra=extra)


def _unite(values: dict[str, object]) -> None:
    """Make one of the two names that OpenAI has for the same limit."""
    newer = values.pop("max_completion_tokens")
    if values.setdefault("max_tokens", newer) != newer:
        refuse("max_completion_tokens", "differs from max_tokens, which says the same; remove one of them")


def _number(low: float, high: float) -> Check:
    def check(name: str, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            refuse(name, f"must be a number, not {kind_of(value)}")
        elif not low <= value <= high:  # NaN is in no range
            refuse(name, f"must be from {low:g} to {high:g}, not {_figure(value)}")
        return value

    return check


def _whole(low: int, high: int) -> Check:
    def check(name: str, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            refuse(name, f"must be a whole number, not {kind_of(value)}")
        elif not low <= value <= high:
            refuse(name, f"must be from {low} to {high}, not {_figure(value)}")
        return value

    return check


def _one_of(choices: tuple[str, ...]) -> Check:
    def check(name: str, value: object) -> object:
        if not isinstance(value, str) or value not in choices:
            said = quoted(value) if isinstance(value, str) else kind_of(value)
            refuse(name, f"must be one of {', '.join(choices)}, not {said}")
        return value

    return check


def _truth(name: str, value: object) -> object:
    if not isinstance(value, bool):
        refuse(name, f"must be true or false, not {kind_of(value)}")
    return value


def _stop(name: str, value: object) -> object:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list):
        refuse(name, f"must be a string or a list of them, not {kind_of(value)}")
    if not 1 <= len(stops) <= MAX_STOPS:
        refuse(name, f"must be 1 to {MAX_STOPS} strings, not {len(stops)}")
    for index, stop in enumerate(stops):
        where = name if isinstance(value, str) else f"{name}[{index}]"
        if not isinstance(stop, str):
            refuse(where, f"must be a string, not {kind_of(stop)}")
        elif not 1 <= len(stop) <= LONGEST_STOP:
            refuse(where, f"must have 1 to {LONGEST_STOP} characters, not {len(stop)}")
        elif not _is_text(stop):
            refuse(where, "is no Unicode text")
    return tuple(stops)


def _tool_choice(name: str, value: object) -> object:
    if isinstance(value, str):
        return _one_of(CHOICES)(name, value)
    form = '{"type": "function", "function": {"name": …}}'
    if not isinstance(value, dict) or value.keys() != {"type", "function"} or value["type"] != "function":
        refuse(name, f"must be one of {', '.join(CHOICES)}, or {form}")
    function = value["function"]
    if not isinstance(function, dict) or function.keys() != {"name"}:
        refuse(name, f"must name the function and nothing else: {form}")
    if not isinstance(tool := function["name"], str) or not _TOOL_NAME.fullmatch(tool):
        refuse(f"{name}.function.name", "must be the name of a tool, as the agent lists it")
    return Function(tool)


def _logit_bias(name: str, value: object) -> object:
    if not isinstance(value, dict):
        refuse(name, f"must be an object of tokens and biases, not {kind_of(value)}")
    if len(value) > MAX_BIASES:
        refuse(name, f"has {len(value)} tokens; {MAX_BIASES} are allowed")
    bias = _number(-100, 100)
    for token, number in value.items():
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            refuse(name, f"must have tokens' numbers as keys, not {quoted(str(token))}")
        bias(f"{name}.{token}", number)
    return value


_CHECKS: Mapping[str, Check] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _whole(1, 1_000_000),
    "min_p": _number(0, 1),
    "repetition_penalty": _number(0, 10),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "logit_bias": _logit_bias,
    "seed": _whole(-(2**63), 2**63 - 1),
    "max_tokens": _whole(1, _LARGEST_COUNT),
    "max_completion_tokens": _whole(1, _LARGEST_COUNT),
    "stop": _stop,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _truth,
    "reasoning_effort": _one_of(EFFORTS),
    "service_tier": _one_of(TIERS),
}

PARAMETERS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the parameters of a request, but for `extra`."""

_NAMED_IN_EXTRA = {"min_p", "repetition_penalty"}
"""Parameters of this page that servers of open models have beside OpenAI's, where callers look for them in `extra`."""

REFUSED_IN_EXTRA: Mapping[str, str] = {
    **{name: "has a name of its own beside extra" for name in PARAMETERS if name not in _NAMED_IN_EXTRA},
    **dict.fromkeys(("response_format", "user", "n"), "has a name of its own beside extra"),
    **dict.fromkeys(
        ("max_output_tokens", "stop_sequences", "system_override", "system_append"),
        "has another name beside extra",
    ),
    **dict.fromkeys(
        ("model", "models", "fallbacks", "messages", "input", "prompt", "system", "instructions"),
        "is the agent's",
    ),
    **dict.fromkeys(
        ("tools", "functions", "function_call", "mcp_servers", "container", "plugins", "web_search_options"),
        "would give the model tools that are not the agent's",
    ),
    **dict.fromkeys(
        ("previous_response_id", "conversation", "store", "background", "include", "text", "betas"),
        "is the worker's",
    ),
    **dict.fromkeys(("stream", "stream_options"), "is the worker's"),
    **dict.fromkeys(
        (
            *("headers", "extra_headers", "default_headers", "extra_query", "extra_body", "query"),
            *("timeout", "max_retries", "api_key", "api_base", "base_url", "api_version", "user_config"),
        ),
        "is no field of a request's body that may be set here",
    ),
}
"""Keys that `extra` may not have: case-folded, with `_` for `-`. Each with why.

Servers written in Go take `meſſages` for `messages`.
"""


def _extra(value: object, values: Mapping[str, object]) -> dict[str, object]:
    """The fields for the request's body: an object of JSON, bounded, without names that are taken."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        refuse("extra", f"must be an object, not {kind_of(value)}")
    _bound(value, MAX_EXTRA_DEPTH)
    if len(json.dumps(value)) > MAX_EXTRA_BYTES:
        _refuse_large()
    for key in value:
        where = f"extra.{shortened(key)}"
        if (why := REFUSED_IN_EXTRA.get(key.strip().casefold().replace("-", "_"))) is not None:
            refuse(where, f"{why}; remove it")
        if key in values:
            refuse(where, "stands beside extra as well; remove one of them")
    return value


def _bound(value: object, levels: int) -> int:
    """Refuse what is nested deeper than so many levels, is too large by far, or cannot be sent as JSON.

    Returns:
        Characters that it has at least as JSON.
    """
    size = 1
    match value:
        case dict() | list():
            if not levels:
                refuse("extra", f"is nested deeper than {MAX_EXTRA_DEPTH} levels")
            for inner in chain(value, value.values()) if isinstance(value, dict) else value:
                size += _bound(inner, levels - 1)
                if size > MAX_EXTRA_BYTES:
                    _refuse_large()
        case str() if len(value) > MAX_EXTRA_BYTES:
            _refuse_large()
        case str() if not _is_text(value):
            refuse("extra", "has a string that is no Unicode text")
        case str():
            size += len(value)
        case int() if value.bit_length() > 64:
            refuse("extra", "has a number of more than 64 bits")
        case float() if not math.isfinite(value):
            refuse("extra", "has a number that JSON cannot have")
    return size


def _refuse_large() -> NoReturn:
    refuse("extra", f"is larger than {MAX_EXTRA_BYTES // 1024} KiB")


def _is_text(value: str) -> bool:
    """Whether it can be sent: half of a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _figure(value: float) -> str:
    """A number for a message; one with thousands of digits cannot even be written."""
    if isinstance(value, int) and value.bit_length() > 80:
        return "such a large number"
    return str(value)
