"""References in texts: `${NAME:default}` in fast-agent's files, `${secret:NAME/KEY}` in resources. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REFERENCE = re.compile(r"\$\{([^}:]{1,256}+)(?::([^}]{0,1024}+))?\}")
"""Bounded, so that a text costs no more than in proportion to its length."""

SECRET = re.compile(r"\$\{secret:([^/{}\s]{1,256}+)/([^/{}\s]{1,256}+)\}")
"""One key of a secret, in a text of a resource."""


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """The text with variables put in as fast-agent does: one without a value or a default stays as it is written."""

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        return environ.get(name, match[0] if default is None else default)

    return REFERENCE.sub(value, text)


def referred(text: str) -> list[str]:
    """The variables that the text refers to; once fast-agent has put in their values, those that have none."""
    return [match[1] for match in REFERENCE.finditer(text)]


def secrets_referred(text: str) -> list[str]:
    """The keys of secrets that the text refers to, as `NAME/KEY`."""
    return [f"{name}/{key}" for name, key in SECRET.findall(text)]


def with_secrets(text: str, values: Mapping[str, str]) -> str:
    """The text with the values of secrets put in, `NAME/KEY` → value; what a value says is not looked through again.

    Raises:
        KeyError: a secret has no value; the `NAME/KEY`.
    """
    return SECRET.sub(lambda match: values[f"{match[1]}/{match[2]}"], text)
