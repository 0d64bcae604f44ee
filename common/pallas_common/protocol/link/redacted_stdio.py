"""What the worker's code prints, without the secrets that are known: a print within a call knows that call's token.

Knows Python's two text streams; what is written past them, by a C library or a program, goes as it is.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from pallas_common.secrets.values import KnownSecrets


class _OpenBuffer(io.BufferedWriter):
    """A buffer that stays open: whoever wraps or closes the stream above it must not take it from all others."""

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.flush()


class RedactedStream(io.TextIOWrapper):
    """A text stream that takes another one's place, on the same descriptor."""

    def __init__(self, replaced: io.TextIOWrapper, secrets: KnownSecrets) -> None:
        """`replaced` stays usable for those who have it already.

        The buffer is a new one: the old one believes that its descriptor is what it was before a fork.
        """
        replaced.flush()
        super().__init__(
            _OpenBuffer(io.FileIO(replaced.fileno(), "w", closefd=False)),
            encoding=replaced.encoding,
            errors=replaced.errors,
            line_buffering=replaced.line_buffering,
            write_through=replaced.write_through,
        )
        self._secrets = secrets

    def write(self, text: str) -> int:
        """Write the text without secrets; the number of characters that were given."""
        super().write(self._secrets.strike(text) if self._secrets.may_be_in(text) else text)
        return len(text)

    def detach(self) -> Any:
        """Return the buffer, which this one goes on to use."""
        self.flush()
        return self.buffer

    def close(self) -> None:
        """Write what is pending: it stays open for others who print."""
        with contextlib.suppress(OSError, ValueError):
            self.flush()


def redact_stdio(secrets: KnownSecrets) -> None:
    """Let `print` and all else that writes to `sys.stdout` and `sys.stderr` say none of `secrets`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # there may be none, or another one
            with contextlib.suppress(OSError, ValueError):  # or one that is closed
                _streams[name] = RedactedStream(stream, secrets)
                setattr(sys, name, _streams[name])


def put_back_closed() -> tuple[str, ...]:
    """Put our streams back where there are others that have been closed, so that `print` does not fail; their names."""
    closed = tuple(name for name in _streams if _is_closed(getattr(sys, name, None)))
    for name in closed:
        setattr(sys, name, _streams[name])
    return closed


def _is_closed(stream: object) -> bool:
    try:
        return getattr(stream, "closed", False) is True
    except ValueError:  # of a text stream that was detached
        return True


_streams: dict[str, RedactedStream] = {}
