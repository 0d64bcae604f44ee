"""Keeps secrets out of what callers are told.

Pure. Knows the secrets of this process by value; must not know where a text goes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHORTEST = 8
"""A shorter value is not taken for a secret: hiding every `true` would make texts useless."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION)$", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")


class Redactor:
    """Replaces known secrets, and whatever looks like an Authorization header, by `***`."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = sorted({value for value in secrets if len(value) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, values))) if values else None

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        text = _BEARER.sub(r"\1 ***", text)
        return self._known.sub("***", text) if self._known is not None else text


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values of the variables whose name says that they are secret."""
    return [value for name, value in environment.items() if _SECRET_NAME.search(name)]
