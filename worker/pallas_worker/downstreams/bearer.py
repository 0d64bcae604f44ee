"""The bearer token of one inbound request, and the two places it may go to.

Knows headers and fast-agent's public request token; must not keep a token beyond its request, nor log one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fast_agent.mcp.auth.context import request_bearer_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def inbound_bearer(headers: Mapping[str, str]) -> str | None:
    """The token of `Authorization: Bearer …`, or None; `headers` must look names up in lower case."""
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def with_bearer(headers: Mapping[str, str] | None, token: str) -> dict[str, str]:
    """The headers of an opted-in downstream server; an Authorization header that is already there wins."""
    headers = dict(headers or {})
    if any(name.lower() == "authorization" for name in headers):
        return headers
    return headers | {"Authorization": f"Bearer {token}"}


@contextmanager
def offered_to_llm(token: str | None) -> Iterator[None]:
    """Let LLM providers that take the caller's own token find it, inside this block and its tasks.

    Providers that do not pass tokens through never look. Downstream MCP servers do not read this.
    """
    if token is None:
        yield
        return
    saved = request_bearer_token.set(token)
    try:
        yield
    finally:
        request_bearer_token.reset(saved)
