"""The lists of an MCP server: read page by page to their end, bounded in number and size, and checked.

Both who connects to a server for an agent and the gateway read by this code, so that they offer the same. Knows what a
list is in the protocol; must not know how a server is asked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pallas_common.problems import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

type Json = dict[str, Any]

ListName = Literal["tools", "prompts", "resources", "templates"]

MOST_PAGES = 100
MOST_ENTRIES = 2_000
MOST_BYTES = 8 * 1024 * 1024
"""Of one list as JSON."""
LONGEST_NAME = 200
"""Characters of a tool's or prompt's name."""
LONGEST_URI = 4_000
"""The same of a URI, and of a cursor."""


class ListKind(NamedTuple):
    """One of the lists that a server may have."""

    method: str
    field: str
    """Of the result."""
    key: str
    """What an entry is called by."""
    capability: str
    changed: str
    """The notification that tells of a change."""


LISTS: Final[dict[ListName, ListKind]] = {
    "tools": ListKind("tools/list", "tools", "name", "tools", "notifications/tools/list_changed"),
    "prompts": ListKind("prompts/list", "prompts", "name", "prompts", "notifications/prompts/list_changed"),
    "resources": ListKind(
        "resources/list", "resources", "uri", "resources", "notifications/resources/list_changed"
    ),
    "templates": ListKind(
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        "resources",
        "notifications/resources/list_changed",
    ),
}


class ListError(Exception):
    """A server's answer is no list."""


class Listing(NamedTuple):
    """What a server has listed."""

    entries: list[Json]
    """Those that can be used, in the server's order, each once."""
    cut: str | None = None
    """Why there are more than these; None where the list was read to its end."""
    unusable: str | None = None
    """How many entries are left out, and what is wrong with the first; None if all can be used."""

    @property
    def note(self) -> str:
        """What is missing, for people; empty where nothing is."""
        return "; ".join(part for part in (self.cut, self.unusable) if part)


async def read_list(name: ListName, ask: Callable[[str | None], Awaitable[Json]]) -> Listing:
    """Read a list to its end, or to the bounds of what is taken.

    Args:
        ask: gives the result of the list's method for a cursor, None for the first page; what it raises ends the
            reading.

    Raises:
        ListError: an answer has no list.
    """
    kind = LISTS[name]
    found: dict[str, Json] = {}
    left_out, first, size = 0, "", 0
    cursor: str | None = None
    seen: set[str] = set()
    cut: str | None = f"they have more than {MOST_PAGES} pages"
    for _ in range(MOST_PAGES):
        result = await ask(cursor)
        entries = result.get(kind.field)
        if not isinstance(entries, list):
            raise ListError(f"its answer to {kind.method} has no list of {kind.field}")
        for entry in entries:
            if (complaint := _complaint(name, kind, entry)) is not None:
                left_out, first = left_out + 1, first or complaint
                continue
            key = entry[kind.key]
            if key in found:
                continue
            size += len(json.dumps(entry))
            if len(found) >= MOST_ENTRIES or size > MOST_BYTES:
                most = f"{MOST_ENTRIES:,}, {MOST_BYTES // 1024**2} MiB"
                return _listing(name, found, f"there are more than are taken ({most})", left_out, first)
            found[key] = entry
        cursor = result.get("nextCursor")
        if cursor is None:
            cut = None
            break
        if not isinstance(cursor, str) or cursor in seen or len(cursor) > LONGEST_URI:
            cut = "their pages do not end"
            break
        seen.add(cursor)
    return _listing(name, found, cut, left_out, first)


def _listing(name: ListName, found: dict[str, Json], cut: str | None, left_out: int, first: str) -> Listing:
    return Listing(
        [_named(key, entry) for key, entry in found.items()],
        None if cut is None else f"only {len(found):,} of its {name} are used: {cut}",
        f"{left_out} of its {name} are left out: the first has {first}" if left_out else None,
    )


def _named(key: str, entry: Json) -> Json:
    """The entry with a name, which clients take for granted."""
    return entry if isinstance(entry.get("name"), str) else entry | {"name": key}


def _complaint(name: ListName, kind: ListKind, entry: Any) -> str | None:
    """Why the entry cannot be shown; None if it can."""
    key = entry.get(kind.key) if isinstance(entry, dict) else None
    longest = LONGEST_NAME if kind.key == "name" else LONGEST_URI
    if not isinstance(key, str) or not key or len(key) > longest or not key.isprintable():
        return f"no usable {kind.key}"
    if name == "tools" and not isinstance(entry.get("inputSchema"), dict):
        return f"no input schema ({quoted(key)})"
    return None
