"""The parameters of a chat's turns, as /set, /system and /tools change them. Pure.

Knows names, and the form of values as far as it is the same everywhere; the rest is for the agent to refuse.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_common.http.json_bounds import read_json
from pallas_common.problems import did_you_mean, kind_of, quoted
from pallas_common.protocol.agent.parameters import PARAMETERS, ParameterError, parse_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

APPENDED = "systemAppend"
ALLOWED = "tools_allowlist"
_TEXTS = ("systemOverride", APPENDED, "modelOverride")
_WORDS = (*_TEXTS, "stop", "tool_choice", "reasoning_effort", "service_tier")
"""Parameters whose values may stand without quotes."""
_OTHERS = ("response_format", ALLOWED, *_TEXTS, "extra")
NAMES = (*PARAMETERS, *_OTHERS)

_NONE = "no parameters are set: the agent's own count"


class SettingError(ValueError):
    """A parameter that is unknown, or a value that it cannot have; the text says what can be done."""


class Settings:
    """What is set now."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    @property
    def parameters(self) -> Mapping[str, Any]:
        """For a turn; None clears a default of the agent."""
        return dict(self._values)

    def get(self, name: str) -> Any:
        """A value; None also where none is set."""
        return self._values.get(name)

    def set(self, name: str, said: str) -> None:
        """Set a parameter to the value that the text says.

        Raises:
            SettingError: it is unknown, or cannot have that value.
        """
        _known(name)
        value = _value(name, said)
        _check(name, value)
        self._values[name] = value

    def put(self, name: str, value: Any) -> None:
        """Set a parameter to this value."""
        _check(name, value)
        self._values[name] = value

    def remove(self, name: str) -> bool:
        """Whether it was set.

        Raises:
            SettingError: there is no such parameter.
        """
        _known(name)
        was_set = name in self._values
        self._values.pop(name, None)
        return was_set

    def lines(self) -> list[str]:
        """What is set, as it can be typed."""
        return [f"/set {name} {shown(value)}" for name, value in self._values.items()] or [_NONE]


def shown(value: Any) -> str:
    """A value as /set takes it."""
    return json.dumps(value, ensure_ascii=False)


def _known(name: str) -> None:
    if name not in NAMES:
        near = did_you_mean(name, NAMES)
        raise SettingError(
            f"there is no parameter {quoted(name)}; "
            + (f"did you mean {near}?" if near else f"there are {', '.join(NAMES)}")
        )


def _value(name: str, said: str) -> Any:
    """JSON; a text may stand without quotes where it is none."""
    try:
        value = read_json(said)
    except (ValueError, RecursionError):
        if said[0] in '{["' or name not in _WORDS:
            message = f"{name}: {quoted(said)} is no JSON; write a value as 0.5, null or {_example(name)}"
            raise SettingError(message) from None
        return said
    if name in _TEXTS and value is not None and not isinstance(value, str):
        return said
    return value


def _check(name: str, value: Any) -> None:
    if value is None:
        return
    if name == ALLOWED:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise SettingError(f"{name}: must be a list of names, as {_example(name)}")
    elif name == "response_format":
        if not isinstance(value, dict):
            raise SettingError(f"{name}: must be an object, not {kind_of(value)}; such as {_example(name)}")
    elif name not in _TEXTS:
        try:
            parse_parameters({name: value})
        except ParameterError as error:
            raise SettingError(str(error)) from None


def _example(name: str) -> str:
    return {
        ALLOWED: '["search__*"]',
        "response_format": '{"type": "json_object"}',
        "extra": '{"min_tokens": 5}',
    }.get(name, '"text"')
