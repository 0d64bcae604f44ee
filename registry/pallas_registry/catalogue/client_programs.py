"""Small programs that ask agents through an MCP SDK, as text: Python and TypeScript, both release lines of each. Pure.

They show how to call, how to find the answer, and what a failed call looks like: the least that a program of one's own
begins with. With several agents, all are asked one after another.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    type Endpoints = Sequence[tuple[str, str]]
    """Names and URLs of agents, one at least."""

PATIENCE = 600
"""Seconds that the TypeScript programs wait for an answer; the SDK's default of 60 is short for an agent with tools."""

_PYTHON = """\
import asyncio
import sys

from mcp import Client

{agents}


async def ask(url, message):
    async with Client(url) as client:
        result = await client.call_tool("send_message", {{"message": message}})
    texts = [block.text for block in result.content if block.type == "text"]
    if result.is_error:
        sys.exit(f"failed: {{' '.join(texts)}}")
    return texts[-1]  # the answer; what was said between tool calls comes before it


message = " ".join(sys.argv[1:]) or "Hello"
{calls}"""
_PYTHON_V1 = """\
import asyncio
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

{agents}


async def ask(url, message):
    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        result = await session.call_tool("send_message", {{"message": message}})
    texts = [block.text for block in result.content if block.type == "text"]
    if result.isError:
        sys.exit(f"failed: {{' '.join(texts)}}")
    return texts[-1]  # the answer; what was said between tool calls comes before it


message = " ".join(sys.argv[1:]) or "Hello"
{calls}"""
_WITH_TOKEN = (
    ("import asyncio\n", "import asyncio\nimport os\n"),
    ('"send_message"', '"chat"'),
)
_PYTHON_WITH_TOKEN = (
    *_WITH_TOKEN,
    (
        "from mcp import Client\n",
        "import httpx2\nfrom mcp import Client\nfrom mcp.client.streamable_http import streamable_http_client\n",
    ),
    (
        "    async with Client(url) as client:\n",
        (
            '    headers = {{"Authorization": f"Bearer {{os.environ[\'PALLAS_CLIENT_TOKEN\']}}"}}\n'
            "    http = httpx2.AsyncClient(headers=headers, timeout=600)\n"
            "    async with http, Client(streamable_http_client(url, http_client=http)) as client:\n"
        ),
    ),
)
_PYTHON_V1_WITH_TOKEN = (
    *_WITH_TOKEN,
    ("from mcp import ClientSession\n", "import httpx\nfrom mcp import ClientSession\n"),
    (
        "    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:\n",
        (
            '    headers = {{"Authorization": f"Bearer {{os.environ[\'PALLAS_CLIENT_TOKEN\']}}"}}\n'
            "    http = httpx.AsyncClient(headers=headers, timeout=600)\n"
            "    async with (\n"
            "        http,\n"
            "        streamable_http_client(url, http_client=http) as (read, write, _),\n"
            "        ClientSession(read, write) as session,\n"
            "    ):\n"
        ),
    ),
)
_TYPESCRIPT_WITH_TOKEN = (
    ('"send_message"', '"chat"'),
    (
        "  await client.connect(new StreamableHTTPClientTransport(new URL(url)));\n",
        (
            "  const headers = {{ Authorization: `Bearer ${{process.env.PALLAS_CLIENT_TOKEN}}` }};\n"
            "  const requestInit = {{ headers }};\n"
            "  await client.connect(new StreamableHTTPClientTransport(new URL(url), {{ requestInit }}));\n"
        ),
    ),
)
"""What is otherwise in a program that shows a token, to the gateway."""
_TYPESCRIPT = """\
{imports}

{agents}

async function ask(url: string, message: string): Promise<string> {{
  const client = new Client({{ name: "ask", version: "1.0.0" }});
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  try {{
    const result = await client.callTool(
      {{ name: "send_message", arguments: {{ message }} }},{schema}
      {{ timeout: {patience} }}, // milliseconds
    );
    const content = result.content{type};
    const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
    if (result.isError) throw new Error(texts.join(" "));
    return texts.at(-1) ?? ""; // the answer; what was said between tool calls comes before it
  }} finally {{
    await client.close();
  }}
}}

const message = process.argv.slice(2).join(" ") || "Hello";
{calls}"""
_IMPORTS = """\
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";"""
_IMPORTS_V1 = """\
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";"""


def python_program(endpoints: Endpoints, *, token: bool = False) -> str:
    """A program for `mcp` 2; with the `token` of the environment, for agents of a gateway."""
    return _python(_changed(_PYTHON, _PYTHON_WITH_TOKEN if token else ()), endpoints)


def python_program_v1(endpoints: Endpoints, *, token: bool = False) -> str:
    """A program for `mcp` 1, likewise."""
    return _python(_changed(_PYTHON_V1, _PYTHON_V1_WITH_TOKEN if token else ()), endpoints)


def typescript_program(endpoints: Endpoints, *, token: bool = False) -> str:
    """A program for `@modelcontextprotocol/client`, which is release 2 of the SDK, likewise."""
    return _typescript(endpoints, token=token, imports=_IMPORTS, schema="", type="")


def typescript_program_v1(endpoints: Endpoints, *, token: bool = False) -> str:
    """A program for `@modelcontextprotocol/sdk`, which is release 1, likewise."""
    return _typescript(
        endpoints,
        token=token,
        imports=_IMPORTS_V1,
        schema="\n      undefined,",
        type=' as CallToolResult["content"]',
    )


def _changed(template: str, changes: Iterable[tuple[str, str]]) -> str:
    for before, after in changes:
        template = template.replace(before, after, 1)
    return template


def _python(template: str, endpoints: Endpoints) -> str:
    if len(endpoints) == 1:
        agents = f"URL = {_python_string(endpoints[0][1])}"
        calls = "print(asyncio.run(ask(URL, message)))"
    else:
        agents = "AGENTS = " + _table(endpoints, "    ", _python_string)
        calls = 'for name, url in AGENTS.items():\n    print(f"{name}: {asyncio.run(ask(url, message))}")'
    return template.format(agents=agents, calls=calls)


def _typescript(endpoints: Endpoints, *, token: bool, **parts: str) -> str:
    if len(endpoints) == 1:
        agents = f"const url = {json.dumps(endpoints[0][1])};"
        calls = "console.log(await ask(url, message));"
    else:
        agents = f"const agents = {_table(endpoints, '  ', json.dumps)};"
        calls = (
            "for (const [name, url] of Object.entries(agents)) {\n"
            "  console.log(`${name}: ${await ask(url, message)}`);\n"
            "}"
        )
    template = _changed(_TYPESCRIPT, _TYPESCRIPT_WITH_TOKEN if token else ())
    return template.format(agents=agents, calls=calls, patience=PATIENCE * 1000, **parts)


def _table(endpoints: Iterable[tuple[str, str]], indent: str, string: Callable[[str], str]) -> str:
    rows = (f"{indent}{string(name)}: {string(url)},\n" for name, url in endpoints)
    return f"{{\n{''.join(rows)}}}"


def _python_string(text: str) -> str:
    # JSON's strings are Python's, too, but for those that have surrogate pairs in them.
    return json.dumps(text) if text.isascii() else ascii(text)
