"""The tool `chat` with a thread: what it takes, and what it answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.incomplete import SENTENCES
from pallas_gateway.conversations.errors import BusyError, NoSuchThreadError, RequestError, TurnFailedError
from pallas_gateway.mcp.errors import INTERNAL_ERROR, INVALID_PARAMS
from pallas_gateway.mcp.surface import McpError
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_gateway.conversations.turn import Result
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.mcp.surface import ClientRequest
    from pallas_gateway.servers.chat.turns import ThreadTurns
    from pallas_gateway.store.conversations.records import Thread

type Json = dict[str, Any]

NEW = "new"
"""As `thread`: the message begins one."""
THREAD_META = "pallas/thread"
"""Where the result's `_meta` says the thread."""

CHAT_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to say to the agent."},
        "images": {
            "type": "array",
            "description": "Images attached to this turn only. Requires a vision-capable model.",
            "items": {
                "type": "object",
                "properties": {
                    "data": {"type": "string", "description": "The image, base64."},
                    "mime_type": {"type": "string"},
                },
                "required": ["data", "mime_type"],
            },
        },
        "thread": {
            "type": "string",
            "description": "Goes on with a conversation: its id; `new` begins one and tells its id. Without it the "
            "agent remembers nothing.",
        },
    },
    "required": ["message"],
}
_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_DATA_URL = re.compile(r"data:(?P<type>image/[a-z0-9.+-]{1,40});base64,(?P<data>[A-Za-z0-9+/=\s]*)")


async def chat_in_thread(
    turns: ThreadTurns, agent: AgentRecord, arguments: Mapping[str, Any], request: ClientRequest
) -> Json:
    """The result of a call with `thread`.

    Raises:
        McpError: an argument is wrong, there is no such thread for the principal, or nothing can be kept.
    """
    said = arguments["thread"]
    body = {"message": arguments["message"], "images": _data_urls(arguments.get("images"))}
    try:
        thread = None
        if said != NEW:
            thread = await turns.own(request.principal, agent, said) if _is_id(said) else None
            if thread is None:
                raise _invalid("thread", f"there is no thread {str(said)[:80]!r} of yours with this agent")
        running, result = await turns.run(request, agent, body, thread)
    except RequestError as error:
        raise _invalid(error.field, str(error)) from None
    except NoSuchThreadError as error:
        raise _invalid("thread", str(error)) from None
    except StoreError as error:
        raise McpError(INTERNAL_ERROR, str(error), {"type": error.type}, status=error.status) from None
    except (BusyError, TurnFailedError) as error:
        return _result([_text(str(error))], thread, is_error=True)
    content = [_text(result.content)] if result.content or result.reason is None else []
    content += _images(result)
    nothing = not content
    if result.reason is not None and (nothing or result.reason != "max_tokens"):
        content.append(_text(f"[{SENTENCES[result.reason]}]"))
    if thread is None:
        # For a model, which sees nothing but this.
        content.append(_text(f"(thread {running.thread.id}: name it as `thread` to go on)"))
    found = _result(content, running.thread, is_error=nothing)
    if result.reason is not None:
        found["_meta"] |= {"pallas/status": "incomplete", "pallas/reason": result.reason}
    return found


def _result(content: list[Json], thread: Thread | None, *, is_error: bool) -> Json:
    found: Json = {"content": content, "isError": is_error}
    if thread is not None:
        found["_meta"] = {THREAD_META: thread.id}
    return found


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _images(result: Result) -> list[Json]:
    """The images of the last message."""
    content = result.rows[-1].content if result.rows else None
    urls = [
        part["image_url"].get("url")
        for part in (content if isinstance(content, list) else ())
        if isinstance(part.get("image_url"), dict)
    ]
    found = [_DATA_URL.fullmatch(url) for url in urls if isinstance(url, str)]
    return [
        {"type": "image", "data": each["data"], "mimeType": each["type"]}
        for each in found
        if each is not None
    ]


def _data_urls(images: object) -> list[str] | None:
    """Images of the tool's arguments, as the REST API takes them."""
    if images is None:
        return None
    if not isinstance(images, list):
        raise _invalid("images", "images: must be a list of images")
    urls = []
    for index, each in enumerate(images):
        data, kind = (each.get("data"), each.get("mime_type")) if isinstance(each, dict) else (None, None)
        if not isinstance(data, str) or not isinstance(kind, str):
            raise _invalid("images", f"images[{index}]: an image has `data`, base64, and `mime_type`")
        urls.append(f"data:{kind};base64,{data}")
    return urls


def _is_id(said: object) -> bool:
    return isinstance(said, str) and _ID.fullmatch(said) is not None


def _invalid(field: str, message: str) -> McpError:
    return McpError(INVALID_PARAMS, message, {"type": "invalid", "field": field})
