"""Grants: what a principal may do, as text `verb:kind[:name]`. Pure.

`run:agents:jarvis`, `view:projects`, `edit:resources:llm/x`, `run:agents:team-*`, `edit:code`, `edit:network`; `*`
stands for all verbs and kinds, those two included. What no grant says is denied.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, get_args

from pallas_common.problems import did_you_mean, quoted

Verb = Literal["view", "create", "edit", "delete", "run", "approve"]
Kind = Literal["agents", "projects", "threads", "resources", "policy", "knowledge", "code", "network"]

VERBS: tuple[Verb, ...] = get_args(Verb)
KINDS: tuple[Kind, ...] = get_args(Kind)

LONGEST = 300
_NAME = re.compile(r"[A-Za-z0-9_.*/-]+")


class Permission(NamedTuple):
    """What is asked for; its text is also the scope that a refusal names (RFC 6750, section 3)."""

    verb: Verb
    kind: Kind
    name: str | None = None
    """Of the thing; None asks for all things of the kind."""

    def __str__(self) -> str:
        """`run:agents:jarvis`; `*` for administration."""
        return "*" if self == ADMINISTRATION else ":".join(filter(None, self))


class Grant(NamedTuple):
    """Verbs, kinds and names that it covers; `*` for any, in a name also as a part of it."""

    verb: str
    kind: str
    name: str | None = None
    """None covers all names."""

    def __str__(self) -> str:
        """As it was written."""
        if self == EVERYTHING:
            return "*"
        return ":".join(filter(None, self))

    def covers(self, permission: Permission) -> bool:
        """Whether it allows that."""
        if self.verb not in ("*", permission.verb) or self.kind not in ("*", permission.kind):
            return False
        if self.name is None or self.name == "*":
            return True
        return permission.name is not None and fnmatchcase(permission.name, self.name)

    def touches(self, verb: Verb, kind: Kind) -> bool:
        """Whether it allows that for something of the kind."""
        return self.verb in ("*", verb) and self.kind in ("*", kind)


EVERYTHING = Grant("*", "*")
"""All that a human may have."""


ADMINISTRATION = Permission("*", "*")  # type: ignore[arg-type]
"""What only the grant `*` covers: tokens, and the audit."""


def parse_grant(text: str) -> Grant:
    """The grant that a text says.

    Raises:
        ValueError: it says none; the message says what is wrong and what may stand there.
    """
    if text == "*":
        return EVERYTHING
    verb, separator, rest = text.partition(":")
    kind, named, name = rest.partition(":")
    if len(text) > LONGEST or not separator:
        raise ValueError("is no grant: write `verb:kind` or `verb:kind:name`, as `run:agents:jarvis`, or `*`")
    if verb != "*" and verb not in VERBS:
        raise ValueError(f"is no grant: {_unknown('verb', verb, VERBS, text)}")
    if kind != "*" and kind not in KINDS:
        raise ValueError(f"is no grant: {_unknown('kind', kind, KINDS, text)}")
    if named and not _NAME.fullmatch(name):
        raise ValueError(
            "is no grant: its name has characters that no name has: letters, digits, `_`, `-`, `.`, `/` and `*`"
        )
    return Grant(verb, kind, name if named else None)


def _unknown(what: str, word: str, known: tuple[str, ...], text: str) -> str:
    """What is wrong with a word of a grant, and what was meant."""
    said = f"there is no {what} {quoted(word)}"
    if (near := did_you_mean(word, known)) is None:
        return f"{said}; there are {', '.join(known)}, and `*` for all"
    verb, _, rest = text.partition(":")
    meant = f"{near}:{rest}" if what == "verb" else f"{verb}:{near}{rest.removeprefix(word)}"
    return f"{said}; did you mean `{meant}`?"
