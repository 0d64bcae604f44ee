"""Keeps secrets out of what is written and told: those that are known by value, and whatever looks like one.

Knows the secrets of this process and the tokens of its calls; must not know where a text goes.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pallas_common.secrets.shortening import without_secrets
from pallas_common.secrets.values import Forms, KnownSecrets, Together, forms_of, secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CallSecrets", "Redactor", "known", "secrets_in"]

LONGEST = 16 * 1024
"""Characters of an error that are told: a downstream server may say as much as it likes."""

_own: ContextVar[Forms | None] = ContextVar("pallas_call_secrets", default=None)
"""The forms of the token of the call that this context belongs to: it ends with the call's last task."""


class CallSecrets(KnownSecrets):
    """The secrets of a process, and the tokens of the calls that it is busy with."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._running: dict[str, tuple[int, Forms]] = {}
        super().__init__(secrets)

    @contextmanager
    def during(self, token: str | None) -> Iterator[None]:
        """Know the token of a call inside the block, and in all tasks that are made there."""
        if token is None:
            yield
            return
        calls, forms = self._running.get(token, (0, None))
        forms = forms or Forms(forms_of(token))
        self._running[token] = (calls + 1, forms)
        outer = _own.set(forms)
        try:
            yield
        finally:
            _own.reset(outer)
            calls, _ = self._running.pop(token)
            if calls > 1:
                self._running[token] = (calls - 1, forms)

    def forms(self) -> tuple[Forms, ...]:
        """Those of the process and of this context's call; where there is none, of all calls."""
        if (own := _own.get()) is not None:
            return self._forms, own
        return self._forms, *(forms for _, forms in list(self._running.values()))


known = CallSecrets()
"""The secrets of this process: the environment's from its start, the settings' once they are read."""


class Redactor:
    """Replaces secrets in texts."""

    def __init__(self, secrets: Iterable[str] | KnownSecrets) -> None:
        self._secrets = secrets if isinstance(secrets, KnownSecrets) else KnownSecrets(secrets)

    def __call__(self, text: str, *more: str | None) -> str:
        """The text without secrets, and of a long one without its middle.

        `more` are secrets that only this text could hold.
        """
        known_here = Together(self._secrets, KnownSecrets(value for value in more if value))
        return without_secrets(text, LONGEST, known_here)
