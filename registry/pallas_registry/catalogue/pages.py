"""The sub-registry's answers: pages, filters and versions over one view of the catalogue.

Pure; knows the generic registry API v0.1 (query parameters, cursors, `metadata`), not HTTP.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_registry.catalogue.entries import CatalogueView, Document, Entry

DEFAULT_LIMIT = 30
MAXIMUM_LIMIT = 100
LATEST = "latest"

_LIMIT = re.compile(r"[0-9]{1,9}")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d+)?)([Zz]|[+ -]\d\d:\d\d)")


class QueryError(ValueError):
    """A query parameter that cannot be understood; the message is one line for the client."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a client wants to see of the list."""

    limit: int = DEFAULT_LIMIT
    after: str = ""
    """Name after which the page starts; empty for the first page."""
    search: str = ""
    """Part of the name, in whatever case."""
    updated_since: dt.datetime | None = None
    version: str = LATEST


def parse_query(parameters: Mapping[str, str]) -> Query:
    """The query in `limit`, `cursor`, `search`, `updated_since` and `version`; empty ones count as absent.

    Raises:
        QueryError: `limit`, `cursor` or `updated_since` cannot be understood.
    """
    return Query(
        limit=_limit(parameters.get("limit", "")),
        after=_name_in(parameters.get("cursor", "")),
        search=parameters.get("search", "").casefold(),
        updated_since=_moment(parameters.get("updated_since", "")),
        version=parameters.get("version") or LATEST,
    )


def page(view: CatalogueView, query: Query) -> Document:
    """One page, in the order of names: `{"servers": […], "metadata": {"count", "nextCursor"}}`.

    `count` is the page's length. Following `nextCursor`, which the last page lacks, yields every entry once,
    even if others come and go in between.
    """
    found = sorted(_matching(view, query), key=lambda entry: entry.name)
    shown = found[: query.limit]
    metadata: Document = {"count": len(shown)}
    if len(found) > len(shown):
        metadata["nextCursor"] = base64.urlsafe_b64encode(shown[-1].name.encode()).decode().rstrip("=")
    return {"servers": [entry.document for entry in shown], "metadata": metadata}


def versions_of(view: CatalogueView, name: str) -> Document | None:
    """All versions of a server, of which there is one, or None if there is no such server."""
    found = [entry.document for entry in view.entries if entry.name == name]
    return {"servers": found, "metadata": {"count": len(found)}} if found else None


def one_version(view: CatalogueView, name: str, version: str) -> Document | None:
    """The entry of a server in that version, or in its newest for `latest`; None if there is none."""
    for entry in view.entries:
        if entry.name == name and version in {LATEST, entry.version}:
            return entry.document
    return None


def _matching(view: CatalogueView, query: Query) -> Iterator[Entry]:
    for entry in view.entries:
        if (
            entry.name > query.after
            and query.search in entry.name.casefold()
            and (query.updated_since is None or entry.updated_at >= query.updated_since)
            and query.version in {LATEST, entry.version}
        ):
            yield entry


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_LIMIT
    if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= MAXIMUM_LIMIT:
        raise QueryError(f"limit: {text[:40]!r} is not a whole number from 1 to {MAXIMUM_LIMIT}")
    return int(text)


def _name_in(cursor: str) -> str:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except ValueError:
        raise QueryError(
            f"cursor: {cursor[:40]!r} is not a cursor of this registry; pass metadata.nextCursor unchanged"
        ) from None


def _moment(text: str) -> dt.datetime | None:
    if not text:
        return None
    # A `+` that was not percent-encoded arrives as a space.
    if match := _RFC3339.fullmatch(text):
        day, time, offset = match.groups()
        try:
            return dt.datetime.fromisoformat(f"{day}T{time}{offset.upper().replace(' ', '+')}")
        except ValueError:
            pass
    raise QueryError(f"updated_since: {text[:40]!r} is not an RFC 3339 time, as in 2026-03-12T10:00:00Z")
