"""What a caller asks of the model's choice of tools: obeyed with the requests that offer some.

Knows fast-agent's LLMs; must not know what a provider is able to do (see `fates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.parameters import Function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fast_agent.types import PromptMessageExtended, RequestParams


@dataclass(slots=True)
class ToolRules:
    """What is asked for."""

    choice: object = None
    """`required`, or a `Function`; for the first request alone, since the model would never come to an answer."""
    one_at_a_time: bool = False


def obey(llm: Any, rules: ToolRules) -> None:
    """Let the LLM's requests follow the rules from now on."""
    if rules.choice is None and not rules.one_at_a_time:
        return
    generate = llm.generate
    anthropic = llm.provider.config_name.startswith("anthropic")
    responses = hasattr(llm, "RESPONSES_EXCLUDE_FIELDS")

    async def ruled(
        messages: Sequence[PromptMessageExtended],
        request_params: RequestParams | None = None,
        tools: Sequence[Any] | None = None,
    ) -> Any:
        if tools:
            params = llm.get_request_params(request_params)
            choice, rules.choice = rules.choice, None
            update: dict[str, Any] = {}
            if isinstance(choice, str):
                update["sampling_tool_choice"] = choice
            body = _body(choice, rules.one_at_a_time, params.sampling_tool_choice, anthropic, responses)
            if body:
                metadata = dict(params.metadata or {})
                update["metadata"] = {
                    **metadata,
                    "extra_body": {**(metadata.get("extra_body") or {}), **body},
                }
            request_params = params.model_copy(update=update)
        return await generate(messages, request_params, tools)

    llm.generate = ruled


def _body(
    choice: object, one_at_a_time: bool, otherwise: str | None, anthropic: bool, responses: bool
) -> dict[str, Any]:
    """What the request's body has to say."""
    if not anthropic:
        body: dict[str, Any] = {"parallel_tool_calls": False} if one_at_a_time else {}
        if isinstance(choice, Function):
            named = {"name": choice.name}
            body["tool_choice"] = {"type": "function", **(named if responses else {"function": named})}
        return body
    if otherwise == "none" or (not one_at_a_time and not isinstance(choice, Function)):
        return {}
    said: dict[str, Any] = {"type": "any" if choice == "required" else "auto"}
    if isinstance(choice, Function):
        said = {"type": "tool", "name": choice.name}
    return {"tool_choice": {**said, **({"disable_parallel_tool_use": True} if one_at_a_time else {})}}
