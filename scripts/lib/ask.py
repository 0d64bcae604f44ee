"""Asks a served agent one question through the MCP SDK's own client and prints the answer.

Knows MCP and nothing of Pallas: any MCP client does the same.

    python scripts/lib/ask.py http://localhost:24203/mcp jarvis "What is Pallas?"
"""

from __future__ import annotations

import sys

import anyio
from mcp import Client
from mcp_types import TextContent


async def ask(url: str, tool: str, message: str) -> tuple[str, bool]:
    """The text of the answer, and whether it is an error."""
    async with Client(url) as client:
        result = await client.call_tool(tool, {"message": message})
    text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    return text, bool(result.is_error)


def main() -> int:
    """Exit status: 0 an answer, 1 an error, 2 wrong usage."""
    match sys.argv[1:]:
        case [url, tool, message]:
            text, failed = anyio.run(ask, url, tool, message)
            print(text, file=sys.stderr if failed else sys.stdout)
            return 1 if failed else 0
        case _:
            print("usage: ask.py URL TOOL MESSAGE", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
