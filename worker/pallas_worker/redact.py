"""The secrets of this process, and texts without them: for answers, reports, messages and the log.

All rooms use it, so that it is in none. Knows the secrets by value, those of the process and the tokens of its calls,
and what looks like a secret; must not know where a text goes.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pallas_common.problems import shortened
from pallas_common.secrets.shortening import without_secrets
from pallas_common.secrets.values import Forms, KnownSecrets, forms_of
from pallas_common.terminal_text import terminal_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST = 16 * 1024
"""Characters of an error that are passed on: a downstream server may send any number."""
MARGIN = 2_000
"""Characters beyond a line's bound that secrets are looked for in, so that none is cut in half and not recognised."""

_own: ContextVar[Forms | None] = ContextVar("pallas_call_secrets", default=None)
"""The forms of the token of the call that this context belongs to: it ends with the call's last task."""


class CallSecrets(KnownSecrets):
    """The secrets of a process, and the tokens of its running calls."""

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
        """Those of the process and of this context's call; outside of calls, those of all calls."""
        if (own := _own.get()) is not None:
            return self._forms, own
        return self._forms, *(forms for _, forms in list(self._running.values()))


known = CallSecrets()
"""The secrets of this process: the environment's from its start, the settings' once they are read."""


def redact(text: str, secrets: KnownSecrets = known) -> str:
    """The text without secrets, and of one of more than `LONGEST` characters without its middle."""
    return without_secrets(text, LONGEST, secrets)


def one_line(text: str, most: int) -> str:
    """The text without secrets, of at most so many characters, white space collapsed, control characters escaped."""
    return shortened(terminal_line(redact(" ".join(text[: most + MARGIN].split()))), most)
