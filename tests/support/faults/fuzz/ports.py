"""The ports and the control socket: requests, what is nearly one, and connections that say nothing."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from typing import TYPE_CHECKING, Any

from support.faults.fuzz.material import MARK, deep, expensive_text, hostile_value, mangled, mutated, one_line
from support.faults.fuzz.watched_fleet import VICTIMS, WatchedFleet
from support.fleet.fleet import PATIENCE

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


PATHS = {
    "registry": (
        *("/", "/metrics", "/health", "/livez", "/readyz", "/v0.1/servers", "/fragments/agents", "/nothing"),
        *("/v0.1/servers/local.test%2Fcalm/versions/latest", "/.well-known/mcp/server.json"),
    ),
    "control": (
        *("/v1/status", "/v1/health", "/v1/logs", "/v1/wait", "/v1/reload", "/v1/start", "/v1/nothing"),
    ),
    "agent": ("/mcp", "/metrics", "/", "/health"),
}

_QUERIES = (
    "limit",
    "cursor",
    "search",
    "updated_since",
    "version",
    "n",
    "since",
    "level",
    "agent",
    "follow",
    "x",
)

_HEADERS = (
    *("Host", "Origin", "Accept", "Accept-Encoding", "Content-Length", "Transfer-Encoding", "Content-Type"),
    *("If-None-Match", "If-Modified-Since", "Authorization", "Expect", "Connection", "Upgrade", "Cookie"),
    *("MCP-Protocol-Version", "Mcp-Session-Id", "X-Request-Id", "traceparent"),
)


def _request(paths: tuple[str, ...], bodies: list[Any], rng: random.Random) -> bytes:
    """Something between a request and noise."""
    if rng.random() < 0.08:
        return rng.choice(
            (
                rng.randbytes(500),
                b"\r\n" * 2000,
                b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 9000,
                b"\x16\x03\x01" * 40,
            )
        )
    path = rng.choice(paths)
    if rng.random() < 0.6:
        pairs = [
            f"{rng.choice(_QUERIES)}={_quoted(hostile_value(rng), rng)}" for _ in range(rng.randrange(1, 4))
        ]
        path += "?" + "&".join(pairs)
    body = b""
    method = rng.choice(
        ("GET", "GET", "POST", "POST", "HEAD", "DELETE", "OPTIONS", "PUT", "get", "\x00", "CONNECT")
    )
    if method in ("POST", "PUT", "DELETE"):
        body = rng.choice((
            lambda: json.dumps(mutated(rng.choice(bodies), rng)).encode(),
            lambda: json.dumps(hostile_value(rng)).encode(),
            lambda: deep(rng, 100_000),
            lambda: rng.randbytes(300),
            lambda: expensive_text(rng, 60_000).encode(),
        ))()  # fmt: skip
    head = [
        f"{method} {path} HTTP/{rng.choice(('1.1', '1.1', '1.0', '2.0', '9'))}",
        "Host: 127.0.0.1",
        f"Content-Length: {len(body)}",
    ]
    if rng.random() < 0.6:
        head.append("Content-Type: application/json")
        head.append("Accept: application/json, text/event-stream")
    head += [f"{rng.choice(_HEADERS)}: {one_line(hostile_value(rng))}" for _ in range(rng.randrange(3))]
    data = "\r\n".join(head).encode("utf-8", "replace") + b"\r\n\r\n" + body
    return mangled(data, rng) if rng.random() < 0.2 else data


def _quoted(value: Any, rng: random.Random) -> str:
    text = one_line(value)[:8_000].replace(" ", "%20")
    return text + rng.choice(("", "", "%", "%zz", "%00", "%ff%fe", "+", "#"))


def _attack_port(
    connect: Callable[[], socket.socket], kind: str, bodies: list[Any], rng: random.Random
) -> None:
    """A few connections at a time: some say something and read the answer, some go away, some stay silent."""
    open_ones = []
    try:
        for _ in range(rng.choice((1, 5, 20))):
            connection = connect()
            connection.settimeout(0.02)
            open_ones.append(connection)
            with contextlib.suppress(OSError):
                for _ in range(rng.choice((0, 1, 1, 3))):
                    connection.sendall(_request(PATHS[kind], bodies, rng))
                if rng.random() < 0.7:
                    connection.recv(65_536)
                if rng.random() < 0.2:  # a reset instead of an end
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    finally:
        for connection in open_ones:
            connection.close()


def attack_registry(fleet: WatchedFleet, rng: random.Random) -> None:
    port = fleet.deployment.document["registry_port"]
    _attack_port(lambda: socket.create_connection(("127.0.0.1", port), PATIENCE), "registry", [{}], rng)


def attack_agent_port(fleet: WatchedFleet, rng: random.Random) -> None:
    port = fleet.deployment.agents[rng.choice(VICTIMS)]["port"]
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "send_message", "arguments": {"message": MARK, "history": [], "images": []}},
    }
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    _attack_port(lambda: socket.create_connection(("127.0.0.1", port), PATIENCE), "agent", [call, ask], rng)


def attack_absent_agent_port(fleet: WatchedFleet, rng: random.Random) -> None:
    """The port of an agent that nobody serves: the supervisor itself answers there."""
    victim = rng.choice(VICTIMS)
    assert fleet.fleet.post("/v1/stop", agents=[victim]).status_code == 200
    port = fleet.deployment.agents[victim]["port"]
    for _ in range(10):
        _attack_port(lambda: socket.create_connection(("127.0.0.1", port), PATIENCE), "agent", [{}], rng)
    assert fleet.fleet.post("/v1/start", agents=[victim]).status_code == 200


def attack_control(fleet: WatchedFleet, rng: random.Random) -> None:
    path = str(fleet.fleet.runtime / "control.sock")

    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        connection.connect(path)
        return connection

    bodies: list[Any] = [
        {"agents": ["victim"], "wait": False, "timeout": 1},
        {"agents": ["twin"], "wait": True, "timeout": 0.1, "for": "ready"},
        {"dry_run": True},
    ]
    _attack_port(connect, "control", bodies, rng)
