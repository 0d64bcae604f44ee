"""A table of malformed requests, each with the answer that a worker owes, and a way to send them byte by byte.

Knows HTTP and MCP on the wire; must not know how a worker is run.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from support.data.image_data import PNG

if TYPE_CHECKING:
    from collections.abc import Iterator

ERAS = ("modern", "legacy", "unsaid")
"""2026-07-28; 2025-11-25; and without a version, which stands for an old one."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
TIMEOUT = 120.0
"""Seconds: it only bounds a failing test."""

Headers = tuple[tuple[str, str], ...]


def anything(*given: Any) -> tuple[Any, ...]:
    """Values of all types, the wrong ones too."""
    return given


@dataclass(frozen=True)
class Expected:
    """The answer that is owed."""

    status: int
    """0: none, the connection is closed."""
    codes: tuple[int, ...] = ()
    """JSON-RPC error codes, one of which it must have."""
    tool_error: bool = False
    """It is a result that says that the tool failed."""
    words: str = ""
    """Part of its text."""


@dataclass(frozen=True)
class Attempt:
    """One malformed request."""

    name: str
    expected: Expected
    body: bytes = b""
    headers: Headers = ()
    method: str = "POST"
    raw: bytes | None = field(default=None, repr=False)
    """All that is sent, in place of a request made of the rest."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    content_type: str
    text: str
    headers: dict[str, str]

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message of the answer; empty if there is none."""
        if self.content_type.startswith("text/event-stream"):
            data = [line[5:] for line in re.split(r"\r\n|\r|\n", self.text) if line.startswith("data:")]
            return dict(json.loads(data[-1]))
        return dict(json.loads(self.text)) if self.content_type == "application/json" and self.text else {}

    @property
    def code(self) -> int | None:
        """The code of its JSON-RPC error."""
        error = self.message.get("error")
        return error["code"] if error else None


def send(port: int, attempt: Attempt) -> Answer:
    """Send it on a connection of its own."""
    if attempt.raw is not None:
        return send_raw(port, attempt.raw)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        has_host = any(name.lower() == "host" for name, _ in attempt.headers)
        connection.putrequest(attempt.method, "/mcp", skip_host=has_host, skip_accept_encoding=True)
        for name, value in attempt.headers:
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(attempt.body)))
        connection.endheaders(attempt.body)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        text = response.read().decode()
        return Answer(response.status, headers.get("content-type", ""), text, headers)
    finally:
        connection.close()


def send_raw(port: int, data: bytes) -> Answer:
    """Send bytes, say that there are no more, and read the first answer."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        try:
            connection.sendall(data)
            with contextlib.suppress(OSError):  # it may be reset already; the answer may be there
                connection.shutdown(socket.SHUT_WR)
            response = http.client.HTTPResponse(connection)
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers.get("content-type", ""), response.read().decode(), headers)
        except (http.client.BadStatusLine, ConnectionError):
            return Answer(0, "", "", {})


def headers(
    era: str, method: str = "tools/call", name: str | None = "send_message", **changes: str
) -> Headers:
    """The headers of a good request; a change to an empty value leaves one out."""
    fields = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if era == "legacy":
        fields["MCP-Protocol-Version"] = "2025-11-25"
    if era == "modern":
        fields |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if name is not None:
            fields["Mcp-Name"] = header_value(name)
    fields |= {key.replace("_", "-"): value for key, value in changes.items()}
    return tuple((key, value) for key, value in fields.items() if value)


def header_value(value: str) -> str:
    """A value as it stands in a header: in base64 unless it is plain."""
    if value and value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def request(era: str, method: str, params: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A JSON-RPC request, with what the era wants in `_meta`."""
    meta = {"_meta": META} if era == "modern" else {}
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": meta | params} | changes


def tool_call(era: str, tool: Any, arguments: Any) -> dict[str, Any]:
    return request(era, "tools/call", {"name": tool, "arguments": arguments})


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def table() -> list[Attempt]:
    """All attempts; their names are unique."""
    attempts = [
        attempt
        for era in ERAS
        for part in (_no_json, _no_message, _bad_params, _bad_arguments, _unknown_names, _bad_heads)
        for attempt in part(era)
    ]
    return [*attempts, *_bad_routing(), *_broken_http()]


def _no_json(era: str) -> Iterator[Attempt]:
    good = encode(tool_call(era, "send_message", {"message": "x"}))
    bodies = {
        "empty": b"",
        "blank": b"  \r\n",
        "open": good[:-1],
        "half": good[: len(good) // 2],
        "more": good + b"x",
        "two lines": good + b"\n" + good,
        "a comma": good[:-1] + b",}",
        "single quotes": good.replace(b'"', b"'"),
        "a comment": b"/* x */" + good,
        "bytes": b"\xff\xfe\x00",
        "latin-1": good.replace(b'"x"', b'"\xe9"'),
        "utf-16": good.decode().encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "half a surrogate pair": good.replace(b'"x"', b'"\\ud83d"'),
        "a control character": good.replace(b'"x"', b'"\n"'),
        "NaN": good.replace(b'"x"', b"NaN"),
        "infinity": good.replace(b'"x"', b"-Infinity"),
        "a number of 5,000 digits": good.replace(b'"x"', b"9" * 5000),
        "deep arrays": b"[" * 100_000,
        "deep objects": b'{"a":' * 100_000,
        "deep arguments": good.replace(b'"x"', b"[" * 5_000 + b"]" * 5_000),
        "gzip": b"\x1f\x8b\x08\x00",
        "a form": b"jsonrpc=2.0&id=7&method=tools%2Fcall",
        "xml": b"<methodCall><methodName>tools/call</methodName></methodCall>",
        "a multipart body": b"--x\r\nContent-Disposition: form-data\r\n\r\n{}\r\n--x--",
    }
    for name, body in bodies.items():
        yield Attempt(
            f"{era}: no JSON: {name}", Expected(400, (PARSE_ERROR,), words="Parse error"), body, headers(era)
        )


def _no_message(era: str) -> Iterator[Attempt]:
    good = tool_call(era, "send_message", {"message": "x"})
    bodies: dict[str, Any] = {
        "null": None,
        "a number": 3,
        "a string": "tools/call",
        "true": True,
        "an empty batch": [],
        "a batch": [good],
        "a batch of two": [good, good],
        "a nested batch": [[good]],
        "nothing": {},
        "a result": {"jsonrpc": "2.0", "id": 7, "result": {}},
        "an error": {"jsonrpc": "2.0", "id": 7, "error": {"code": -1, "message": "x"}},
        "a result without an id": {"jsonrpc": "2.0", "result": {}},
        "no jsonrpc": {key: value for key, value in good.items() if key != "jsonrpc"},
        "no method": {key: value for key, value in good.items() if key != "method"},
    }
    for version in ("1.0", "2", 2, 2.0, None, "", ["2.0"]):
        bodies[f"jsonrpc {version!r}"] = good | {"jsonrpc": version}
    for identifier in anything(None, True, False, 1.5, 1e300, [], {}, [7]):
        bodies[f"id {identifier!r}"] = good | {"id": identifier}
    for method in anything(None, 3, True, [], {}, ["tools/call"]):
        bodies[f"method {method!r}"] = good | {"method": method}
    for params in anything([], [1], "x", 3, True, ""):
        bodies[f"params {params!r}"] = good | {"params": params}
    for name, body in bodies.items():
        yield Attempt(
            f"{era}: no message: {name}", Expected(400, (INVALID_REQUEST,)), encode(body), headers(era)
        )


def _bad_params(era: str) -> Iterator[Attempt]:
    status = 400 if era == "modern" else 200
    for arguments in anything([], ["x"], "x", '{"message": "x"}', 3, True):
        yield Attempt(
            f"{era}: arguments {arguments!r}",
            Expected(status, (INVALID_PARAMS,), words="params.arguments"),
            encode(tool_call(era, "send_message", arguments)),
            headers(era),
        )
    for token in anything([], {}, 1.5):
        params = {"name": "send_message", "arguments": {"message": "x"}}
        call = request(era, "tools/call", params)
        call["params"]["_meta"] = call["params"].get("_meta", {}) | {"progressToken": token}
        yield Attempt(
            f"{era}: progress token {token!r}",
            Expected(status, (INVALID_PARAMS,)),
            encode(call),
            headers(era),
        )
    for cursor in anything(3, [], {}):
        yield Attempt(
            f"{era}: cursor {cursor!r}",
            Expected(status, (INVALID_PARAMS,), words="params.cursor"),
            encode(request(era, "tools/list", {"cursor": cursor})),
            headers(era, "tools/list", None),
        )
    for arguments in anything([], "x", {"a": 1}, {"a": ["x"]}):
        yield Attempt(
            f"{era}: arguments of a prompt {arguments!r}",
            Expected(status, (INVALID_PARAMS,), words="params.arguments"),
            encode(request(era, "prompts/get", {"name": "demo_history", "arguments": arguments})),
            headers(era, "prompts/get", "demo_history"),
        )
    if era == "modern":
        return
    for tool in anything(None, 3, [], {}, True):
        yield Attempt(
            f"{era}: tool {tool!r}",
            Expected(status, (INVALID_PARAMS,), words="params.name"),
            encode(tool_call(era, tool, {"message": "x"})),
            headers(era),
        )
    for params in anything({}, {"protocolVersion": 3}, {"protocolVersion": "2025-11-25", "capabilities": []}):
        yield Attempt(
            f"{era}: initialize {params!r}",
            Expected(status, (INVALID_PARAMS,)),
            encode(request(era, "initialize", params)),
            headers(era, "initialize", None),
        )


def _bad_arguments(era: str) -> Iterator[Attempt]:
    image = {"data": PNG, "mime_type": "image/png"}
    wrong: list[tuple[str, Any]] = [
        ("message", {}),
        ("message", None),
        *(("message", {"message": value}) for value in anything(None, 3, 1.5, True, [], {}, ["x"], "")),
        ("unknown argument", {"message": "x", "Message": "x"}),
        ("unknown argument", {"message": "x", "": "x"}),
        ("unknown argument", {"message": "x", "__class__": {}}),
        ("unknown argument", {"message": "x", "agent": "other", "temperature": 2}),
        ("unknown argument", {"message": "x", "n" * 5000: 1}),
        *(
            ("conversation_id", {"message": "x", "conversation_id": value})
            for value in anything(3, True, [], {})
        ),
        *(("history", {"message": "x", "history": value}) for value in anything(3, "x", True, {})),
        *(("images", {"message": "x", "images": value}) for value in anything(3, "x", True, {}, image)),
        *(("images[0]", {"message": "x", "images": [value]}) for value in anything(3, "x", None, [], {})),
        *(
            ("images[0].data", {"message": "x", "images": [image | {"data": value}]})
            for value in anything(
                None, 3, "", "!", "aGk", "aGk=\n", "data:image/png;base64,aGk=", "aGk=aGk=", "é"
            )
        ),
        *(
            ("images[0].mime_type", {"message": "x", "images": [image | {"mime_type": value}]})
            for value in anything(
                None, 3, "", "png", "text/plain", "image/svg+xml", "image/png; q=1", "x" * 5000
            )
        ),
        ("images[1]", {"message": "x", "images": [image, {}]}),
        ("", {"message": "x", "images": [image]}),  # this model sees nothing
    ]
    for index, (words, arguments) in enumerate(wrong):
        tool = ("send_message", "demo")[index % 2]
        yield Attempt(
            f"{era}: {tool} {json.dumps(arguments)[:70]} ({index})",
            Expected(200, tool_error=True, words=words),
            encode(tool_call(era, tool, arguments)),
            headers(era, name=tool),
        )
    for arguments in anything({"message": "x"}, {"": 1}, {"verbose": True}):
        yield Attempt(
            f"{era}: get_health {arguments!r}",
            Expected(200, tool_error=True, words="takes none"),
            encode(tool_call(era, "get_health", arguments)),
            headers(era, name="get_health"),
        )


def _unknown_names(era: str) -> Iterator[Attempt]:
    status = 400 if era == "modern" else 200
    names = (
        "",
        "other",
        "send_message ",
        "SEND_MESSAGE",
        "../get_health",
        "demo_history",
        "a\x00b",
        "🙂",
        "x" * 5000,
    )
    for name in names:
        yield Attempt(
            f"{era}: no tool {name[:20]!r}",
            Expected(status, (INVALID_PARAMS,), words="Unknown tool"),
            encode(tool_call(era, name, {"message": "x"})),
            headers(era, name=name),
        )
    for name in ("", "demo", "send_message", "demo_history/", "x" * 5000):
        yield Attempt(
            f"{era}: no prompt {name[:20]!r}",
            Expected(status, (INVALID_PARAMS,), words="Unknown prompt"),
            encode(request(era, "prompts/get", {"name": name})),
            headers(era, "prompts/get", name),
        )
    methods = (
        "x",
        "tools",
        "tools/call/",
        "TOOLS/LIST",
        "rpc.discover",
        "resources/list",
        "tasks/list",
        "sampling/createMessage",
        "completion/complete",
        "notifications/initialized",
        "x" * 5000,
    )
    status = 404 if era == "modern" else 200
    for method in methods:
        params = {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": "x"}}
        yield Attempt(
            f"{era}: no method {method[:30]!r}",
            Expected(status, (METHOD_NOT_FOUND,)),
            encode(request(era, method, params if method.startswith("completion") else {})),
            headers(era, method, None, Mcp_Method=header_value(method) if era == "modern" else ""),
        )


def _bad_heads(era: str) -> Iterator[Attempt]:
    """Bad by their HTTP head, with a good body."""
    body = encode(tool_call(era, "send_message", {"message": "x"}))

    def attempt(status: int, codes: tuple[int, ...] = (), method: str = "POST", **changes: str) -> Attempt:
        shown = " ".join(f"{key}={value!r}" for key, value in changes.items())
        name = f"{era}: {method} {shown}"
        return Attempt(name, Expected(status, codes), body, headers(era, **changes), method)

    # A request that says no version stands alone, and is answered with JSON.
    taken = ("", "application/json") if era == "unsaid" else ()
    for accept in sorted(
        {"", "application/json", "text/event-stream", "text/html", "image/*", "json"}.difference(taken)
    ):
        yield attempt(406, (INVALID_REQUEST,), Accept=accept)
    for content_type in (
        "",
        "text/plain",
        "text/json",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
    ):
        yield attempt(400, Content_Type=content_type)
    for host in (
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example:80",
        "localhost.evil.example",
        "[::2:80",
        "localhost:80@evil.example",
    ):
        yield attempt(421, Host=host)
    for origin in (
        "http://evil.example",
        "https://evil.example",
        "null",
        "http://localhost.evil.example:80",
        "x",
    ):
        yield attempt(403, Origin=origin)
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"):
        yield attempt(405, method=method)


def _bad_routing() -> Iterator[Attempt]:
    """Headers of 2026-07-28 that do not belong to their body, and versions that nobody serves."""
    body = encode(tool_call("modern", "send_message", {"message": "x"}))
    good = headers("modern")
    mismatch = Expected(400, (HEADER_MISMATCH,))
    wrong = {
        "Mcp_Method": ("", "tools/list", "TOOLS/CALL", "tools/call/", "=?base64?x?="),
        "Mcp_Name": ("", "demo", "SEND_MESSAGE", "=?base64?!?=", "=?base64?ZGVtbw==?="),
        "MCP_Protocol_Version": ("2099-01-01", "2026-07-27", "x", "0", "draft", "2026"),
    }
    for name, values in wrong.items():
        for value in values:
            yield Attempt(f"modern: {name} {value!r}", mismatch, body, headers("modern", **{name: value}))
    for name in ("Mcp-Method", "Mcp-Name"):
        again = next(field for field in good if field[0] == name)
        yield Attempt(f"modern: {name} twice", mismatch, body, (*good, again))
        yield Attempt(f"modern: {name} twice, differently", mismatch, body, (*good, (name, "x")))
    for version in ("2099-01-01", "2026-07-27", "x", "0", "draft"):
        meta = META | {"io.modelcontextprotocol/protocolVersion": version}
        call = request("modern", "tools/call", {"name": "send_message", "arguments": {}, "_meta": meta})
        yield Attempt(
            f"modern: version {version!r}",
            Expected(400, (UNSUPPORTED_VERSION,)),
            encode(call),
            headers("modern", MCP_Protocol_Version=version),
        )
    wrong_meta: list[Any] = [None, 3, [], {}, *({key: value} for key, value in META.items())]
    wrong_meta += [
        META | {"io.modelcontextprotocol/clientCapabilities": value} for value in anything(3, [], "x")
    ]
    for meta in wrong_meta:
        call = request("modern", "tools/call", {"name": "send_message", "arguments": {}, "_meta": meta})
        yield Attempt(f"modern: _meta {meta!r}", Expected(400, (INVALID_PARAMS,)), encode(call), good)


def _broken_http() -> Iterator[Attempt]:
    """What is no HTTP request, or one that is never finished."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost:1\r\n"
    accept = b"Accept: */*\r\nContent-Type: application/json\r\n"
    refused = {
        "no request": b"\x00\x01\x02\r\n\r\n",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "a bare line": b"POST\r\n\r\n",
        "no version": b"POST /mcp\r\n\r\n",
        "HTTP/3.0": b"POST /mcp HTTP/3.0\r\nHost: localhost:1\r\n\r\n",
        "no host": b"POST /mcp HTTP/1.1\r\n\r\n",
        "two hosts": head + b"Host: localhost:2\r\n\r\n",
        "a header without a colon": head + b"x\r\n\r\n",
        "a space before the colon": head + b"Accept : x\r\n\r\n",
        "a zero in a header": head + b"Accept: \x00\r\n\r\n",
        "a header without a name": head + b": x\r\n\r\n",
        "a negative length": head + accept + b"Content-Length: -1\r\n\r\n",
        "a length that is none": head + accept + b"Content-Length: x\r\n\r\n",
        "two lengths": head + accept + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "an unknown transfer coding": head + accept + b"Transfer-Encoding: gzip\r\n\r\n",
    }
    for name, data in refused.items():
        yield Attempt(f"HTTP: {name}", Expected(400), raw=data)
    unfinished = {
        "nothing": b"",
        "half a head": head,
        "half a body": head + accept + b"Content-Length: 100\r\n\r\n{",
        "half a chunk": head + accept + b"Transfer-Encoding: chunked\r\n\r\n10\r\n{",
        "no last chunk": head + accept + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    }
    for name, data in unfinished.items():
        yield Attempt(f"HTTP: {name}", Expected(0), raw=data)
    mebibyte = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    large = {
        "a length above the limit": b"Content-Length: 40000000\r\n\r\n",
        "a length above all limits": b"Content-Length: " + b"9" * 18 + b"\r\n\r\n",
        "chunks above the limit": b"Transfer-Encoding: chunked\r\n\r\n" + mebibyte * 32 + b"1\r\n \r\n",
    }
    for name, data in large.items():
        yield Attempt(f"HTTP: {name}", Expected(413), raw=head + accept + data)
    for name, data in {"a bad chunk size": b"x\r\n{\r\n0\r\n\r\n", "a negative chunk": b"-1\r\n\r\n"}.items():
        yield Attempt(
            f"HTTP: {name}", Expected(400), raw=head + accept + b"Transfer-Encoding: chunked\r\n\r\n" + data
        )
