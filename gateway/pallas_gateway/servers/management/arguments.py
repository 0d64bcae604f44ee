"""Arguments of tools: schemas of which nothing but what they say passes, and errors that name the field. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import jsonschema_rs

if TYPE_CHECKING:
    from collections.abc import Mapping

type Json = dict[str, Any]

LONGEST_MESSAGE = 500
LONGEST_PROMPT = 1024 * 1024
"""Characters that one call may ask."""


class ToolError(Exception):
    """A call fails; the client's model is told why, so that it can do better.

    Args:
        type: one word for programs; docs/gateway.md has them all.
        field: of the arguments, where it is one.
        details: further lines; what only says the message again is left out.
    """

    def __init__(
        self,
        type: str,  # noqa: A002 - its name in the answer
        message: str,
        *,
        field: str | None = None,
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.type = type
        self.field = field
        self.details = tuple(each for each in details if each != message)


def for_clients(said: str, directory: str | None, named: Mapping[str, str]) -> str:
    """What is said to who is at the machine, said to a client of MCP, who has no file, shell or path there.

    Args:
        directory: the deployment's; files there are named without it.
        named: fields of a resource by which it may begin → the arguments from which they are.
    """
    said = said.removeprefix(_OUR_DOCUMENT)
    if (field := field_in(said, named)) is not None:
        said = named[field] + said.removeprefix(field)
    if directory:
        said = said.replace(f"{directory.rstrip('/')}/", "")
    return _COMMAND.sub("", said)


def field_in(said: str, named: Mapping[str, str]) -> str | None:
    """The one of these fields by which what is said begins, or of which a part is what it begins by."""
    return next((each for each in named if said.startswith((f"{each}:", f"{each}.", f"{each}["))), None)


_OUR_DOCUMENT = "the request:1: "
"""Where the supervisor says that a mistake is which is in a document that was made here, on one line."""
_COMMAND = re.compile(r" \(`pallasctl [^`]{1,200}`\)")
"""How the words before it are done in a shell."""


class Schema:
    """The input schema of a tool.

    Args:
        properties: field → its schema.
        required: the fields that must be there.
        one_of: of these exactly one must be there.
    """

    def __init__(
        self, properties: Json, required: tuple[str, ...] = (), one_of: tuple[str, ...] = ()
    ) -> None:
        self.document: Json = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            self.document["required"] = list(required)
        self._one_of = one_of
        self._validator = jsonschema_rs.Draft202012Validator(self.document)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse what does not fit.

        Raises:
            ToolError: with the first field that is wrong.
        """
        for error in self._validator.iter_errors(dict(arguments)):
            field = ".".join(map(str, error.instance_path))
            message = error.message[:LONGEST_MESSAGE]
            raise ToolError(
                "invalid_argument", f"`{field}`: {message}" if field else message, field=field or None
            )
        if self._one_of and sum(name in arguments for name in self._one_of) != 1:
            either = " or ".join(f"`{name}`" for name in self._one_of)
            raise ToolError("invalid_argument", f"give either {either}", field=self._one_of[0])


def text(description: str, longest: int = 1000, **more: Any) -> Json:
    """The schema of a text."""
    return {"type": "string", "minLength": 1, "maxLength": longest, "description": description, **more}


def truth(description: str) -> Json:
    """The schema of a truth value that is false by default."""
    return {"type": "boolean", "default": False, "description": description}


AGENT_NAME = text("The agent's name", 128)
"""Also a uid, which is longer than any name."""
