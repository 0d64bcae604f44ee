"""A chat request in the words of the REST API: checked, and put into those of a worker's chat completions. Pure.

What only the worker knows is its to check: which tools there are, what the model's provider has, what images hold.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

from pallas_common.problems import kind_of
from pallas_common.protocol.agent.completion import overriding, read_fields
from pallas_common.protocol.agent.images import MAX_IMAGES
from pallas_common.protocol.agent.parameters import PARAMETERS, ParameterError, parse_parameters
from pallas_gateway.conversations.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

type Json = dict[str, object]

OnBusy = Literal["wait", "refuse"]

OVERRIDES = {"systemOverride": "system_override", "modelOverride": "model_override", "extra": "extra"}
"""Fields that change what the agent's definition says: name here → name at the worker, which wants its key for them."""
_RENAMED = {**OVERRIDES, "systemAppend": "system_append"}
_PASSED = (*PARAMETERS, "response_format", "tools_allowlist", *_RENAMED)
_OWN = ("message", "messages", "retry", "images", "threadId", "stream", "onBusy")
FIELDS = (*_OWN, *_PASSED)
"""All fields of a request."""

MAX_MESSAGES = 10_000
LONGEST_TITLE = 80
"""Characters of a title that is made of the first message."""

_THEIRS = {theirs: ours for ours, theirs in _RENAMED.items()}
_MESSAGE = re.compile(r"messages\[(?P<index>\d+)\](?P<rest>.*)")
_IMAGE = re.compile(r"\.content\[(?P<index>\d+)\].*")


class ChatRequest(NamedTuple):
    """What is asked of an agent."""

    message: Json | None
    """The user's new message, as a message of chat completions; None where the conversation is gone on with, or where
    the last turn is taken again."""
    messages: tuple[Json, ...] | None
    """The whole conversation in place of the thread's, the new message at its end; None for the thread's."""
    fields: Json
    """Of the worker's request, besides the model and the messages."""
    needs_key: bool
    """Whether the worker wants its key for them."""
    ignored: tuple[str, ...]
    """Names of fields that nobody reads."""
    redo: bool
    """The thread's last turn is taken again."""
    on_busy: OnBusy
    thread: str | None
    stream: bool

    @property
    def title(self) -> str:
        """What a thread that begins with it is called: the first line of its text."""
        return title_of(text_of(self.message.get("content"))) if self.message is not None else ""


def read_request(body: Mapping[str, object]) -> ChatRequest:
    """The request that a body says.

    Raises:
        RequestError: a field is missing, malformed or out of its range, or asks for what an agent does not give.
    """
    try:
        body, ignored = read_fields(body, FIELDS, (*_OWN, *_RENAMED, "tools_allowlist"))
        parse_parameters({name: body[name] for name in body if name in PARAMETERS or name == "extra"})
    except ParameterError as error:
        raise RequestError(error.field, str(error)) from None
    for name in ("systemOverride", "systemAppend", "modelOverride"):
        _optional_text(body, name)
    on_busy = body.get("onBusy")
    if on_busy is not None and on_busy not in ("wait", "refuse"):
        _refuse("onBusy", 'must be "wait" or "refuse"')
    redo = _truth(body, "retry")
    thread = _optional_text(body, "threadId")
    message, messages = _asked(body, redo=redo)
    if redo and thread is None:
        _refuse("threadId", "is required with `retry`: the thread whose last turn is taken again")
    return ChatRequest(
        message=message,
        messages=messages,
        fields={_RENAMED.get(name, name): body[name] for name in _PASSED if name in body},
        needs_key=overriding(body, OVERRIDES) is not None,
        ignored=ignored,
        redo=redo,
        on_busy=on_busy or "refuse",
        thread=thread,
        stream=_truth(body, "stream"),
    )


def field_of(theirs: str | None, new: int) -> str | None:
    """The field of a request that the worker complains about.

    Args:
        theirs: its `param`.
        new: index of the user's new message among those that it got.
    """
    if theirs is None:
        return None
    found = _MESSAGE.fullmatch(theirs)
    if found is None:
        head = re.split(r"[.\[]", theirs, maxsplit=1)[0]
        return _THEIRS.get(head, head) + theirs.removeprefix(head)
    if int(found["index"]) != new:
        return theirs
    image = _IMAGE.fullmatch(found["rest"])
    return f"images[{max(int(image['index']) - 1, 0)}]" if image is not None else "message"


def text_of(content: object) -> str:
    """The text of a message's content, its texts with a blank line between them."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def title_of(text: str) -> str:
    """The first line that says something, cut where it is long."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = "".join(character if character.isprintable() else " " for character in line[: 4 * LONGEST_TITLE])
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"


def _asked(body: Mapping[str, object], *, redo: bool) -> tuple[Json | None, tuple[Json, ...] | None]:
    message, images, messages = body.get("message"), body.get("images"), body.get("messages")
    if redo:
        for name in ("message", "images", "messages"):
            if body.get(name) is not None:
                _refuse(
                    name, "cannot be given with `retry`, which asks again what was asked; remove one of them"
                )
        return None, None
    if messages is not None:
        if images is not None:
            _refuse("images", "cannot be given with `messages`; put them into its last message")
        return _conversation(messages)
    if message is None and images is None:
        _refuse("message", "is required: a text; or `messages`, the whole conversation")
    if message is not None and not isinstance(message, str):
        _refuse("message", f"must be a string, not {kind_of(message)}")
    parts = _images(images)
    text = message if isinstance(message, str) else ""
    if not text.strip() and not parts:
        _refuse("message", "is empty")
    if not parts:
        return {"role": "user", "content": text}, None
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}, None


def _conversation(messages: object) -> tuple[Json | None, tuple[Json, ...]]:
    if not isinstance(messages, list):
        _refuse("messages", f"must be a list of messages, not {kind_of(messages)}")
    if not 0 < len(messages) <= MAX_MESSAGES:
        _refuse("messages", f"has {len(messages)} messages; 1 to {MAX_MESSAGES} are allowed")
    for index, each in enumerate(messages):
        if not isinstance(each, dict):
            _refuse(f"messages[{index}]", f"must be an object, not {kind_of(each)}")
    last = messages[-1]
    return (last if last.get("role") == "user" else None), tuple(messages)


def _images(value: object) -> list[Json]:
    if value is None:
        return []
    if not isinstance(value, list):
        _refuse("images", f"must be a list of data URLs, not {kind_of(value)}")
    if len(value) > MAX_IMAGES:
        _refuse("images", f"has {len(value)} images; {MAX_IMAGES} are allowed")
    for index, url in enumerate(value):
        if not isinstance(url, str) or not url.startswith("data:image/"):
            _refuse(
                f"images[{index}]", "must be a data URL, as `data:image/png;base64,…`: nothing is fetched"
            )
    return [{"type": "image_url", "image_url": {"url": url}} for url in value]


def _optional_text(body: Mapping[str, object], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        _refuse(name, f"must be a string, not {kind_of(value)}")
    return value


def _truth(body: Mapping[str, object], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        _refuse(name, f"must be true or false, not {kind_of(value)}")
    return value is True


def _refuse(field: str, complaint: str) -> NoReturn:
    raise RequestError(field, f"{field}: {complaint}")
