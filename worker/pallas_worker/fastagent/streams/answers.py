"""Every answer of every model as it can be kept and sent again: the one place where a model's words come in.

Texts, calls and channels have no characters that some writer of JSON, client or database refuses; a call has arguments
that a history may have.

Knows fast-agent's LLMs from inside; must not know calls of the worker, nor what is done with an answer.
"""

from __future__ import annotations

import functools
import json
import operator
from typing import TYPE_CHECKING, Any

from fast_agent.constants import ANTHROPIC_ASSISTANT_RAW_CONTENT
from fast_agent.llm.fastagent_llm import FastAgentLLM
from fast_agent.types import PromptMessageExtended
from mcp_types import TextContent

from pallas_common.http.json_bounds import whole_value
from pallas_worker.fastagent.tools.arguments import read_leniently, readable
from pallas_worker.fastagent.tools.results import whole_block

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp_types import CallToolRequest, ContentBlock

    type Execute = Callable[..., Awaitable[Any]]

_NAME = "_execute_with_retry"


def take_answers_whole() -> None:
    """Let all answers of this process pass here; again, it does nothing more."""
    own = vars(FastAgentLLM)[_NAME]
    if not hasattr(own, "__wrapped__"):
        setattr(FastAgentLLM, _NAME, _whole(own))


def _whole(own: Execute) -> Execute:
    @functools.wraps(own)
    async def execute_with_retry(llm: Any, *arguments: Any, **options: Any) -> Any:
        read_leniently()  # a provider is loaded at last with the call
        result = await own(llm, *arguments, **options)
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, PromptMessageExtended):
                make_whole(one)
        return result

    return execute_with_retry


def make_whole(message: PromptMessageExtended) -> None:
    """Replace what of a model's message cannot be kept as it is, in place."""
    message.content = [whole_block(block) for block in message.content]
    if message.tool_calls:
        message.tool_calls = readable(message.tool_calls)
    for name, blocks in (message.channels or {}).items():
        texts = _channel(name, blocks, message.tool_calls or {})
        if texts is not blocks and message.channels is not None:
            message.channels = {**message.channels, name: texts}


def _channel(
    name: str, blocks: Sequence[ContentBlock], calls: Mapping[str, CallToolRequest]
) -> Sequence[ContentBlock]:
    """The blocks of a channel: words, or objects of JSON, of which one that stands for the message has its calls."""
    whole: list[ContentBlock] = []
    for block in blocks:
        found = whole_block(block)
        if isinstance(found, TextContent):
            said = _as_called(found.text, calls) if name == ANTHROPIC_ASSISTANT_RAW_CONTENT else found.text
            if said is None:
                continue
            text = _unescaped(said)
            if text != found.text:
                found = found.model_copy(update={"text": text})
        whole.append(found)
    same = len(whole) == len(blocks) and all(map(operator.is_, whole, blocks))
    return blocks if same else whole


def _unescaped(text: str) -> str:
    """JSON without escapes of what cannot be kept; another text as it is."""
    if "\\ud" not in text.casefold() and "\\u0000" not in text:
        return text
    try:
        return json.dumps(whole_value(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _as_called(text: str, calls: Mapping[str, CallToolRequest]) -> str | None:
    """A block of an Anthropic answer, whose input is that of the call as it was read; None for one that is no call.

    Such as one that the end of the tokens has cut: Anthropic refuses a conversation in which it has no result.
    """
    if '"tool_use"' not in text:
        return text
    block = json.loads(text)
    if not isinstance(block, dict) or block.get("type") != "tool_use":
        return text
    call = calls.get(str(block.get("id")))
    if call is None:
        return None
    wanted = (call.params.arguments or {}, call.params.name)
    if (block.get("input"), block.get("name")) == wanted:
        return text
    return json.dumps({**block, "input": wanted[0], "name": wanted[1]})
