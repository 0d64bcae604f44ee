"""A provider in a process of its own that speaks at a pace: each piece of its text is the moment at which it was sent.

OpenAI's chat completions, streamed, and nothing else; as cheap as asyncio makes it. Prints the port that it listens on.

    python -m support.load.paced_llm PIECES SECONDS_BETWEEN
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "stub-model"}
_MODELS = b'{"object":"list","data":[{"id":"stub-model","object":"model","created":0,"owned_by":"stub"}]}'


@contextlib.contextmanager
def paced_llm(pieces: int, between: float) -> Iterator[tuple[int, int]]:
    """Run one until the block ends; its port and its process."""
    command = [sys.executable, "-m", "support.load.paced_llm", str(pieces), str(between)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


def _event(choice: dict[str, Any] | None, **more: Any) -> bytes:
    data = json.dumps({**_CHUNK, "choices": [] if choice is None else [{"index": 0, **choice}], **more})
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(event), event)


def _end(pieces: int) -> bytes:
    usage = {"prompt_tokens": 1, "completion_tokens": pieces, "total_tokens": pieces + 1}
    done = b"data: [DONE]\n\n"
    return (
        _event({"delta": {}, "finish_reason": "stop"})
        + _event(None, usage=usage)
        + b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done)
    )


async def _serve(pieces: int, between: float) -> None:
    end = _end(pieces)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
                await reader.readexactly(int(lines.get("content-length", "0")))
                if not head.startswith("post"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n" % len(_MODELS))
                    writer.write(b"content-type: application/json\r\n\r\n" + _MODELS)
                    continue
                writer.write(_HEAD)
                for number in range(pieces):
                    if number:
                        await asyncio.sleep(between)
                    said = {"delta": {"content": f"{time.monotonic_ns()} "}, "finish_reason": None}
                    writer.write(_event(said))
                writer.write(end)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
