"""`server`: an MCP server that agents use, reached by its URL or started by a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_registry.reading import rules
from pallas_registry.resources.kinds import names
from pallas_registry.resources.kinds.common import described, mapping_of_texts, said, texts

if TYPE_CHECKING:
    from pallas_registry.reading.fields import Fields
    from pallas_registry.reading.rules import Complaint

KEYS = (
    *("description", "transport", "url", "headers", "forwardInboundAuth"),
    *("command", "args", "env", "cwd", "readTimeoutSeconds"),
)
TRANSPORTS = ("http", "sse", "stdio")
_OF_A_URL = ("url", "headers", "forwardInboundAuth")
_OF_A_COMMAND = ("command", "args", "env", "cwd")
MOST_ENTRIES = 200
LONGEST_PATH = 4096


def read(_name: str, fields: Fields) -> dict[str, Any]:
    """The spec; `transport` is in it only where it is not what `url` or `command` says."""
    fields.only(KEYS)
    transport = fields.choice("transport", TRANSPORTS)
    by_url, by_command = "url" in fields, "command" in fields
    if by_url and by_command:
        fields.refuse(
            "command", "stands beside `url`, and a server is reached by one of them", "remove one of the two"
        )
    elif fields.is_mapping and not by_url and not by_command:
        key = "command" if transport == "stdio" else "url"
        example = (
            "`command: uvx`" if transport == "stdio" else "`url: https://example.com/mcp`, or `command:`"
        )
        fields.require(key, f"say how the server is reached, as in {example}")
    elif by_url and transport == "stdio":
        fields.refuse(
            "transport", "is for a command, and there is a `url`", "use `http` or `sse`, or leave it out"
        )
    elif by_command and transport in ("http", "sse"):
        fields.refuse("transport", "is for a `url`, and there is a command", "leave it out")
    else:
        for key in _OF_A_COMMAND[1:] if by_url else _OF_A_URL[1:]:
            if key in fields:
                way = "command" if by_url else "url"
                fields.refuse(key, f"is for a server with `{way}:`", "remove it")
    forward = fields.truth("forwardInboundAuth")
    return said(
        KEYS,
        {
            "description": described(fields),
            "transport": "sse" if transport == "sse" else None,
            "url": fields.text("url", _url),
            "headers": mapping_of_texts(fields, "headers", names.header_name, _header, MOST_ENTRIES),
            "forwardInboundAuth": forward or None,
            "command": fields.text("command", _word),
            "args": texts(fields, "args", names.with_secrets, MOST_ENTRIES),
            "env": mapping_of_texts(fields, "env", rules.environment_name, _variable, MOST_ENTRIES),
            "cwd": fields.text("cwd", _word),
            "readTimeoutSeconds": fields.whole_number("readTimeoutSeconds", 1, 86_400),
        },
    )


def _url(value: str) -> Complaint | None:
    if names.referred_secrets(value):
        # What stands in place of the secret has no say in where the server is.
        return names.with_secrets(value) or names.url(names.SECRET_IN_TEXT.sub("secret", value))
    return names.with_secrets(value) or names.url(value)


def _word(value: str) -> Complaint | None:
    return rules.one_line(value, LONGEST_PATH) or names.without_secrets(value)


def _header(_name: str, value: str) -> Complaint | None:
    return names.line_with_secrets(value)


def _variable(name: str, value: str) -> Complaint | None:
    return rules.environment_value(name, value) or names.with_secrets(value)
