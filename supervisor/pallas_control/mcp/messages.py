"""What is sent to an agent and what comes back: one JSON-RPC request, notifications of its progress, its result.

Pure. Knows the shapes of MCP 2026-07-28 that `send_message` needs (docs/clients.md); nothing of HTTP beyond headers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeGuard

from pallas_common import __version__
from pallas_common.problems import shortened
from pallas_control.mcp.errors import RefusedCallError, WrongAnswerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REVISION = "2026-07-28"
TOOL = "send_message"

HEADERS: Mapping[str, str] = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": REVISION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": TOOL,
}

LONGEST_MESSAGE = 4_000
"""Characters that are kept of an error's message and of a progress message."""

MOST_CONTAINERS = 1_000_000
"""Brackets and braces in a message, those in its texts included: two bytes can become an object of a hundred."""

_ID = 1
"""Of the request, and its progress token: a connection carries one call."""


class ImageDocument(TypedDict):
    """An image as `send_message` takes it; `data` is base64."""

    data: str
    mime_type: str


class Row(TypedDict):
    """One earlier message of a conversation."""

    role: Literal["user", "assistant"]
    content: str
    images: list[ImageDocument]


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of `send_message`."""

    message: str
    images: Sequence[ImageDocument] = ()
    history: Sequence[Row] = ()
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What the agent does now; `total` equals `progress` when a tool has ended."""

    progress: float
    total: float | None
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call."""

    texts: tuple[str, ...]
    images: tuple[ImageDocument, ...] = field(default=(), repr=False)
    is_error: bool = False

    @property
    def text(self) -> str:
        """The last text; those before it are what the model said as it called tools. Empty if there is none."""
        return self.texts[-1] if self.texts else ""


def request_body(question: Question) -> bytes:
    """The call on the wire."""
    arguments: dict[str, Any] = {"message": question.message}
    if question.images:
        arguments["images"] = list(question.images)
    if question.history:
        arguments["history"] = list(question.history)
    if question.conversation_id is not None:
        arguments["conversation_id"] = question.conversation_id
    meta = {
        "progressToken": _ID,
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "pallasctl", "version": __version__},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": TOOL, "arguments": arguments, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": _ID, "method": "tools/call", "params": params}).encode()


def read_message(data: bytes) -> Progress | Answer | None:
    """What a message of the server says; None if it is not about this call.

    Raises:
        RefusedCallError: it is a JSON-RPC error.
        WrongAnswerError: it is no JSON object, or a result of another shape.
    """
    message = parse_object(data)
    if message is None:
        raise WrongAnswerError("what came is no JSON-RPC message")
    if "method" in message:
        return _progress(message)
    if (refused := error_message(message)) is not None:
        raise RefusedCallError(refused)
    return _answer(message.get("result")) if message.get("id") == _ID else None


def parse_object(data: bytes) -> dict[str, Any] | None:
    """A JSON object, or None if it is anything else.

    Raises:
        WrongAnswerError: it has more parts than any answer that makes sense.
    """
    if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS:
        raise WrongAnswerError("what came has more parts than any answer that makes sense")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def error_message(message: Mapping[str, Any]) -> str | None:
    """What a JSON-RPC error says, with its code where it says little; None if the message is none."""
    if "error" not in message:
        return None
    error = message["error"]
    text = error.get("message") if isinstance(error, dict) else None
    if isinstance(text, str) and text.strip():
        return shortened(_clean(text), LONGEST_MESSAGE)
    return "an error without a message"


def _progress(message: Mapping[str, Any]) -> Progress | None:
    params = message.get("params")
    if message["method"] != "notifications/progress" or not isinstance(params, dict):
        return None
    progress, total, text = params.get("progress"), params.get("total"), params.get("message")
    if params.get("progressToken") != _ID or not _is_number(progress):
        return None
    said = shortened(_clean(text), LONGEST_MESSAGE) if isinstance(text, str) else ""
    return Progress(progress, total if _is_number(total) else None, said)


def _answer(result: object) -> Answer:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(content, list):
        raise WrongAnswerError("the result has no content")
    if result.get("resultType", "complete") != "complete":
        raise WrongAnswerError(
            "the result is not complete: the agent asks for something that cannot be given here"
        )
    blocks = [block for block in content if isinstance(block, dict)]
    texts = [
        _clean(block["text"])
        for block in blocks
        if block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    images = [
        ImageDocument(data=block["data"], mime_type=_clean(block["mimeType"]))
        for block in blocks
        if block.get("type") == "image"
        and isinstance(block.get("data"), str)
        and isinstance(block.get("mimeType"), str)
    ]
    return Answer(tuple(texts), tuple(images), result.get("isError") is True)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _clean(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can express and no encoding can write."""
    return text.encode("utf-8", "backslashreplace").decode()
