"""Keeps secrets out of what callers are told: those that are known by value, and whatever looks like one.

Pure. Knows the secrets of this process; must not know where a text goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pallas_registry.redaction import REDACTED, is_secret_name, redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORTEST = 8
"""A shorter value is not taken for a secret: hiding every `true` would make texts useless."""


class Redactor:
    """Replaces secrets in texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _longest_first(secrets)

    def __call__(self, text: str, *more: str | None) -> str:
        """The text without secrets; `more` are those that only this text could hold."""
        for secret in (*_longest_first(value for value in more if value), *self._secrets):
            text = text.replace(secret, REDACTED)
        return redact(text)


def secrets_in(settings: object) -> Iterator[str]:
    """The strings of a nested mapping that are secret by their name: of settings, of an environment."""
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            if isinstance(value, str) and is_secret_name(str(name)):
                yield value
                scheme, _, token = value.partition(" ")
                if scheme.lower() in ("bearer", "basic"):
                    yield token
            else:
                yield from secrets_in(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from secrets_in(value)


def _longest_first(secrets: Iterable[str]) -> list[str]:
    return sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)
