"""A real MCP server on loopback with the tools that a test says, as many and as odd as it likes, in pages.

Knows the MCP SDK's low-level server; must not know anything of Pallas.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ListPromptsResult, ListToolsResult, Prompt, TextContent, Tool

from fakes.loopback import serve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_types import CallToolRequestParams, PaginatedRequestParams

PLAIN: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}


class ToolLists:
    """A server: what it lists, and the names that were called."""

    def __init__(self, tools: Iterable[Tool], prompts: Iterable[str], page: int) -> None:
        self.tools = list(tools)
        """May be replaced at any time."""
        self.prompts = list(prompts)
        self.page = page
        """Entries of a page."""
        self.endless = False
        """Whether each page has the same next one."""
        self.called: list[str] = []
        self.url = ""

    async def list_tools(self, _: object, params: PaginatedRequestParams | None) -> ListToolsResult:
        """One page."""
        start, following = self._page(params, len(self.tools))
        return ListToolsResult(tools=self.tools[start : start + self.page], next_cursor=following)

    async def list_prompts(self, _: object, params: PaginatedRequestParams | None) -> ListPromptsResult:
        """One page."""
        start, following = self._page(params, len(self.prompts))
        prompts = [Prompt(name=name) for name in self.prompts[start : start + self.page]]
        return ListPromptsResult(prompts=prompts, next_cursor=following)

    async def call_tool(self, _: object, params: CallToolRequestParams) -> CallToolResult:
        """Say which tool it is."""
        self.called.append(params.name)
        if params.name not in {tool.name for tool in self.tools}:
            raise MCPError(-32602, f"Unknown tool: {params.name}")
        return CallToolResult(content=[TextContent(type="text", text=f"{params.name} ran")])

    def _page(self, params: PaginatedRequestParams | None, length: int) -> tuple[int, str | None]:
        start = int(params.cursor) if params is not None and params.cursor else 0
        if self.endless and length:
            return 0, "1"
        end = start + self.page
        return start, str(end) if end < length else None


def tool(name: str, schema: dict[str, Any] | None = None) -> Tool:
    """One that takes a text, or what the schema says."""
    return Tool(name=name, description="Does something.", input_schema=PLAIN if schema is None else schema)


@contextmanager
def run_tool_lists(
    tools: Iterable[Tool], *, prompts: Iterable[str] = (), page: int = 50, port: int = 0
) -> Iterator[ToolLists]:
    """Run the server until the block ends."""
    lists = ToolLists(tools, prompts, page)
    server: Server[Any] = Server(
        "tool-lists",
        on_list_tools=lists.list_tools,
        on_list_prompts=lists.list_prompts,
        on_call_tool=lists.call_tool,
    )
    with serve(server.streamable_http_app(stateless_http=True), fault=None, port=port) as loopback:
        lists.url = f"{loopback.origin}/mcp"
        yield lists
