"""What fast-agent does for every connection, and one that lives as long as a request does not need.

Knows names of module globals in fast-agent. Everything here only saves time: a name that has moved is logged,
and the worker goes on without.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any

import httpx2
from fast_agent.mcp import client_gateway, mcp_connection_manager

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

_log = logging.getLogger("pallas.worker.fastagent")


def take_shortcuts() -> None:
    """Replace what can be replaced; calling it again does nothing more."""
    _replace(mcp_connection_manager, "_wait_for_initialized_with_startup_budget", _initialized)
    _replace(mcp_connection_manager, "_subscription_filter", _no_subscription)
    _replace(client_gateway, "httpx2", _SharedTls())


def _replace(module: ModuleType, name: str, replacement: object) -> None:
    if hasattr(module, name):
        setattr(module, name, replacement)
    else:
        _log.warning("%s.%s has moved: connections to downstream servers take longer", module.__name__, name)


async def _initialized(connection: Any, startup_timeout_seconds: float | None, **_: object) -> None:
    """Wait for the connection's own event; fast-agent looks every 100 ms, to leave time for a browser."""
    async with asyncio.timeout(startup_timeout_seconds):
        await connection.wait_for_initialized()


def _no_subscription(connection: object) -> None:
    """A connection that lives as long as one request has no use for a stream of change notifications."""


class _SharedTls:
    """The module `httpx2` as one of fast-agent's modules sees it: all clients share one TLS context.

    Each client would otherwise read the system's certificates again, also for a server without TLS.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(httpx2, name)

    def AsyncClient(self, **options: Any) -> httpx2.AsyncClient:  # noqa: N802 - it stands for a class
        """A client with the shared context."""
        return httpx2.AsyncClient(verify=_tls(), **options)


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()
