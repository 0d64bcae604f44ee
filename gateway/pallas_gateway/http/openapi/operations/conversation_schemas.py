"""JSON Schemas (2020-12) of threads, messages and turns. Pure."""

from __future__ import annotations

from typing import Any

from pallas_common.protocol.agent.incomplete import SENTENCES
from pallas_common.protocol.agent.parameters import MAX_STOPS, PARAMETERS
from pallas_gateway.http.openapi.operations.shapes import moment, nullable, record, ref, several, text

type Json = dict[str, Any]

_THING: Json = {"type": "object"}
_TRUTH: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}


def _number(low: float, high: float) -> Json:
    return {"type": ["number", "null"], "minimum": low, "maximum": high}


CHAT_FIELDS: Json = {
    "message": text("What the user says now"),
    "messages": several(
        _THING,
        "The whole conversation as chat completions have it, for the thread's; the last is the new turn",
    ),
    "retry": {**_TRUTH, "description": "Take the last turn of the thread again"},
    "images": several(text("As `data:image/png;base64,…`"), "With the message"),
    "threadId": text("Go on with this thread; a new one is made without"),
    "stream": _TRUTH,
    "onBusy": text(
        "Where another turn of the thread is under way; `refuse` unless said: 409", enum=["wait", "refuse"]
    ),
    **{name: {} for name in PARAMETERS},
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": {"type": ["integer", "null"], "minimum": 1},
    "max_tokens": {"type": ["integer", "null"], "minimum": 1},
    "stop": {
        "anyOf": [
            {"type": ["string", "null"]},
            {"type": "array", "items": {"type": "string"}, "maxItems": MAX_STOPS},
        ]
    },
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "seed": {"type": ["integer", "null"]},
    "response_format": {"type": ["object", "null"]},
    "tool_choice": {"type": ["string", "object", "null"]},
    "tools_allowlist": {
        "type": ["array", "null"],
        "items": {"type": "string"},
        "description": "The tools that may be called, as `search__*`",
    },
    "systemOverride": nullable(text("In place of the agent's instruction")),
    "systemAppend": nullable(text("Behind the agent's instruction")),
    "modelOverride": nullable(text("Another llm, of those that the agent lists below `models`")),
    "extra": {"type": ["object", "null"], "description": "For the body of the provider's request"},
}

_ENDING: Json = {
    "status": text("There is no whole answer", enum=["incomplete"]),
    "reason": text("Why there is none", enum=list(SENTENCES)),
}

CONVERSATION_SCHEMAS: dict[str, Json] = {
    "Thread": record(
        {
            "id": text(),
            "agent": text("Name of the agent"),
            "title": text(),
            "createdAt": moment(""),
            "lastTurnAt": nullable(moment("End of its last turn")),
        }
    ),
    "Message": record(
        {
            "threadId": text(),
            "turnIndex": {**_COUNT, "description": "Place in the thread, from 0, without gaps"},
            "role": text(enum=["system", "user", "assistant", "tool"]),
            "content": text(),
            "toolCalls": {"anyOf": [several(ref("ToolCall")), {"type": "null"}]},
            "toolCallId": nullable(text("Which call this is the result of")),
            "status": text(enum=["pending", "complete", "error"]),
            "createdAt": moment(""),
            "parts": several(_THING, "The content with its images, as chat completions have it"),
            "isError": {**_TRUTH, "description": "The tool has failed"},
            "error": text("Why the status is `error`"),
        },
        "parts",
        "isError",
        "error",
    ),
    "ToolCall": record(
        {
            "id": text(),
            "name": text("`server__tool`"),
            "arguments": {"description": "An object; the text itself where it is none"},
        }
    ),
    "Chunk": {
        "oneOf": [
            record({"type": {"const": "text"}, "delta": text()}),
            record({"type": {"const": "tool_call"}, "toolName": text(), "args": _THING}),
            record({"type": {"const": "tool_result"}, "toolName": text(), "ok": _TRUTH}),
            record(
                {"type": {"const": "reset"}, "characters": _COUNT},
                description="So many characters of the text told last are void",
            ),
            record(
                {"type": {"const": "final"}, "threadId": text(), "turnIndex": _COUNT, **_ENDING},
                "status",
                "reason",
            ),
            record({"type": {"const": "error"}, "message": text()}),
        ]
    },
    "Answer": record(
        {
            "threadId": text(),
            "turnIndex": {**_COUNT, "description": "Of the last message"},
            "content": text(),
            "toolCalls": several(ref("ToolCall"), "All calls of the turn"),
            "usage": {**_THING, "description": "Tokens, as chat completions count them"},
            **_ENDING,
        },
        "status",
        "reason",
    ),
    "ChatBody": {
        "type": "object",
        "description": "One of `message`, `messages`, `images` and `retry`, and how the model is to answer "
        "(docs/parameters.md); `null` clears what the agent's `defaultParams` say",
        "properties": CHAT_FIELDS,
        "additionalProperties": False,
    },
}
