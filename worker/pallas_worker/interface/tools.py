"""The tools that a worker lists, and the arguments that they take.

Pure. Knows the client's interface document; must not know agents or transports. The MCP SDK's low-level
server checks no argument against a schema, so that this is the place where it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_types import Prompt, Tool

from pallas_common.protocol.agent.images import MIME_TYPES
from pallas_common.protocol.mcp.agent_tools import GET_HEALTH, SEND_MESSAGE
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import parse_history
from pallas_worker.interface.images import parse_images
from pallas_worker.interface.pairing import paired
from pallas_worker.interface.turn import TurnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_IMAGES_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "data": {"type": "string", "description": "The image, base64."},
            "mime_type": {"type": "string", "enum": list(MIME_TYPES)},
        },
        "required": ["data", "mime_type"],
    },
}

SEND_MESSAGE_SCHEMA = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The new user turn as plain text."},
        "images": _IMAGES_SCHEMA
        | {"description": "Images attached to this turn only. Requires a vision-capable model."},
        "history": {
            "type": "array",
            "description": "The conversation so far, in chronological order: the agent remembers nothing.",
            "items": {
                "type": "object",
                "properties": {
                    "role": {"type": "string", "enum": ["user", "assistant", "tool"]},
                    "content": {
                        "type": ["string", "array", "null"],
                        "description": "Text, or parts as chat completions have them.",
                    },
                    "images": _IMAGES_SCHEMA,
                    "tool_calls": {
                        "type": "array",
                        "description": "Of an assistant's row: the tools that it called, as in chat completions.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string"},
                                "type": {"const": "function"},
                                "function": {
                                    "type": "object",
                                    "properties": {
                                        "name": {"type": "string"},
                                        "arguments": {"type": "string", "description": "A JSON object."},
                                    },
                                    "required": ["name"],
                                },
                            },
                            "required": ["id", "function"],
                        },
                    },
                    "tool_call_id": {
                        "type": "string",
                        "description": "Of a row of role tool: the call whose result it is.",
                    },
                    "is_error": {"type": "boolean", "description": "Whether that call failed."},
                    "pallas": {"type": "object", "description": "As an earlier turn said it, unchanged."},
                },
                "required": ["role"],
            },
        },
        "conversation_id": {
            "type": "string",
            "description": "Opaque identifier, logged for trace correlation and for nothing else.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}

GET_HEALTH_SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}


def list_tools(
    agent: str, title: str, description: str, output: Mapping[str, object] | None = None
) -> tuple[Tool, ...]:
    """`send_message`, the same under the agent's name (LLMs pick tools by name), and `get_health`.

    Args:
        output: the JSON Schema that answers fit; MCP has it in a list of tools where it is one of objects.
    """
    structured = dict(output) if structures(output) and output is not None else None
    tools = [
        Tool(
            name=SEND_MESSAGE,
            title=f"Send a message to {title}",
            description=f"Send a message to the agent {title} and return its answer. {description}".strip(),
            input_schema=SEND_MESSAGE_SCHEMA,
            output_schema=structured,
        ),
        Tool(
            name=GET_HEALTH,
            description="Returns the health status of this agent and its downstream dependencies.",
            input_schema=GET_HEALTH_SCHEMA,
        ),
    ]
    if agent not in (SEND_MESSAGE, GET_HEALTH):
        tools.insert(
            1,
            Tool(
                name=agent,
                title=title,
                description=description,
                input_schema=SEND_MESSAGE_SCHEMA,
                output_schema=structured,
            ),
        )
    return tuple(tools)


def structures(output: Mapping[str, object] | None) -> bool:
    """Whether answers that fit this schema are structured content of a tool's result: objects, and nothing else."""
    return output is not None and output.get("type") == "object"


def history_prompt(agent: str) -> Prompt:
    """The prompt that older clients ask for; it never has any message."""
    return Prompt(
        name=f"{agent}_history",
        description="Always empty: the conversation's history lives on the client.",
        arguments=[],
    )


def parse_send_message(arguments: Mapping[str, object] | None) -> TurnRequest:
    """The arguments of a `send_message` call; an optional one that is null counts as absent.

    Raises:
        ArgumentError: an argument is missing, unknown or malformed; malformed history rows are no error.
    """
    arguments = arguments or {}
    known = SEND_MESSAGE_SCHEMA["properties"]
    _refuse_unknown(arguments, tuple(known) if isinstance(known, dict) else ())
    message = arguments.get("message")
    if not isinstance(message, str):
        raise ArgumentError("message is required and must be a string")
    conversation_id = arguments.get("conversation_id")
    if conversation_id is not None and not isinstance(conversation_id, str):
        raise ArgumentError("conversation_id must be a string")
    images = parse_images(arguments.get("images"))
    if not message and not images:
        raise ArgumentError("message is empty and there are no images")
    history = paired(parse_history(arguments.get("history")))
    return TurnRequest(message=message, images=images, history=history, conversation_id=conversation_id)


def refuse_arguments(arguments: Mapping[str, object] | None) -> None:
    """Check the arguments of a tool that takes none.

    Raises:
        ArgumentError: there is one.
    """
    _refuse_unknown(arguments or {}, ())


def _refuse_unknown(arguments: Mapping[str, object], known: tuple[str, ...]) -> None:
    unknown = [repr(name[:80]) for name in arguments if name not in known]
    if unknown:
        takes = f"known are {', '.join(known)}" if known else "this tool takes none"
        raise ArgumentError(f"unknown argument {', '.join(unknown[:5])}; {takes}")
