"""The messages of a thread as a conversation: who said what, with the calls of tools folded. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_common.http.html import Html, join, tag
from pallas_common.http.json_bounds import read_json
from pallas_common.problems import counted
from pallas_common.protocol.agent.incomplete import SENTENCES
from pallas_gateway.http.pages.view.calls import CallView, call_view
from pallas_gateway.http.pages.view.markdown import markdown
from pallas_gateway.http.pages.view.text import moment, plain
from pallas_gateway.store.conversations.records import LEFT_OUT, REPLACED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pallas_common.http.html import Child
    from pallas_common.protocol.agent.incomplete import Reason
    from pallas_gateway.store.conversations.records import Message, ToolCall

LONGEST = 100_000
"""Characters of a person's message that are shown."""

_SET_ASIDE = (REPLACED, LEFT_OUT)


def conversation(messages: Sequence[Message], *, thread: str, agent: str, running: str | None) -> Html:
    """The messages in their order, those of one answer together.

    Args:
        thread: its id.
        agent: what the agent is called.
        running: the turn that is under way: its answer comes by another way.
    """
    return join(_said(group, thread, agent) for group in _groups(messages) if not _is_live(group, running))


def _is_live(group: Sequence[Message], running: str | None) -> bool:
    return group[0].turn == running and group[0].row.role != "user"


def _groups(messages: Sequence[Message]) -> Iterable[Sequence[Message]]:
    """Messages of the same speaker in the same turn, what is set aside apart from what counts."""
    groups: list[list[Message]] = []
    for message in messages:
        if not groups or _key(groups[-1][-1]) != _key(message):
            groups.append([])
        groups[-1].append(message)
    return groups


def _key(message: Message) -> tuple[str, str, bool]:
    role = message.row.role
    speaker = "assistant" if role == "tool" else role
    return message.turn, speaker, message.error in _SET_ASIDE


def _said(group: Sequence[Message], thread: str, agent: str) -> Html:
    first = group[0]
    match first.row.role:
        case "user" if first.error in _SET_ASIDE:
            return join()  # it is asked again below
        case "user":
            return join(_article(each, "you", "You", _asked(each, thread)) for each in group)
        case "system":
            return join(_article(each, "system", "System", plain(each.row.text, LONGEST)) for each in group)
    answer = _answer(group)
    if first.error in _SET_ASIDE:
        return tag("details", tag("summary", "An earlier answer"), tag("div", answer), class_="aside")
    return _article(first, "answer", agent, answer, _failure(group))


def _article(message: Message, class_: str, who: str, *content: Child) -> Html:
    return tag(
        "article",
        tag("h2", who, " ", moment(message.created)),
        *content,
        class_=f"said {class_}",
        id=f"m{message.turn_index}",
    )


def _asked(message: Message, thread: str) -> Child:
    images = [
        tag(
            "img",
            src=f"chat/image?thread={thread}&index={message.turn_index}&part={part}",
            alt="Image in the message",
            loading="lazy",
        )
        for part in image_parts(message)
    ]
    text = message.row.text
    return (plain(text, LONGEST) if text else None, tag("p", *images, class_="images") if images else None)


def image_parts(message: Message) -> list[int]:
    """Which parts of a message are images, by their index."""
    content = message.row.content
    if not isinstance(content, list):
        return []
    return [index for index, part in enumerate(content) if part.get("type") == "image_url"]


def without_images(message: Message) -> Message:
    """The message with the places of its images, and without what they hold: a page fetches each by itself."""
    content = message.row.content
    if not image_parts(message) or not isinstance(content, list):
        return message
    shown = [{"type": "image_url"} if part.get("type") == "image_url" else part for part in content]
    return replace(message, row=replace(message.row, content=shown))


def _answer(group: Sequence[Message]) -> Child:
    results = {each.row.tool_call_id: each for each in group if each.row.role == "tool"}
    shown: list[Child] = []
    for message in group:
        if message.row.role != "assistant":
            continue
        if message.row.text.strip():
            shown.append(tag("div", markdown(message.row.text), dir="auto"))
        shown += [_call(call, results) for call in message.row.tool_calls]
    return shown


def _call(call: ToolCall, results: Mapping[str | None, Message]) -> Html:
    result = results.get(call.id)
    # A result that was begun and never came is kept as failed, empty.
    is_known = result is not None and (result.status == "complete" or bool(result.row.text))
    return call_view(
        CallView(
            call.id,
            call.name,
            "",
            _arguments(call.arguments),
            None if result is None or not is_known else not result.row.is_error,
            "" if result is None else result.row.text,
        ),
        waits=result is not None and result.status == "pending",
    )


def _arguments(text: str) -> Mapping[str, object] | str:
    try:
        found = read_json(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _failure(group: Sequence[Message]) -> Html | None:
    why = next((each.error for each in reversed(group) if each.status == "error"), None)
    if why is None:
        reason = _incomplete(group[-1])
        if reason is not None:
            return tag("p", f"{SENTENCES[reason].capitalize()}.", class_="failure")
        return _less(group[-1])
    words = "You stopped this answer." if why == "stopped" else f"There is no whole answer: {why}"
    return tag("p", words, class_="failure")


def _incomplete(last: Message) -> Reason | None:
    """Why an answer that has ended with this message is not a whole one; None where it is, or nobody knows."""
    if last.status != "complete":
        return None
    if last.row.role == "tool" or last.row.tool_calls:
        return "max_iterations"
    return None if last.row.text.strip() or image_parts(last) else "empty"


def _less(last: Message) -> Html | None:
    """That the model was not given the whole conversation; None where it was."""
    turns = (last.row.state or {}).get("turns_left_out")
    if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1:
        return None
    said = f"The conversation was too long for the model, which has not seen its oldest {counted(turns, 'turn')}."
    return tag("p", said, class_="failure")
