"""The lists of a server: read page by page, bounded in number and size, and checked for what others rely on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pallas_common.logs.setup import get_logger
from pallas_common.problems import quoted
from pallas_gateway.relay.http.errors import WrongAnswerError
from pallas_gateway.relay.messages.model import ServerError

if TYPE_CHECKING:
    from pallas_gateway.relay.messages.model import Json, Link, ListName

_log = get_logger("pallas.gateway.relay")

MOST_PAGES = 100
MOST_ENTRIES = 2_000
MOST_BYTES = 8 * 1024 * 1024
"""Of one list as JSON."""
LONGEST_NAME = 200
"""Characters of a tool's or prompt's name."""
LONGEST_URI = 4_000
LIST_TIMEOUT = 30.0
"""Seconds for each page."""
_METHOD_NOT_FOUND = -32601


class _List(NamedTuple):
    method: str
    field: str
    """Of the result."""
    key: str
    """What an entry is called by."""
    capability: str
    changed: str


LISTS: Final[dict[ListName, _List]] = {
    "tools": _List("tools/list", "tools", "name", "tools", "notifications/tools/list_changed"),
    "prompts": _List("prompts/list", "prompts", "name", "prompts", "notifications/prompts/list_changed"),
    "resources": _List(
        "resources/list", "resources", "uri", "resources", "notifications/resources/list_changed"
    ),
    "templates": _List(
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        "resources",
        "notifications/resources/list_changed",
    ),
}


async def read_list(link: Link, name: ListName) -> list[Json]:
    """All entries of one list that can be used, in the server's order.

    Raises:
        RelayError, ServerError: it cannot be read, or does not end.
    """
    kind = LISTS[name]
    found: dict[str, Json] = {}
    left_out, first = 0, ""
    size = 0
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        params: Json = {} if cursor is None else {"cursor": cursor}
        try:
            result = await link.request(kind.method, params, timeout=LIST_TIMEOUT)
        except ServerError as error:
            if error.code == _METHOD_NOT_FOUND:  # it has resources, and no templates
                return []
            raise
        entries = result.get(kind.field)
        if not isinstance(entries, list):
            raise WrongAnswerError(f"its answer to {kind.method} has no list of {kind.field}")
        for entry in entries:
            if (complaint := _complaint(name, kind, entry)) is not None:
                left_out, first = left_out + 1, first or complaint
                continue
            key = entry[kind.key]
            if key in found:
                continue
            size += len(json.dumps(entry))
            found[key] = entry
            if len(found) > MOST_ENTRIES or size > MOST_BYTES:
                raise WrongAnswerError(
                    f"it has more {name} than are taken ({MOST_ENTRIES}, {MOST_BYTES // 1024**2} MiB)"
                )
        cursor = result.get("nextCursor")
        if cursor is None:
            if left_out:
                _log.warning(f"{left_out} of its {name} are left out: the first has {first}")
            return [_named(key, entry) for key, entry in found.items()]
        if not isinstance(cursor, str) or cursor in seen or len(cursor) > LONGEST_URI:
            raise WrongAnswerError(f"its pages of {name} do not end")
        seen.add(cursor)
    raise WrongAnswerError(f"its {name} have more than {MOST_PAGES} pages")


def _named(key: str, entry: Json) -> Json:
    """The entry with a name, which clients take for granted."""
    return entry if isinstance(entry.get("name"), str) else entry | {"name": key}


def _complaint(name: ListName, kind: _List, entry: Any) -> str | None:
    """Why the entry cannot be shown; None if it can."""
    key = entry.get(kind.key) if isinstance(entry, dict) else None
    longest = LONGEST_NAME if kind.key == "name" else LONGEST_URI
    if not isinstance(key, str) or not key or len(key) > longest or not key.isprintable():
        return f"no usable {kind.key}"
    if name == "tools" and not isinstance(entry.get("inputSchema"), dict):
        return f"no input schema ({quoted(key)})"
    return None
