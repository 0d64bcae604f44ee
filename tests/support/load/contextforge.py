"""ContextForge, a gateway of others, as its package brings it: one process, SQLite, a server registered in it.

Set up as its documentation says, with limits off and loopback addresses allowed; installed by `scripts/lib/peers.sh`.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from support.ports import free_ports
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "ContextForge"
BIN = ROOT / ".peers" / "contextforge" / "bin"
ADMIN = "admin@example.com"
PATIENCE = 90.0


@dataclass(frozen=True)
class ContextForge:
    """Where its virtual server is, and how to call the one tool in it."""

    url: str
    tool: str
    token: str
    pid: int


def is_installed() -> bool:
    """Whether there is one."""
    return (BIN / "mcpgateway").exists()


@contextmanager
def run_contextforge(behind: str) -> Iterator[ContextForge]:
    """Run it with the server of that URL, whose only tool is offered again, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="contextforge-") as folder, Path(folder, "log").open("w+") as log:
        port = free_ports(1)[0]
        environment = _environment(folder)
        with subprocess.Popen(
            [BIN / "mcpgateway", "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        ) as process:
            try:
                url = f"http://127.0.0.1:{port}"
                _await(url, process, Path(folder, "log"))
                token = _token(folder, environment)
                tool, server = _register(url, token, behind)
                yield ContextForge(f"{url}/servers/{server}/mcp", tool, token, process.pid)
            finally:
                process.terminate()


def _environment(folder: str) -> dict[str, str]:
    def secret() -> str:
        return secrets.token_hex(32) + "aA1!"

    return {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "DATABASE_URL": f"sqlite:///{folder}/mcp.db",
        "JWT_SECRET_KEY": secret(),
        "AUTH_ENCRYPTION_SECRET": secret(),
        "BASIC_AUTH_PASSWORD": secret(),
        "DEFAULT_USER_PASSWORD": secret(),
        "PLATFORM_ADMIN_EMAIL": ADMIN,
        "PLATFORM_ADMIN_PASSWORD": secret(),
        "SSRF_ALLOW_LOCALHOST": "true",
        "RATE_LIMITING_ENABLED": "false",
        "TOOL_RATE_LIMIT": "1000000",
    }


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{NAME} does not serve:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)


def _token(folder: str, environment: dict[str, str]) -> str:
    made = subprocess.run(
        [
            BIN / "python",
            "-m",
            "mcpgateway.utils.create_jwt_token",
            "--username",
            ADMIN,
            "--exp",
            "60",
            "--admin",
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.split()[-1]


def _register(url: str, token: str, behind: str) -> tuple[str, str]:
    """The tool's name in it, and the id of the virtual server that has it."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:

        def post(path: str, body: dict[str, Any]) -> Any:
            answer = client.post(path, json=body)
            assert answer.is_success, (path, answer.status_code, answer.text[:1000])
            return answer.json()

        post("/gateways", {"name": "tool", "url": behind, "transport": "STREAMABLEHTTP"})
        (tool,) = client.get("/tools").raise_for_status().json()
        server = post("/servers", {"server": {"name": "bench", "associated_tools": [tool["id"]]}})
        return tool["name"], server["id"]
