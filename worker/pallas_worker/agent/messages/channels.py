"""What a model's provider needs again of its own answers, in the channels in which fast-agent keeps it.

Knows the channels that fast-agent's converters read. What comes back from a client may be anything: a channel counts
where it is of a known name and form, and says what the row itself says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fast_agent.constants import (
    ANTHROPIC_ASSISTANT_RAW_CONTENT,
    ANTHROPIC_CONTAINER_CHANNEL,
    ANTHROPIC_SERVER_TOOLS_CHANNEL,
    ANTHROPIC_THINKING_BLOCKS,
    OPENAI_ASSISTANT_MESSAGE_ITEMS,
    OPENAI_COMPACTION_ITEMS,
    OPENAI_MCP_LIST_TOOLS_ITEMS,
    OPENAI_REASONING_ENCRYPTED,
    REASONING,
)
from fast_agent.llm.provider.openai.compaction_replay import parse_compaction_replay
from mcp_types import TextContent

from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.tool_calls import parse_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcp_types import ContentBlock

    from pallas_worker.interface.history import Row

    type Blocks = Sequence[Mapping[str, object]]

_THINKING = ("thinking", "redacted_thinking")
_RAW = (*_THINKING, "text", "tool_use", "server_tool_use", "mcp_tool_use", "compaction", "fallback")
"""The blocks of an Anthropic answer. Blocks that only a user may send, such as documents by URL, are not among them."""


_CONTAINED = {
    ANTHROPIC_ASSISTANT_RAW_CONTENT: (REASONING, ANTHROPIC_THINKING_BLOCKS, ANTHROPIC_SERVER_TOOLS_CHANNEL),
    OPENAI_REASONING_ENCRYPTED: (REASONING,),
}
"""Channel → those that are not read where it is there."""


def kept_channels(
    channels: Mapping[str, Sequence[ContentBlock]] | None,
) -> dict[str, tuple[str, ...]]:
    """Those of an answer's channels that its provider needs again, as texts."""
    kept = {}
    for name in _KNOWN:
        blocks = (channels or {}).get(name) or ()
        texts = tuple(block.text for block in blocks if isinstance(block, TextContent))
        if texts:
            kept[name] = texts
    for whole, contained in _CONTAINED.items():
        if whole in kept:
            kept = {name: texts for name, texts in kept.items() if name not in contained}
    return kept


def restored_channels(row: Row) -> tuple[dict[str, list[ContentBlock]], str | None]:
    """The channels of a row as fast-agent keeps them, and what is wrong with the first that is left out.

    All are left out if one is wrong: what a provider says of one answer belongs together.
    """
    found: dict[str, list[ContentBlock]] = {}
    for name, texts in row.channels.items():
        if name not in _KNOWN:
            return {}, f"pallas.channels has {name[:80]!r}, which is no channel of a provider"
        check = _KNOWN[name]
        try:
            fits = check is None or check(
                row, [parse_object(text, f"pallas.channels.{name}") for text in texts]
            )
        except ArgumentError as error:
            return {}, str(error)
        if not fits:
            return {}, f"pallas.channels.{name} is not what this row says"
        found[name] = [TextContent(type="text", text=text) for text in texts]
    return found, None


def _is_raw_answer(row: Row, blocks: Blocks) -> bool:
    """Whether the blocks of an Anthropic answer, which stand for the whole row, have its text and its calls."""
    if not all(
        block.get("type") in _RAW or str(block.get("type")).endswith("_tool_result") for block in blocks
    ):
        return False
    calls = [
        (block.get("id"), block.get("name"), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    return (
        calls == [tuple(call) for call in row.calls]
        and _says(row, texts)
        and all(_are_parts(block.get("citations")) for block in blocks)
        and all(_has_content(block) for block in blocks)
    )


def _has_content(block: Mapping[str, object]) -> bool:
    """Whether the result of a provider's own tool is an object of some type, or has such parts."""
    content = block.get("content")
    if block.get("type") in ("compaction", "mcp_tool_result") and isinstance(content, str):
        return True
    return _are_parts([content] if isinstance(content, dict) else content)


def _are_parts(value: object) -> bool:
    """Whether a block's own parts are objects of some type: Anthropic's client looks at them only as it writes them,
    and its error would be the call's.
    """
    return value is None or (
        isinstance(value, list)
        and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in value)
    )


def _are_messages(row: Row, items: Blocks) -> bool:
    """Whether the message items of a Responses answer have the row's text."""
    texts: list[object] = []
    for item in items:
        content = item.get("content")
        if item.get("type") != "message" or not isinstance(content, list):
            return False
        for part in content:
            match part:
                case {"type": "output_text", "text": text} | {"type": "refusal", "refusal": text}:
                    texts.append(text)
                case _:
                    return False
    return _says(row, texts)


def _says(row: Row, texts: Iterable[object]) -> bool:
    return "\n".join(text for text in texts if isinstance(text, str)) == row.content


def _of_types(*types: str) -> Callable[[Row, Blocks], bool]:
    return lambda _, blocks: all(block.get("type") in types for block in blocks)


def _have_ids(_: Row, items: Blocks) -> bool:
    return all(isinstance(item.get("id"), str) for item in items)


def _have_items(_: Row, envelopes: Blocks) -> bool:
    return all(isinstance(envelope.get("item"), dict) for envelope in envelopes)


def _are_checkpoints(_: Row, envelopes: Blocks) -> bool:
    return all(parse_compaction_replay(envelope) is not None for envelope in envelopes)


def _have_types(_: Row, blocks: Blocks) -> bool:
    return all(isinstance(block.get("type"), str) for block in blocks)


_KNOWN: Mapping[str, Callable[[Row, Blocks], bool] | None] = {
    REASONING: None,
    ANTHROPIC_THINKING_BLOCKS: _of_types(*_THINKING),
    ANTHROPIC_ASSISTANT_RAW_CONTENT: _is_raw_answer,
    ANTHROPIC_SERVER_TOOLS_CHANNEL: _have_types,
    ANTHROPIC_CONTAINER_CHANNEL: _have_ids,
    OPENAI_REASONING_ENCRYPTED: _have_items,
    OPENAI_ASSISTANT_MESSAGE_ITEMS: _are_messages,
    OPENAI_MCP_LIST_TOOLS_ITEMS: _of_types("mcp_list_tools"),
    OPENAI_COMPACTION_ITEMS: _are_checkpoints,
}
"""Channel → whether its texts, JSON objects all of them, belong to a row; None for plain words."""
