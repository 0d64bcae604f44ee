"""The MCP servers of a project's settings, as far as they can be agents of the project itself.

Pure. Reads addresses and commands, never headers or environments.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.problems import ConfigurationError
from pallas_registry.projects.code.files import FAST_AGENT_HOME, SETTINGS
from pallas_registry.reading.nodes import compose, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
_FILE = re.compile(r"[\w./-]+\.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One MCP server of the settings that is on this machine."""

    name: str
    file: str
    """The settings file."""
    port: int | None = None
    """Of an address of this machine, with the path under which Pallas serves agents."""
    scripts: tuple[str, ...] = ()
    """The project's files that its command runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What fast-agent's settings of a project say that matters here."""

    servers: Mapping[str, Server]
    has_model: bool
    """Whether they name a model for agents that name none."""
    file: str
    """Where such a model is to be written."""


def read_settings(files: Mapping[str, bytes]) -> Settings:
    """The settings in the project's folder, or in fast-agent's home there, which comes first."""
    found: dict[str, Server] = {}
    has_model = False
    paths = [
        path
        for folder in (f"{FAST_AGENT_HOME}/", "")
        for name in SETTINGS
        if (path := folder + name) in files
    ]
    for path in paths:
        try:
            root = compose(files[path], path)
        except ConfigurationError:
            has_model = True  # nobody knows; `pallas check` says what is wrong
            continue
        said = plain(root) if root is not None else None
        if not isinstance(said, dict):
            continue
        has_model = has_model or bool(said.get("default_model"))
        mcp = said.get("mcp")
        servers = mcp.get("servers") if isinstance(mcp, dict) else None
        for name, server in servers.items() if isinstance(servers, dict) else ():
            if isinstance(server, dict):
                found.setdefault(name, _server(name, path, server, files))
    return Settings(servers=found, has_model=has_model, file=paths[0] if paths else SETTINGS[-1])


def target_server(target: str, file: str, files: Mapping[str, bytes]) -> Server:
    """What a card's own `mcp_connect` names."""
    return _server(target, file, {"target": target}, files)


def _server(name: str, file: str, said: Mapping[str, object], files: Mapping[str, bytes]) -> Server:
    target = said.get("url") or said.get("target")
    if isinstance(target, str) and "://" in target:
        return Server(name=name, file=file, port=_port(target))
    words = [target] if isinstance(target, str) else []
    words += [word for word in (said.get("command"), *_list(said.get("args"))) if isinstance(word, str)]
    scripts = dict.fromkeys(
        path
        for word in words
        for part in _FILE.findall(word[:2000])
        if (path := posixpath.normpath(part)) in files
    )
    return Server(name=name, file=file, scripts=tuple(scripts))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _port(url: str) -> int | None:
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname in _LOOPBACK and parts.path.rstrip("/") in {"", "/mcp"}:
            return parts.port
    except ValueError:
        pass
    return None
