"""The one TLS context of a process: reading the system's certificates takes longer than a call.

Knows certificates; nothing of who connects where.
"""

from __future__ import annotations

import functools
import os
import ssl
from pathlib import Path
from typing import NamedTuple

import httpx2

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
"""What a context is made by, of the environment."""


class _Prepared(NamedTuple):
    context: ssl.SSLContext
    made_by: tuple[object, ...]


_prepared: _Prepared | None = None


@functools.cache
def shared_context() -> ssl.SSLContext:
    """The context for clients, with the certificates that the environment names, or the system's; made once."""
    if _prepared is not None and _prepared.made_by == _made_by():
        return _prepared.context
    return httpx2.create_ssl_context()


def prepare_context() -> None:
    """Make the context of all processes that are forked from this one and would make the same one.

    For a zygote: in a worker it takes as long as all else in its start. One whose environment names other certificates,
    or that starts after the certificates have changed, makes its own.
    """
    global _prepared
    made_by = _made_by()
    if _prepared is None or _prepared.made_by != made_by:
        _prepared = _Prepared(httpx2.create_ssl_context(), made_by)


def _made_by() -> tuple[object, ...]:
    named = [os.environ.get(name) for name in VARIABLES]
    paths = ssl.get_default_verify_paths()  # of the environment, or else the system's
    return (*named, *(_state(path) for path in (*named[:2], *paths) if path is not None))


def _state(path: str) -> tuple[int, ...] | None:
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
