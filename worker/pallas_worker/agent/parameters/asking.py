"""How the agents of one call's instance are asked: their system prompts and the parameters of their models.

Knows what a call may say of that; must not know how a provider takes a parameter (see `applying`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.parameters import Function, Parameters
from pallas_worker.agent.models.agent_kinds import answering
from pallas_worker.agent.parameters.applying import apply_parameters
from pallas_worker.agent.parameters.fates import HINTS
from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection

    from pallas_worker.interface.turn import TurnRequest


async def ask_as_requested(agent: Any, request: TurnRequest) -> tuple[str, ...]:
    """Let the agents whose words are the answer of `agent` be asked as the call says; what their models do not take.

    Of an agent that hands the message on, they are those that it hands on to and whose words it gives back. Agents
    that a model calls as tools are asked as their own definitions say.

    Raises:
        ArgumentError: something cannot be honoured that is no hint.
    """
    asked = [part for part in answering(agent) if getattr(part, "llm", None) is not None]
    ignored = dict.fromkeys(_instruct(asked, request))
    if request.parameters is not None:
        for part in asked:
            tools = await _tools(part, request.parameters)
            ignored |= dict.fromkeys(_apply(part.llm, request.parameters, request.by_default, tools))
        if not asked:
            ignored |= dict.fromkeys(_for_nobody(request.parameters))
    return tuple(ignored)


def _instruct(asked: list[Any], request: TurnRequest) -> list[str]:
    """Give the agents the system prompt of this call. A caller's text is no template: nothing in it is filled in."""
    if request.system_override is None and not request.system_append:
        return []
    for agent in asked:
        own = agent.instruction if request.system_override is None else request.system_override
        agent.set_instruction("\n\n".join(filter(None, (own, request.system_append))))
    if asked:
        return []
    if request.system_override is not None:
        raise ArgumentError("system_override: the agent asks no model here; remove it", "system_override")
    return ["system_append"]


def _apply(llm: Any, parameters: Parameters, by_default: frozenset[str], tools: Collection[str]) -> list[str]:
    """Let an LLM be asked so; what it does not take. No caller is refused for what only the definition says."""
    left_out: list[str] = []
    while True:
        try:
            return [*left_out, *apply_parameters(llm, parameters, tools)]
        except ArgumentError as error:
            name = error.field
            if name is None or name not in by_default:
                raise
            by_default -= {name}
            left_out.append(name)
            parameters = Parameters(
                values={key: value for key, value in parameters.values.items() if key != name},
                extra={} if name == "extra" else parameters.extra,
            )


async def _tools(agent: Any, parameters: Parameters) -> list[str]:
    """The names of the agent's tools, where a parameter is about them."""
    choice = parameters.values.get("tool_choice")
    if (
        choice != "required"
        and not isinstance(choice, Function)
        and "parallel_tool_calls" not in parameters.values
    ):
        return []
    return [str(tool.name) for tool in (await agent.list_tools()).tools]


def _for_nobody(parameters: Parameters) -> list[str]:
    """What is left out where no model is asked here: an agent on another machine, say, has its own."""
    given = [name for name, value in parameters.values.items() if value is not None]
    for name in (*given, *(("extra",) if parameters.extra else ())):
        if name not in HINTS:
            raise ArgumentError(f"{name}: the agent asks no model here; remove it", name)
    return given
