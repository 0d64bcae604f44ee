"""The SDK's client in both eras against the protocol over real sockets, with a toy behind it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, TextContent

from support.clients import ERAS, connect
from support.gateway.mcp.toy import Toy, serve

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from support.clients import Era


def text(result: CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("era", ERAS)
def test_a_client_lists_calls_reads_and_completes(era: Era) -> None:
    async def act() -> None:
        async with serve(Toy()) as toy, connect(toy.url, era) as client:
            assert client.protocol_version == ("2026-07-28" if era == "auto" else "2025-11-25")
            assert client.instructions == "Ask."
            assert client.server_info is not None
            assert client.server_info.name == "toy"
            assert client.server_capabilities.resources is not None
            assert client.server_capabilities.resources.subscribe
            assert client.server_capabilities.logging is None
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == [*toy.surface.names, "regional"]
            assert text(await client.call_tool("echo", {"text": "ä"})) == "ä"
            assert (await client.call_tool("fail", {})).is_error
            assert [it.uri for it in (await client.list_resources()).resources] == ["toy://one", "toy://two"]
            assert len((await client.list_resource_templates()).resource_templates) == 1
            read: Any = (await client.read_resource("toy://one")).contents[0]
            assert read.text == "1"
            assert [it.name for it in (await client.list_prompts()).prompts] == ["greet"]
            prompt: Any = await client.get_prompt("greet", {"who": "you"})
            assert prompt.messages[0].content.text == "Hello you"
            reference = PromptReference(type="ref/prompt", name="greet")
            completed = await client.complete(reference, {"name": "who", "value": "m"})
            assert completed.completion.values == ["m!"]
            assert toy.audit.outcomes == [("toy/echo", "ok"), ("toy/fail", "failed")]

    asyncio.run(act())


@pytest.mark.parametrize("era", ERAS)
def test_a_client_is_told_what_went_wrong_and_nothing_that_is_secret(era: Era) -> None:
    async def act() -> None:
        async with serve(Toy()) as toy, connect(toy.url, era) as client:
            with pytest.raises(MCPError, match="no such tool: gone") as unknown:
                await client.call_tool("gone", {})
            assert unknown.value.code == -32602
            with pytest.raises(MCPError, match="its log has more under request-") as broken:
                await client.call_tool("boom", {})
            assert broken.value.code == -32603
            assert toy.audit.outcomes == [("toy/gone", "error"), ("toy/boom", "error")]

    asyncio.run(act())
