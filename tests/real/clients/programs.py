"""Runs programs of others as a person who has installed them would, without a network and with a home of their own.

Knows where `scripts/lib/peers.sh` has put them; nothing of Pallas.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PEERS = ROOT / ".peers"
MODULES = PEERS / "node_modules"
PATIENCE = 60.0
"""Seconds that one run may take: it only bounds a failing test."""

_PACKAGES = (
    "@modelcontextprotocol/inspector",
    "@modelcontextprotocol/client",
    "@modelcontextprotocol/sdk",
    "mcp-remote",
    "@anthropic-ai/claude-code",
)
_QUIET = {
    "npm_config_offline": "true",
    "npm_config_update_notifier": "false",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "MCP_AUTO_OPEN_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
}
"""What each of them documents for not asking anything of the network, and opening no browser."""


@dataclass
class Programs:
    """The programs, as somebody with this home finds them."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a shell has, and no more of the caller's own: the home's `bin`, Node 22 if it is there, the system's."""
        node = MODULES.glob("node-linux-*/bin")
        path = [self.home / "bin", *node, "/usr/local/bin", "/usr/bin", "/bin"]
        return {"HOME": str(self.home), "PATH": ":".join(map(str, path)), "LANG": "C.UTF-8", **_QUIET}

    def run(
        self, command: str | Sequence[str], directory: Path, *, more: Mapping[str, str] | None = None
    ) -> str:
        """What a command writes to stdout; a text is a shell's. Any status but 0 fails the test."""
        done = subprocess.run(
            ["sh", "-c", command] if isinstance(command, str) else command,
            cwd=directory,
            env={**self.environment, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def npm_programs(home: Path) -> Programs:
    """The clients that come from npm; without them the test is not run, or fails where they are required."""
    if not (PEERS / "stamp").exists() or not all((MODULES / package).exists() for package in _PACKAGES):
        _missing("needs MCP clients of others: scripts/test installs them where npm is")
    programs = home / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    # Its package comes with a binary for each platform, which an install script would put into place.
    (claude,) = MODULES.glob("@anthropic-ai/claude-code-linux-*/claude")
    if not (programs / "claude").exists():
        (programs / "claude").symlink_to(claude)
    return Programs(home)


def python_with_sdk_1() -> str:
    """An interpreter with release 1 of the MCP SDK."""
    return python_with("mcp-1", "release 1 of the MCP SDK")


def python_with(folder: str, what: str) -> str:
    """The interpreter of a peer's own environment; without it as with the clients from npm."""
    python = PEERS / folder / "bin" / "python"
    if not (PEERS / folder / "stamp").exists():
        _missing(f"needs {what}: scripts/test installs it")
    return str(python)


def _missing(reason: str) -> None:
    if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
