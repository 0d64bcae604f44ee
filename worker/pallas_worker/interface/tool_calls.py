"""What an assistant's row has beside its words: the tools that the model has called, and what its provider needs again.

Pure. Knows the shape of chat completions' `tool_calls` and of the field `pallas`; must not know agents, nor which
provider reads what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pallas_common.http.json_bounds import depth_and_size, parse_json, read_json, whole_value
from pallas_common.problems import kind_of
from pallas_worker.interface.errors import ArgumentError

MAX_CALLS = 128
"""Calls of one row."""
MAX_ARGUMENTS = 1024**2
"""Characters of one call's arguments."""
MAX_VALUES = 100_000
"""Values and keys in the arguments of all calls of a request: each is copied before each turn, in which the loop
stands."""
MAX_CALL_VALUES = 10_000
"""Values and keys in the arguments of one call that a model makes."""
MAX_DEPTH = 64
"""How deep arguments may be nested."""
MAX_NAME = 256
"""Characters of a call's id, or of a tool's name."""
MAX_CHANNELS = 16
MAX_STATE = 4 * 1024**2
"""Characters of all that `pallas` keeps for a provider."""
MAX_BLOCKS = 1000
"""Texts of one channel."""


class ToolCall(NamedTuple):
    """One tool call of a model."""

    id: str
    name: str
    """As the agent lists the tool."""
    arguments: Mapping[str, object]


class Calls(NamedTuple):
    """The calls of a row without those that are malformed."""

    calls: tuple[ToolCall, ...] = ()
    reason: str | None = None
    """What is wrong with the first that is left out."""


@dataclass(slots=True)
class Budget:
    """What the arguments of the calls that are still to be read may have."""

    values: int = MAX_VALUES


def nothing_said(is_error: bool) -> str:
    """What a model reads of a call whose tool has given no text."""
    return "the tool failed and said nothing" if is_error else "the tool succeeded and said nothing"


def readable_calls(value: object, budget: Budget) -> Calls:
    """The calls of a row; None for no such field, or one that is null.

    Args:
        budget: that of the request; what the calls have is taken off.
    """
    if value is None:
        return Calls()
    if not isinstance(value, list):
        return Calls((), f"tool_calls must be a list of objects, not {type(value).__name__}")
    calls: dict[str, ToolCall] = {}
    reason: str | None = None
    for index, entry in enumerate(value[:MAX_CALLS]):
        try:
            call = _parse_call(entry, f"tool_calls[{index}]", budget)
        except ArgumentError as error:
            reason = reason or str(error)
            continue
        if call.id in calls:
            reason = reason or f"tool_calls[{index}].id is that of another call of this row"
        else:
            calls[call.id] = call
    if len(value) > MAX_CALLS:
        reason = reason or f"tool_calls has {len(value)} calls; {MAX_CALLS} are allowed in one message"
    return Calls(tuple(calls.values()), reason)


def parse_call_id(value: object, where: str) -> str:
    """The id of a call.

    Raises:
        ArgumentError: it is none.
    """
    return _parse_name(value, where)


def parse_channels(value: object) -> dict[str, tuple[str, ...]]:
    """What the field `pallas` of a row keeps for the provider: texts by channel, in their order.

    Raises:
        ArgumentError: it is not what the end of a turn says; of such a field nothing is used.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentError("pallas must be an object")
    channels = value.get("channels")
    if channels is None:
        return {}
    if not isinstance(channels, Mapping) or len(channels) > MAX_CHANNELS:
        raise ArgumentError(f"pallas.channels must be an object of at most {MAX_CHANNELS} lists of strings")
    found = {}
    left = MAX_STATE
    for name, texts in channels.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ArgumentError(f"pallas.channels.{str(name)[:80]} must be a list of strings")
        left -= sum(map(len, texts))
        if left < 0 or len(texts) > MAX_BLOCKS:
            raise ArgumentError(
                f"pallas.channels.{str(name)[:80]} is too large: {MAX_BLOCKS} strings are allowed, and "
                f"{MAX_STATE // 1024**2} Mi characters in one row"
            )
        found[str(name)] = tuple(texts)
    return found


def parse_object(text: str, where: str) -> dict[str, object]:
    """A JSON object that can be sent on as it is: finite numbers, whole characters, no bottomless nesting.

    Raises:
        ArgumentError: it is something else.
    """
    try:
        value = read_json(text)
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError as error:
        raise ArgumentError(f"{where} is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise ArgumentError(f"{where} must be a JSON object")
    if depth_and_size(value)[0] > MAX_DEPTH:
        raise _too_deep(where)
    return value


def parse_arguments(text: str) -> dict[str, object]:
    """The arguments of a call as a model writes them: empty where it says nothing or null.

    Half of a surrogate pair and NUL are replaced, see `whole_text`; of two values of one key the last one counts.

    Raises:
        ArgumentError: they are no JSON object, or larger than a history may have them.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_ARGUMENTS:
        raise ArgumentError(f"they are larger than {MAX_ARGUMENTS // 1024**2} Mi characters")
    try:
        value = parse_json(text)
    except RecursionError:
        raise ArgumentError(f"they are nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise ArgumentError(f"they are not JSON: {str(error)[:200]}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArgumentError(f"they are {kind_of(value)}, not an object")
    depth, size = depth_and_size(value)
    if depth > MAX_DEPTH:
        raise ArgumentError(f"they are nested more than {MAX_DEPTH} levels deep")
    if size > MAX_CALL_VALUES:
        raise ArgumentError(f"they have more than {MAX_CALL_VALUES} values and keys")
    whole = whole_value(value)
    return whole if isinstance(whole, dict) else {}


def _parse_call(entry: object, where: str, budget: Budget) -> ToolCall:
    if not isinstance(entry, Mapping):
        raise ArgumentError(f"{where} must be an object with id, type and function")
    id_ = _parse_name(entry.get("id"), f"{where}.id")
    if entry.get("type", "function") != "function":
        raise ArgumentError(f'{where}.type must be "function"')
    function = entry.get("function")
    if not isinstance(function, Mapping):
        raise ArgumentError(f"{where}.function must be an object with name and arguments")
    name = _parse_name(function.get("name"), f"{where}.function.name")
    arguments = function.get("arguments")
    where = f"{where}.function.arguments"
    if arguments is None or arguments == "":  # so some models call what takes none
        return ToolCall(id_, name, {})
    if not isinstance(arguments, str):
        raise ArgumentError(f"{where} must be a string with a JSON object in it")
    if len(arguments) > MAX_ARGUMENTS:
        raise ArgumentError(f"{where} is too large: it may have {MAX_ARGUMENTS // 1024**2} Mi characters")
    if budget.values <= 0:
        raise _too_many(where)  # which need not be read any more
    parsed = parse_object(arguments, where)
    budget.values -= depth_and_size(parsed)[1]
    if budget.values < 0:
        raise _too_many(where)
    return ToolCall(id_, name, parsed)


def _parse_name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_NAME:
        raise ArgumentError(f"{where} must be a string of 1 to {MAX_NAME} characters")
    if not value.isprintable():
        raise ArgumentError(f"{where} has characters that cannot be printed")
    return value


def _too_many(where: str) -> ArgumentError:
    return ArgumentError(
        f"{where} is too large: the arguments of all calls may have {MAX_VALUES} values and keys together"
    )


def _too_deep(where: str) -> ArgumentError:
    return ArgumentError(f"{where} is nested too deep: {MAX_DEPTH} levels are allowed")
