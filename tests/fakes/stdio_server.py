"""A downstream MCP server over standard input and output that starts at once: nothing but the standard library.

Run as a program, best with `python -IS`. Speaks the revisions with a handshake; its tools are `pid`, and `wait`, which
writes its process ID to the file `path` and never answers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

METHOD_NOT_FOUND = -32601

TOOLS = [
    {"name": "pid", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "wait", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for a method that is not known."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stdio", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments", {}))}]}
        case _:
            return None


def call(tool: str, arguments: dict[str, Any]) -> str:
    """What the tool says."""
    if tool == "wait":
        with open(arguments["path"] + ".new", "w") as file:  # noqa: PTH123 - pathlib takes long to import
            file.write(str(os.getpid()))
        os.rename(arguments["path"] + ".new", arguments["path"])  # noqa: PTH104
        time.sleep(3600)
    return f"pid {os.getpid()}"


def main() -> None:
    """Answer each line until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params", {}))
        error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
        outcome = {"error": error} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main()
