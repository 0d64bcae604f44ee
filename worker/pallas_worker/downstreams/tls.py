"""The one TLS context of a process: reading the system's certificates takes longer than a call.

Knows certificates; nothing of who connects where.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    import ssl


@functools.cache
def shared_context() -> ssl.SSLContext:
    """The context for clients, with the certificates that the environment names, or the system's; made once."""
    return httpx2.create_ssl_context()
