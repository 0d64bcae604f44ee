"""Records of what chat clients send and what they make of the answer, written for tests to replay.

Knows processes, HTTP and files; what is asked is in `chat_clients`. No secret and no name of a machine is written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from scripts.lib.chat_clients import CLIENTS, Ask, Client

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("PALLAS_CHAT_CLIENTS") or ROOT / ".peers" / "chat-clients")
RECORDS = ROOT / "tests" / "fakes" / "chat" / "clients"

MODEL, KEY = "agent", "key-of-the-recording"
ANSWER = "It is about 8,849 metres high."
PATIENCE = 300
"""Seconds for one program."""

_HEAD = {"id": "chatcmpl-1", "created": 1, "model": MODEL}
_USAGE = {"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17}
_MODEL = {"id": MODEL, "object": "model", "created": 1, "owned_by": "recorder"}
WHOLE: dict[str, Any] = {
    **_HEAD,
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": ANSWER},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": _USAGE,
}

_DROPPED = {"host", "content-length", "authorization", "connection", "cookie"}
"""Headers that say nothing of the client, or too much."""
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


def chunks() -> list[dict[str, Any]]:
    """Return the events of the streamed answer."""
    head = {**_HEAD, "object": "chat.completion.chunk"}
    deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in re.findall(r"\S+\s*", ANSWER)]
    deltas.append(({}, "stop"))
    found: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        for delta, finish in deltas
    ]
    return [*found, {**head, "choices": [], "usage": _USAGE}]


class Recorder(BaseHTTPRequestHandler):
    """Gives canned answers, and keeps what was asked."""

    protocol_version = "HTTP/1.1"
    requests: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        """List the model, or say what it is."""
        self._keep(None)
        one = self.path.removeprefix("/v1/models").strip("/")
        self._send(_MODEL if one else {"object": "list", "data": [_MODEL]})

    def do_POST(self) -> None:
        """Answer a chat completion."""
        body = json.loads(self._body())
        self._keep(body)
        if body.get("stream"):
            events = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks()) + "data: [DONE]\n\n"
            self._write(events.encode(), "text/event-stream")
        else:
            self._send(WHOLE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _keep(self, body: object) -> None:
        headers = {
            name.lower(): value for name, value in self.headers.items() if name.lower() not in _DROPPED
        }
        self.requests.append(
            {
                "method": self.command,
                "path": self.path,
                "has_key": self.headers.get("authorization") == f"Bearer {KEY}",
                "headers": headers,
                "body": body,
            }
        )

    def _send(self, document: object) -> None:
        self._write(json.dumps(document).encode(), "application/json")

    def _write(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def installed(name: str, client: Client) -> Path:
    """Install a client in a folder of its own, once; return the folder."""
    folder = FOLDER / name
    if (folder / "stamp").is_file():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"installing {' '.join(client.packages) or name}", flush=True)
    if client.kind == "node":
        node = f"node-linux-{'arm64' if os.uname().machine == 'aarch64' else 'x64'}@22"
        npm = [
            "npm",
            "install",
            "--prefix",
            str(folder),
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--silent",
        ]
        _run([*npm, node], folder)
        # npm takes releases that its own Node can run, and the system's may be an older one.
        ahead = f"{_node(folder).parent}:{os.environ['PATH']}"
        _run([*npm, *client.packages], folder, {**os.environ, "PATH": ahead})
    elif client.packages:
        older = os.environ.get("PALLAS_OLDER_PYTHON", "python3.12")
        python = older if client.kind == "older python" else sys.executable
        _run([python, "-m", "venv", str(folder / "venv")], folder)
        pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run([*pip, *client.packages], folder)
    (folder / "stamp").touch()
    return folder


def version(folder: Path, client: Client) -> str:
    """Return the version of an installed client."""
    if not client.packages:
        return _run(["curl", "--version"], folder).split()[1]
    package = client.packages[0]
    if client.kind == "node":
        manifest = json.loads((folder / "node_modules" / package / "package.json").read_text())
        return str(manifest["version"])
    program = f"import importlib.metadata as m; print(m.version({package!r}))"
    return _run([str(folder / "venv/bin/python"), "-c", program], folder).strip()


def record(name: str, base_url: str) -> dict[str, Any]:
    """Let a client ask, whole and streamed."""
    client = CLIENTS[name]
    folder = installed(name, client)
    asked: dict[str, Any] = {}
    for ask in client.asks:
        Recorder.requests.clear()
        told = _talk(folder, client, ask, base_url)
        asked[ask] = {"requests": list(Recorder.requests), "told": told}
    return {"client": client.title, "version": version(folder, client), **asked}


def _talk(folder: Path, client: Client, ask: Ask, base_url: str) -> str:
    names = {"PATH": f"{folder}/venv/bin:{folder}/node_modules/.bin:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as home:
        names |= {"HOME": home, "BASE_URL": base_url, "API_KEY": KEY, "MODEL": MODEL, "LANG": "C.UTF-8"}
        names |= {"DO_NOT_TRACK": "1", "HAYSTACK_TELEMETRY_ENABLED": "False"}
        match client.kind:
            case "node":
                program = folder / "ask.mjs"
                program.write_text(client.program)
                command = [str(_node(folder)), str(program), ask]
            case "python":
                command = [str(folder / "venv/bin/python"), "-c", client.program, ask]
            case _:
                command = ["bash", "-euc", client.program, "bash", ask]
        return _run(command, Path(home), names).strip()


def _node(folder: Path) -> Path:
    return next(folder.glob("node_modules/node-linux-*/bin/node"))


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603 - the table's own commands
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=None if environment is None else PATIENCE,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise SystemExit(f"{command[0]} has failed")
    return done.stdout


def main(names: list[str]) -> None:
    """Record the clients of these names, or all."""
    if unknown := [name for name in names if name not in CLIENTS]:
        raise SystemExit(f"no such client: {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    RECORDS.mkdir(parents=True, exist_ok=True)
    for name in names or CLIENTS:
        found = record(name, f"http://127.0.0.1:{server.server_port}/v1")
        text = json.dumps(found, indent=1, ensure_ascii=False)
        (RECORDS / f"{name}.json").write_text(_ADDRESS.sub("127.0.0.1", text) + "\n")
        print(f"{name} {found['version']}: {found['whole']['told'][-60:]!r}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
