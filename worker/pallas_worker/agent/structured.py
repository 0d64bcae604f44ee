"""An agent's answer as JSON that fits a schema: asked for, checked here, and asked for again where it does not fit.

fast-agent's own check is not used: it fetches what a schema refers to, runs patterns without a bound, and says neither
what was wrong nor that anything was. Knows conversations; must not know calls or surfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fast_agent.types import LlmStopReason, PromptMessageExtended
from mcp_types import TextContent

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.agent.output_schema.errors import MisfitError
from pallas_worker.agent.models.agent_kinds import converses
from pallas_worker.fastagent.structured import holding
from pallas_worker.interface.errors import CallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pallas_common.protocol.agent.output_schema.schema import OutputSchema, Structured
    from pallas_worker.agent.instance import Instance
    from pallas_worker.agent.progress import Progress

RETRIES = 2
"""How often a model is told what is wrong with its answer."""

_log = get_logger("pallas.worker.structured")


async def structured_answer(
    instance: Instance,
    schema: OutputSchema,
    first: Callable[[Mapping[str, Any]], Awaitable[PromptMessageExtended]],
    message: PromptMessageExtended,
    progress: Progress,
) -> tuple[Structured | None, PromptMessageExtended]:
    """The answer that fits, and the message that it is; None for it where the turn is held before tool calls.

    Args:
        instance: whom to ask.
        schema: what the answer has to fit.
        first: asks for the turn's answer, with fields of fast-agent's `RequestParams`.
        message: what the turn begins with.
        progress: is told of tools.

    Raises:
        CallError: no answer fits, or the LLM gave none.
    """
    agent = instance.agent
    if not converses(agent):
        return await _written_down(instance, schema, await first({}))
    held = holding(agent.llm, schema)
    if held.instruction:
        agent.set_instruction(f"{agent.instruction}\n\n{held.instruction}")
    answer = await first(held.params)
    turn = list(agent.last_turn_messages)
    said = [message, answer]

    async def again(correction: PromptMessageExtended) -> PromptMessageExtended:
        before = () if agent.config.use_history else tuple(said)
        corrected = await instance.generate(correction, progress, held.params, before)
        said.extend((correction, corrected))
        return corrected

    structured, answer = await _until_it_fits(instance, schema, answer, again)
    if structured is not None and turn:
        # What was asked again is no part of the conversation: it goes on as if the answer had fitted at once.
        instance.turn = [*turn[:-1], answer]
    return structured, answer


async def _written_down(
    instance: Instance, schema: OutputSchema, answer: PromptMessageExtended
) -> tuple[Structured | None, PromptMessageExtended]:
    """What agents have said together, as JSON: a model of theirs is asked for it, without tools."""
    llm = instance.writer
    try:
        return schema.check(answer.all_text()), answer
    except MisfitError as error:
        if llm is None:
            raise CallError(f"the answer does not fit its schema:\n{error}") from None
    held = holding(llm, schema)
    said: list[PromptMessageExtended] = []

    async def again(request: PromptMessageExtended) -> PromptMessageExtended:
        said.append(request)
        said.append(written := await instance.written(llm, said, held.params))
        return written

    request = "Write the answer below as JSON, without adding anything to what it says."
    request = "\n\n".join(filter(None, (request, held.instruction, answer.all_text())))
    return await _until_it_fits(instance, schema, await again(_user(request)), again)


async def _until_it_fits(
    instance: Instance,
    schema: OutputSchema,
    answer: PromptMessageExtended,
    again: Callable[[PromptMessageExtended], Awaitable[PromptMessageExtended]],
) -> tuple[Structured | None, PromptMessageExtended]:
    for left in reversed(range(RETRIES + 1)):
        if instance.held:
            return None, answer
        try:
            structured = schema.check(answer.all_text())
        except MisfitError as error:
            cut = answer.stop_reason is LlmStopReason.MAX_TOKENS
            wrong = f"{error}\n- it was cut off where max_tokens ended it" if cut else str(error)
            if not left:
                raise CallError(
                    f"the answer does not fit its schema, after {RETRIES} corrections:\n{wrong}"
                ) from None
            _log.warning(f"the answer does not fit its schema and is asked for again:\n{wrong}")
        else:
            text = TextContent(type="text", text=structured.text)
            return structured, answer.model_copy(update={"content": [text]})
        answer = await again(
            _user(
                f"Your answer does not fit the JSON Schema that it has to fit:\n{wrong}\n\n"
                "Answer again, with the whole corrected JSON and nothing else."
            )
        )
    raise AssertionError


def _user(text: str) -> PromptMessageExtended:
    return PromptMessageExtended(role="user", content=[TextContent(type="text", text=text)])
