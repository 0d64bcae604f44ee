"""What an agent's definition says of each of its turns, in the words of chat completions, unless a request says it.

Pure. Both surfaces go by it; MCP's has no words for any of this, so that its turns have all defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pallas_common.protocol.agent.parameters import PARAMETERS, Parameters
from pallas_worker.interface.chat.fields import only, patterns
from pallas_worker.interface.chat.response_format import response_format
from pallas_worker.interface.parameters import parse_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.output_schema.schema import OutputSchema
    from pallas_worker.interface.turn import TurnRequest

ALLOWLIST, FORMAT, EXTRA = "tools_allowlist", "response_format", "extra"

FIELDS = (*PARAMETERS, EXTRA, ALLOWLIST, FORMAT)
"""What may be said for all turns."""

_SAME = {"max_completion_tokens": "max_tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Of one agent."""

    parameters: Parameters
    tools_allowlist: frozenset[str] | None = None
    output: OutputSchema | None = None


def parse_defaults(given: Mapping[str, object], own: Mapping[str, object] | None = None) -> Defaults | None:
    """The defaults of a definition; None where it has none.

    Args:
        own: the agent's own `output_schema`.

    Raises:
        ArgumentError: one is unknown, malformed or out of its range; its name is `field`.
    """
    if not given:
        return None
    only(given, FIELDS, "defaultParams")
    allowed = patterns(given, ALLOWLIST)
    said = {name: value for name, value in given.items() if name not in (ALLOWLIST, FORMAT)}
    return Defaults(
        parameters=parse_parameters(said) or Parameters(values={}, extra={}),
        tools_allowlist=None if allowed is None else frozenset(allowed),
        output=response_format(given, own),
    )


def said_in(body: Mapping[str, object]) -> frozenset[str]:
    """Those of `FIELDS` about which a request says something; null is to clear the default."""
    return frozenset(_SAME.get(name, name) for name in FIELDS if name in body)


def with_defaults(request: TurnRequest, defaults: Defaults | None) -> TurnRequest:
    """The request, with the defaults of what it says nothing about."""
    if defaults is None:
        return request
    given = request.parameters or Parameters(values={}, extra={})
    values = {name: value for name, value in defaults.parameters.values.items() if name not in request.said}
    # A name that the request has in one place is not the default's in the other.
    extra = {
        name: value
        for name, value in defaults.parameters.extra.items()
        if name not in given.values and not (EXTRA in request.said and not given.extra)
    }
    by_default = set(values)
    if extra and not given.extra:
        by_default.add(EXTRA)
    changes: dict[str, object] = {}
    if defaults.tools_allowlist is not None and ALLOWLIST not in request.said:
        changes["tools_allowlist"] = defaults.tools_allowlist
        by_default.add(ALLOWLIST)
    if defaults.output is not None and FORMAT not in request.said:
        changes["output"] = defaults.output
    if values or extra:
        changes["parameters"] = Parameters(
            values=values | dict(given.values), extra=extra | dict(given.extra)
        )
    return replace(request, by_default=frozenset(by_default), **changes)  # type: ignore[arg-type]
