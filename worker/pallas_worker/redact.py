"""Keeps secrets out of what is written and told: those that are known by value, and whatever looks like one.

Knows the secrets of this process and the tokens of its calls; must not know where a text goes.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pallas_registry.known_secrets import KnownSecrets, forms_of, longest_first, secrets_in
from pallas_registry.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CallSecrets", "Redactor", "known", "secrets_in"]

_own: ContextVar[tuple[str, ...]] = ContextVar("pallas_call_secrets", default=())
"""The forms of the token of the call that this context belongs to: it ends with the call's last task."""


class CallSecrets(KnownSecrets):
    """The secrets of a process, and the tokens of the calls that it is busy with."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._running: dict[str, tuple[int, tuple[str, ...]]] = {}
        super().__init__(secrets)

    @contextmanager
    def during(self, token: str | None) -> Iterator[None]:
        """Know the token of a call inside the block, and in all tasks that are made there."""
        if token is None:
            yield
            return
        calls, forms = self._running.get(token, (0, None))
        forms = forms or longest_first(forms_of(token))
        self._running[token] = (calls + 1, forms)
        outer = _own.set(forms)
        try:
            yield
        finally:
            _own.reset(outer)
            calls, _ = self._running.pop(token)
            if calls > 1:
                self._running[token] = (calls - 1, forms)

    def forms(self) -> tuple[str, ...]:
        """Those of the process and of this context's call; where there is none, of all calls."""
        if own := _own.get():
            return own + self._forms
        if running := list(self._running.values()):
            return longest_first((*self._forms, *(form for _, forms in running for form in forms)))
        return self._forms


known = CallSecrets()
"""The secrets of this process: the environment's from its start, the settings' once they are read."""


class Redactor:
    """Replaces secrets in texts."""

    def __init__(self, secrets: Iterable[str] | KnownSecrets) -> None:
        self._secrets = secrets if isinstance(secrets, KnownSecrets) else KnownSecrets(secrets)

    def __call__(self, text: str, *more: str | None) -> str:
        """The text without secrets; `more` are those that only this text could hold."""
        text = KnownSecrets(value for value in more if value).strike(text)
        return redact(self._secrets.strike(text))
