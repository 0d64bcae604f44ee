"""One turn with each API of LLMs that workers will ask, done ahead by the zygote, without a network.

Why: the libraries of providers make most of their classes where they are first used. A worker's first call took 0.1 to
0.7 s more than the next one for it, in every worker again, in memory of its own. Here that is done once, by a turn
that goes all the way of a call: the caller's request, an instance, a request to the model, a streamed answer with a
tool call, the tool, another request and answer.

The loop connects every socket to what stands in for the model, whatever its address is. As with `warm_up`, nothing may
stay behind that a worker would see; what fails here costs time, never function.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, override

from fast_agent import FastAgent

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_worker.agent.models.capabilities import model_reference
from pallas_worker.agent.runtime import open_runtime
from pallas_worker.calls.admission import Admission
from pallas_worker.calls.call import Calls
from pallas_worker.fastagent.shortcuts import without_tls
from pallas_worker.fastagent.streams.plain_text import lighten_chat_streams
from pallas_worker.http.mcp_app import WorkerApp
from pallas_worker.process.zygote.imports import output
from pallas_worker.process.zygote.rehearsed_answers import ANSWERS, encoded
from pallas_worker.process.zygote.warm_up import NAME, PORT, SPEC, nowhere

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TIME_LIMIT = 5.0
"""Seconds after which a rehearsal is given up; it takes a fraction of one."""

APIS: Mapping[str, str] = {
    "openai": "openai.gpt-4.1",
    "generic": "generic.rehearsed",
    "responses": "responses.gpt-4.1",
    "anthropic": "anthropic.claude-sonnet-4-5",
}
"""fast-agent's providers that can be rehearsed, and the model that is asked: one that fast-agent knows the sizes of."""


def provider_to_rehearse(model: str) -> str | None:
    """The provider of a model if it is one that can be rehearsed; otherwise None."""
    try:
        provider = model_reference(model).provider
    except Exception:  # noqa: BLE001 - no name of a model, or an overlay that cannot be read
        return None
    return provider if provider in APIS else None


def rehearse(provider: str) -> bool:
    """Answer calls with a model of this provider, one of `APIS`; whether that went well."""
    level = logging.root.manager.disable
    logging.disable()
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            output(),  # our own loggers are not to be disabled
            nowhere(),
            without_tls(),
            asyncio.Runner(loop_factory=_LoopWithoutNetwork) as runner,
        ):
            Path("fastagent.config.yaml").write_text(_settings())
            return runner.run(asyncio.wait_for(_turns(APIS[provider]), TIME_LIMIT))
    except Exception:  # noqa: BLE001 - the first call of each worker will take longer
        return False
    finally:
        logging.disable(level)


async def _turns(model: str) -> bool:
    fast = FastAgent(NAME, parse_cli_args=False)

    def look(word: str) -> str:
        """Look."""
        return word

    @fast.agent(name=NAME, model=model, instruction="Repeat.", function_tools=[look], skills=[])
    async def agent() -> None: ...

    async with open_runtime(fast, NAME) as runtime:
        lighten_chat_streams()
        calls = Calls(
            NAME,
            runtime,
            admission=Admission(1, 1, lambda *_: None),
            vision=runtime.vision(),
            model_called=lambda _: None,
        )
        nothing: Any = None  # health is not asked
        app = WorkerApp(SPEC, calls, nothing)
        asgi = app.asgi(SPEC.allowed_hosts)
        with socket.socket() as listener:
            async with app.server.session_manager.run():
                server = HttpServer(asgi, listener, Connections(NAME, 1))
                answers = [await server.exchange(request) for request in _requests()]
    return all(b" 200 " in answer.partition(b"\r\n")[0] for answer in answers)


def _requests() -> list[bytes]:
    """What clients ask of a worker: a whole answer, a streamed one, a tool call of MCP."""
    chat = {"model": NAME, "messages": [{"role": "user", "content": "hello"}]}
    called = {"name": "send_message", "arguments": {"message": "hello"}}
    return [
        _request("/v1/chat/completions", chat),
        _request("/v1/chat/completions", {**chat, "stream": True}),
        _request("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}),
    ]


def _request(path: str, body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost:{PORT}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + text


def _settings() -> str:
    address = f"http://127.0.0.1:{PORT}"
    sections = {name: {"api_key": "none", "base_url": f"{address}/v1"} for name in APIS}
    sections["anthropic"]["base_url"] = address
    return json.dumps({"logger": {"type": "none"}, "session_history": False, "llm_retries": 0, **sections})


# --- no network ---------------------------------------------------------------------------------------------


class _Socket(socket.socket):
    """One end of a pair, which takes options that only sockets of a network have."""

    @override
    def setsockopt(self, *_: Any) -> None:
        """Nothing to set."""


class _LoopWithoutNetwork(asyncio.SelectorEventLoop):
    """A loop whose connections all lead to `_Model`."""

    @override
    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """For those that connect a socket before they give it to `create_connection`."""

    @override
    async def create_connection(
        self, protocol_factory: Callable[[], Any], *_: Any, sock: socket.socket | None = None, **__: Any
    ) -> tuple[asyncio.Transport, Any]:
        if sock is not None:
            sock.close()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        await super().connect_accepted_socket(_Model, theirs)
        end = _Socket(fileno=ours.detach())
        end.setblocking(False)
        return await super().create_connection(protocol_factory, sock=end)


class _Model(asyncio.Protocol):
    """Answers requests to a model: first with a tool call, and with text once a tool's result is there."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if not separator or len(body) < length or self._transport is None:
            return
        path = head.split(b" ")[1].decode("latin-1").partition("?")[0]
        events = ANSWERS[path](again=b"call_1" in body) if path in ANSWERS and body else None
        if events is None:  # a WebSocket is asked for
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        else:
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
                + b"".join(map(encoded, events))
            )
        self._transport.close()
