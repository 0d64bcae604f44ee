"""fast-agent's connections to servers and models that may lead nowhere but where `pallas_common.http.reach` says.

Whatever a closed server's or model's client is, it is made and used within `reach.closed`, which the loop obeys.

Knows fast-agent from inside; decides about no address.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import httpx2
from fast_agent.llm.fastagent_llm import FastAgentLLM
from fast_agent.mcp import client_gateway

from pallas_common.http import reach
from pallas_worker.downstreams.closed import ClosedTransport, is_closed
from pallas_worker.downstreams.tls import shared_context
from pallas_worker.fastagent.shortcuts import share_tls_with_providers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from fast_agent.config import MCPServerSettings

_TIMEOUT = httpx2.Timeout(30.0, read=300.0)
"""As the MCP SDK has it."""
_ASKED = ("generate", "structured", "structured_schema")


def keep_closed() -> None:
    """Let all connections of this process obey; again, it does nothing more."""
    module = client_gateway.__dict__
    if not hasattr(module["_create_transport"], "__wrapped__"):
        module["_create_transport"] = _transport(module["_create_transport"])
        module["sse_client"] = _sse(module["sse_client"])
        for name in _ASKED:
            setattr(FastAgentLLM, name, _asked(getattr(FastAgentLLM, name)))


def _transport(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def create_transport(*, config: MCPServerSettings, **options: Any) -> Any:
        with reach.closed() if is_closed(config) else nullcontext():
            return own(config=config, **options)

    return create_transport


def _sse(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def sse_client(*args: Any, **options: Any) -> AbstractAsyncContextManager[Any]:
        if reach.is_closed():
            options["httpx_client_factory"] = _closed_client
        return own(*args, **options)  # type: ignore[no-any-return]

    return sse_client


def _closed_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    transport = ClosedTransport(verify=shared_context())
    return httpx2.AsyncClient(
        headers=headers, timeout=timeout or _TIMEOUT, auth=auth, follow_redirects=True, transport=transport
    )


def _asked(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    async def ask(llm: FastAgentLLM[Any, Any], *args: Any, **options: Any) -> Any:
        if not is_closed_model(llm):
            return await own(llm, *args, **options)
        share_tls_with_providers()  # of a provider that has been loaded since, too
        with reach.closed():
            return await own(llm, *args, **options)

    return ask


def is_closed_model(llm: FastAgentLLM[Any, Any]) -> bool:
    """Whether the model's address may not lead everywhere."""
    overlay = getattr(llm._resolved_model_spec, "overlay", None)
    return getattr(overlay, "closed", False) is True
