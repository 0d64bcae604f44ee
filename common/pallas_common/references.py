"""`${NAME}` and `${NAME:default}` in fast-agent's files: what they stand for, and which have no value. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REFERENCE = re.compile(r"\$\{([^}:]{1,256}+)(?::([^}]{0,1024}+))?\}")
"""Bounded, so that a text costs no more than in proportion to its length."""


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """The text with variables put in as fast-agent does: one without a value or a default stays as it is written."""

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        return environ.get(name, match[0] if default is None else default)

    return REFERENCE.sub(value, text)


def referred(text: str) -> list[str]:
    """The variables that the text refers to; once fast-agent has put in their values, those that have none."""
    return [match[1] for match in REFERENCE.finditer(text)]
