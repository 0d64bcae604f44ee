"""What a definition says of an agent's turns: which models and tools they may have, and their parameters.

Knows definitions; how a turn goes by it is for `calls`, `agent` and the guard of tools.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pallas_common.problems import quoted
from pallas_worker.fastagent.tools.rules import Globs, Patterns
from pallas_worker.interface.chat.defaults import parse_defaults, with_defaults
from pallas_worker.interface.errors import AgentError, ArgumentError
from pallas_worker.interface.turn import TurnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pallas_common.protocol.spec import WorkerSpec
    from pallas_worker.agent.instance import Instance
    from pallas_worker.interface.chat.defaults import Defaults

WHERE = "defaultParams"


def other_models(spec: WorkerSpec) -> tuple[str, ...]:
    """The models that a call may have in place of the agent's own; declared ones by their llms' names."""
    declared = spec.definition.models if spec.definition is not None else ()
    return tuple(dict.fromkeys((*spec.models, *(llm.name for llm in declared))))


def permitted_tools(spec: WorkerSpec) -> Globs | None:
    """What the agent's models may call at all; None for all that it has."""
    if spec.definition is None or spec.definition.tools is None:
        return None
    return Globs(spec.definition.tools)


def defaults_of(spec: WorkerSpec) -> Defaults | None:
    """What a turn has of which its caller says nothing.

    Raises:
        AgentError: the definition has something there that is no such parameter, or is out of its range.
    """
    if spec.definition is None:
        return None
    try:
        return parse_defaults(spec.definition.parameters, spec.output_schema)
    except ArgumentError as error:
        said = str(error)
        said = said if said.startswith(WHERE) else f"{WHERE}.{said}"
        raise AgentError(f"agent {spec.agent}: {said}", permanent=True) from error


async def default_warnings(
    instance: Instance,
    defaults: Defaults | None,
    permitted: Globs | None,
    tools: Mapping[str, Sequence[str]],
) -> list[str]:
    """What of the definition its model does not take, or means no tool. Of an instance on trial, which it changes."""
    listed = list(chain.from_iterable(tools.values()))
    warnings = []
    if permitted is not None and instance.knows_all_tools:
        warnings += [_void("tools", pattern) for pattern in permitted.void(listed)]
    if defaults is None:
        return warnings
    if instance.knows_all_tools:
        allowed = sorted(defaults.tools_allowlist or ())
        warnings += [
            _void(f"{WHERE}.tools_allowlist", pattern)
            for pattern in allowed
            if not any(map(Patterns((pattern,)).match, listed))
        ]
    for ignored in await instance.ask_as_requested(with_defaults(TurnRequest(), defaults)):
        name, moved, value = ignored.partition("=")
        if name == "tool_choice" and not instance.knows_all_tools:
            continue  # it may be one of those
        what = (
            f"becomes {value}, which is what the model takes"
            if moved
            else "is left out: the model does not take it"
        )
        warnings.append(f"{WHERE}.{name} {what}")
    return warnings


def _void(where: str, pattern: str) -> str:
    return f"{where}: {quoted(pattern)} means no tool of the agent's servers; correct it, or remove it"
