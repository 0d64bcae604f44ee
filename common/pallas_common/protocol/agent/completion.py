"""The fields of a chat completion: which are read, what means "off", what is refused, and how the rest is named.

The one table for workers and the gateway. Pure. Chat clients send many fields that change nothing for them here: such
a field is left out and named in `Pallas-Ignored`. Refused is what would change what the caller gets.
"""

from __future__ import annotations

import difflib
import string
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from pallas_common.problems import LONGEST_WORD, quoted, shortened
from pallas_common.protocol.agent.parameters import PARAMETERS, refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_OPENAI = (
    "model",
    "messages",
    "stream",
    "stream_options",
    "user",
    "metadata",
    "store",
    "response_format",
)
OVERRIDES = ("system_override", "model_override", "extra", "hold", "resume")
"""Fields that count only with the worker's key, or where the agent says `overrides: true`."""

OWN = ("system_append", "tools_allowlist", *OVERRIDES)
"""Fields that only Pallas has."""

READ = (*_OPENAI, *PARAMETERS, *OWN)
"""Fields that a worker reads."""


class _Refused(NamedTuple):
    complaint: str
    off: tuple[object, ...] = ()
    """Values by which nothing is asked for, besides null and what is empty."""
    empty_is_off: bool = True


_TOOLS = "an agent has tools of its own and calls them itself; remove it"
_PROBABILITIES = "an agent's answer has no probabilities; remove it"
_SOUND = "an agent answers with text; remove it"

_REFUSED: Mapping[str, _Refused] = {
    "n": _Refused("must be 1: an agent gives one answer", (1,)),
    "tools": _Refused(_TOOLS),
    "functions": _Refused(_TOOLS),
    "function_call": _Refused(_TOOLS, ("none", "auto")),
    "web_search_options": _Refused(_TOOLS, empty_is_off=False),
    "logprobs": _Refused(_PROBABILITIES, (False,)),
    "top_logprobs": _Refused(_PROBABILITIES, (0,)),
    "audio": _Refused(_SOUND),
    "modalities": _Refused(_SOUND, (["text"],)),
}
"""Fields that would change what the caller gets."""

_OFF: Mapping[str, tuple[object, ...]] = {
    "max_tokens": (-1,),
    "max_completion_tokens": (-1,),
    "top_k": (-1, 0),
}
"""Parameters by which nothing is asked for with these values, as servers of open models and their clients have it."""

_NEAR = 0.85
"""How alike a name has to be to one of ours to be a slip of it, and not a field of somebody else."""

MOST_NAMED = 50
"""Names of fields that were left out; of others there is the number."""
LONGEST_HEADER = 1000
"""Characters of the header that names them: proxies take heads of 4 KiB."""

_PLAIN = "".join(each for each in string.printable if each not in '%,"\\' and each > " ")


class Fields(NamedTuple):
    """The fields of a request."""

    read: dict[str, object]
    ignored: tuple[str, ...]
    """Names of those that nobody reads."""


def read_fields(
    body: Mapping[str, object], known: Collection[str] = READ, own: Collection[str] = OWN
) -> Fields:
    """Return the fields that say something, and the names of those that nobody knows.

    Null stays for parameters, where it clears what the agent's definition says.

    Args:
        known: those that are read here.
        own: those of them that only Pallas has; a slip in one of their names is refused, because what was to be
            limited would not be.

    Raises:
        ParameterError: a field would change what the caller gets, and cannot.
    """
    read: dict[str, object] = {}
    ignored: list[str] = []
    for name, value in body.items():
        if name in known:
            if name not in PARAMETERS or not _says_nothing(value, _OFF.get(name, ())):
                read[name] = value
        elif (refused := _REFUSED.get(name)) is not None:
            if value is not None and not _says_nothing(value, refused.off, empty=refused.empty_is_off):
                refuse(name, refused.complaint)
        elif value is None:
            continue
        elif (meant := _slip_of(name, own)) is not None:
            refuse(shortened(name), f"unknown field {quoted(name)}; did you mean {meant}?")
        elif name in OWN:  # it would limit the turn, or say how it ends
            refuse(name, "is a field of /v1/chat/completions alone; remove it")
        elif not _says_nothing(value):
            ignored.append(name)
    return Fields(read, named(ignored))


def overriding(body: Mapping[str, object], names: Iterable[str] = OVERRIDES) -> str | None:
    """Return the first field of a request that changes what the agent's definition says; None where none does."""
    return next((name for name in names if body.get(name) not in (None, False, [], {})), None)


def named(names: Iterable[str]) -> tuple[str, ...]:
    """Return each name once, and bounded: they are a client's own."""
    found = dict.fromkeys(shortened(name) for name in names)
    first = list(found)[:MOST_NAMED]
    return (*first, *([f"and {len(found) - MOST_NAMED} more"] if len(found) > MOST_NAMED else []))


def ignored_header(names: Iterable[str]) -> dict[str, str]:
    """Return the header that names what of a request was left out; empty where nothing was."""
    found = named(names)
    said: list[str] = []
    size = 0
    for index, name in enumerate(found):
        escaped = quote(name, safe=_PLAIN + " ", errors="replace")
        size += len(escaped) + 2
        if size > LONGEST_HEADER:
            said.append(f"and {len(found) - index} more")
            break
        said.append(escaped)
    return {"Pallas-Ignored": ", ".join(said)} if said else {}


def _says_nothing(value: object, off: tuple[object, ...] = (), *, empty: bool = True) -> bool:
    """Whether a value is empty, or one that means "off". True is not 1, nor False 0."""
    if isinstance(value, str | list | dict) and not value:
        return empty
    return any(type(value) is type(each) and value == each for each in off)


def _slip_of(name: str, own: Collection[str]) -> str | None:
    """The field of ours that was meant."""
    if len(name) > LONGEST_WORD:
        return None
    by_lower = {each.lower(): each for each in own}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_NEAR)
    return by_lower[found[0]] if found else None
