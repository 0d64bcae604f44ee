"""What resources may be called, and what their texts may hold. Pure rules, as those of `reading.rules`."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pallas_common.problems import quoted
from pallas_registry.reading import rules
from pallas_registry.reading.rules import Complaint

LONGEST_DESCRIPTION = 1000
LONGEST_URL = 2000
LONGEST_TEXT = 256 * 1024
"""Characters of a system prompt, or of a project's prompt."""
LONGEST_PATTERN = 256

NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
LLM_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
KEY_NAME = r"[A-Za-z0-9_.-]{1,128}"
AGENT_SERVER = "agent-"
"""How servers are called that stand for agents."""

_NAME = re.compile(NAME)
_LLM_NAME = re.compile(LLM_NAME)
_KEY_NAME = re.compile(KEY_NAME)
_KEY_REFERENCE = re.compile(rf"({NAME})/({KEY_NAME})")
_OPENED = re.compile(r"\$\{secret:")
SECRET_IN_TEXT = re.compile(rf"\$\{{secret:({NAME})/({KEY_NAME})\}}")
_PATTERN = re.compile(r"[A-Za-z0-9_.:/*?-]{1,256}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_LINES = re.compile("[\r\n\0]")


def resource_name(kind: str, name: str) -> Complaint | None:
    """What a resource of the kind may be called."""
    if "." in name and kind != "llm":
        if kind == "agent" and all(map(_NAME.fullmatch, name.split(".", 1))):
            return Complaint(
                f"{quoted(name)} has a dot: `<tenant>.<name>` is reserved for tenants",
                "write it without dots",
            )
        return Complaint(
            f"{quoted(name)} has a dot", "use letters, digits, `_` and `-`, starting with a letter"
        )
    if "__" in name:
        return Complaint(
            f"{quoted(name)} has two underscores, which separate a server from its tool",
            "use one, or a hyphen",
        )
    if kind == "agent":
        return rules.agent_name(name)
    if not (_LLM_NAME if kind == "llm" else _NAME).fullmatch(name):
        dots = ", `.`" if kind == "llm" else ""
        return Complaint(
            f"{quoted(name)} is no name",
            f"use 1 to 64 letters, digits{dots}, `_` and `-`, starting with a letter",
        )
    if kind == "server" and name.lower().startswith(AGENT_SERVER):
        return Complaint(
            f"{quoted(name)} is reserved: agents are servers of such names to each other",
            f"let it not begin with `{AGENT_SERVER}`",
        )
    if kind == "server" and name.endswith("_"):
        return Complaint(
            f"{quoted(name)} ends with an underscore", "leave it out: two of them end a server's name"
        )
    return None


def secret_key(key: str) -> Complaint | None:
    """What one value of a secret may be called."""
    if _KEY_NAME.fullmatch(key):
        return None
    return Complaint(
        "is no name of a value", "use 1 to 128 letters, digits, `_`, `.` and `-`, as in `API_KEY`"
    )


def key_reference(value: str) -> Complaint | None:
    """`NAME/KEY`: one value of a secret."""
    if _KEY_REFERENCE.fullmatch(value) and "__" not in value.partition("/")[0]:
        return None
    return Complaint(
        "names no value of a secret", "write the secret's name and its key, as in `litellm-key/API_KEY`"
    )


def description(value: str) -> Complaint | None:
    """One line for people."""
    return rules.one_line(value, LONGEST_DESCRIPTION)


def long_text(value: str) -> Complaint | None:
    """A system prompt, or another text for a model."""
    if not value.strip():
        return Complaint("is empty", "write a text, or remove the key")
    if len(value) > LONGEST_TEXT:
        return Complaint(f"has {len(value)} characters", f"use at most {LONGEST_TEXT}")
    return None


def one_word(value: str) -> Complaint | None:
    """A name that others have given."""
    if 0 < len(value) <= rules.LONGEST_MODEL and value.isprintable() and " " not in value:
        return None
    return Complaint(
        f"{quoted(value)} is no name", f"write 1 to {rules.LONGEST_MODEL} characters without spaces"
    )


def tool_pattern(value: str) -> Complaint | None:
    """`server__tool`, with `*` and `?`."""
    if _PATTERN.fullmatch(value):
        return None
    return Complaint(
        f"{quoted(value)} is no pattern of tools",
        "write `server__tool`, with `*` for any text and `?` for a character",
    )


def url(value: str) -> Complaint | None:
    """Where a server listens, without a password in it."""
    example = "write one as in `https://example.com/v1`"
    if not 0 < len(value) <= LONGEST_URL:
        return Complaint(f"has {len(value)} characters", f"use a URL of 1 to {LONGEST_URL} characters")
    if not value.isprintable() or " " in value:
        return Complaint(f"{quoted(value)} is not a URL", "percent-encode spaces and control characters")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return Complaint(f"{quoted(value)} is not a URL", example)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return Complaint(f"{quoted(value)} is not a web address", example)
    if parts.username is not None or parts.password is not None:
        return Complaint(
            "has a user name or password, which everybody sees",
            "put it into a secret, and refer to it in a header",
        )
    return None


def header_name(name: str) -> Complaint | None:
    """A field of HTTP."""
    if _HEADER.fullmatch(name):
        return None
    return Complaint("is no name of a header", "use letters, digits and `-`, as in `Authorization`")


def line_with_secrets(value: str) -> Complaint | None:
    """A text on one line that may refer to secrets."""
    if _LINES.search(value):
        return Complaint("has a line break", "write it on one line")
    return with_secrets(value)


def with_secrets(value: str) -> Complaint | None:
    """A text that may refer to secrets, as `${secret:NAME/KEY}`."""
    if len(value) > rules.VARIABLE_BYTES // 4:
        return Complaint(f"has {len(value)} characters", f"use at most {rules.VARIABLE_BYTES // 4}")
    if len(_OPENED.findall(value)) != len(SECRET_IN_TEXT.findall(value)):
        return Complaint("refers to no value of a secret", "write `${secret:NAME/KEY}`")
    return None


def without_secrets(value: str) -> Complaint | None:
    """A text into which nothing is put."""
    if _OPENED.search(value):
        return Complaint(
            "refers to a secret, and nothing is put in here",
            "refer to it in an llm or a server",
        )
    return None


def referred_secrets(value: str) -> list[str]:
    """`NAME/KEY` of what the text refers to."""
    return [f"{match[1]}/{match[2]}" for match in SECRET_IN_TEXT.finditer(value)]
