"""One operation of the HTTP API as the table has it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

type Json = dict[str, Any]

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"
LINES = "application/x-ndjson"
EVENTS = "text/event-stream"

_PLACE = re.compile(r"\{(\w+)\}")


class Parameter(NamedTuple):
    """A parameter of the query, or a header of the request."""

    name: str
    description: str
    schema: Json


class Header(NamedTuple):
    """A header of an answer."""

    name: str
    description: str


class Answer(NamedTuple):
    """What an operation answers with one status."""

    status: int
    description: str
    content: Mapping[str, Json] = {}
    """Media type → JSON Schema."""
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What can be asked of the gateway over HTTP, besides MCP."""

    id: str
    """`operationId`: programs are generated with it as a name."""
    method: Method
    path: str
    """With `{name}` for what stands for something."""
    tag: str
    summary: str
    grant: str
    """What it takes, as text of a grant, or in words."""
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    body: Mapping[str, Json] | None = None
    """Media type → JSON Schema; None: there is none."""
    is_body_required: bool = True
    answers: tuple[Answer, ...]
    """Those that are no errors."""

    @property
    def places(self) -> list[str]:
        """The names in its path, in their order."""
        return _PLACE.findall(self.path)
