"""The MCP servers of fast-agent's settings, as the worker of an agent gets them: with variables and secrets filled in.

Tolerant: what is wrong with the files, fast-agent says when it reads them. A server that cannot be read is left out.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pallas_common.problems import ConfigurationError
from pallas_common.secrets.references import expanded
from pallas_registry.fastagent_files.discovery import settings_file
from pallas_registry.fastagent_files.paths import HOME_VARIABLE, SECRETS_FILES
from pallas_registry.reading.files import read_file
from pallas_registry.reading.nodes import compose, plain

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_NUMBER = 9
TRANSPORTS = ("http", "sse", "stdio")
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What MCP clients pass on of their own environment to a server that they start (the SDK's default)."""


class _UnusableError(ValueError):
    """Nobody but the agent could connect by these settings."""


class ConfiguredServers(NamedTuple):
    """What the settings say."""

    servers: Mapping[str, Mapping[str, Any]]
    """Name → settings in fast-agent's words: `transport`, `url`, `headers`, `command`, `args`, `env`, `cwd`, …"""
    unread: Mapping[str, str]
    """Name → why a server cannot be used by others than the agent itself; no value is in it."""


def configured_servers(directory: Path, environ: Mapping[str, str]) -> ConfiguredServers:
    """The servers that an agent finds which runs in `directory` with this environment."""
    try:
        path = settings_file(directory, environ.get(HOME_VARIABLE))
    except ConfigurationError:
        path = None
    if path is None:
        return ConfiguredServers({}, {})
    said = _mapping(path)
    for name in SECRETS_FILES:
        said = _merged(said, _mapping(path.parent / name))
    mcp = said.get("mcp")
    found = mcp.get("servers") if isinstance(mcp, Mapping) else None
    servers: dict[str, Mapping[str, Any]] = {}
    unread: dict[str, str] = {}
    for name, fields in found.items() if isinstance(found, Mapping) else ():
        try:
            servers[str(name)] = _server(fields, directory, environ)
        except ValueError as error:  # also of a URL that is none, and of quotes that are not closed
            unread[str(name)] = str(error)
    return ConfiguredServers(servers, unread)


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        state = path.stat()
    except (OSError, ValueError):
        return {}
    return _read(path, state.st_mtime_ns, state.st_ino)


@functools.lru_cache(maxsize=32)
def _read(path: Path, _changed: int, _inode: int) -> Mapping[str, Any]:
    """What the file says; read once for each of its states."""
    try:
        data = read_file(path)
        root = None if data is None else compose(data, str(path))
    except ConfigurationError:
        return {}
    said = None if root is None else plain(root)
    return said if isinstance(said, dict) else {}


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Mapping[str, Any]:
    """Both together, mappings by their keys, as fast-agent lays its secrets over its settings."""
    together = dict(base)
    for key, value in over.items():
        below = together.get(key)
        together[key] = (
            _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        )
    return together


def _server(fields: object, directory: Path, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """One server's settings.

    Raises:
        ValueError: they are none that others could connect by; says why.
    """
    said = _filled(fields, environ)
    if not isinstance(said, Mapping):
        raise _UnusableError("its settings are no mapping")
    if said.get("management") == "provider" or said.get("connector_id"):
        raise _UnusableError("the model's provider connects to it itself")
    if "target" in said:
        said = {**said, **_of_target(_text(said, "target") or "")}
    url, command = _text(said, "url"), _text(said, "command")
    transport = said.get("transport") or ("http" if url else "stdio")
    if transport not in TRANSPORTS:
        raise _UnusableError("its transport is none of http, sse and stdio")
    settings: dict[str, Any] = {"transport": transport}
    if transport == "stdio":
        if not command:
            raise _UnusableError("it has neither a URL nor a command")
        settings |= {
            "command": command,
            "args": [_plain_text(each) for each in said.get("args") or ()],
            "env": {**_inherited(environ), **_texts(said, "env")},
            "cwd": str(directory / (_text(said, "cwd") or ".")),
        }
    else:
        if not url:
            raise _UnusableError("it has no URL")
        settings |= {"url": _with_path(url, transport), "headers": _headers(said)}
    if (timeout := said.get("read_timeout_seconds")) is not None:
        settings["read_timeout_seconds"] = _seconds(timeout)
    return settings


def _seconds(value: object) -> int:
    if not isinstance(value, str | int) or not str(value).isdecimal() or len(str(value)) > LONGEST_NUMBER:
        raise _UnusableError("its read_timeout_seconds is no number")
    return int(value)


def _inherited(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in INHERITED if name in environ}


def _filled(value: object, environ: Mapping[str, str], depth: int = 16) -> object:
    """The value with variables put in, and no deeper than any setting is."""
    match value:
        case str():
            return expanded(value, environ)
        case Mapping() if depth:
            return {str(name): _filled(each, environ, depth - 1) for name, each in value.items()}
        case list() if depth:
            return [_filled(each, environ, depth - 1) for each in value]
        case _:
            return value


def _headers(said: Mapping[str, Any]) -> dict[str, str]:
    headers = _texts(said, "headers")
    token = _text(said, "access_token")
    if token and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = token if token.lower().startswith("bearer ") else f"Bearer {token}"
    return headers


def _of_target(target: str) -> dict[str, Any]:
    """What fast-agent makes of its short form: a URL, or a command with its arguments."""
    if "://" in target:
        url = target.split()[0]
        transport = "sse" if urlsplit(url).path.endswith("/sse") else "http"
        return {"transport": transport, "url": url}
    words = shlex.split(target)
    if not words:
        raise _UnusableError("its target is empty")
    if words[0].startswith("@"):
        words = ["npx", *words]
    return {"transport": "stdio", "command": words[0], "args": words[1:]}


def _with_path(url: str, transport: str) -> str:
    """The URL with the path that fast-agent gives to one that ends neither in `/mcp` nor in `/sse`."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _UnusableError("its URL is none of http or https")
    path = parts.path.rstrip("/")
    if transport == "sse" or parts.query or path.endswith(("/mcp", "/sse")):
        return url
    return urlunsplit(parts._replace(path=f"{path}/mcp"))


def _text(said: Mapping[str, Any], key: str) -> str | None:
    value = said.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _UnusableError(f"its {key} is no text")
    return value.strip()


def _texts(said: Mapping[str, Any], key: str) -> dict[str, str]:
    value = said.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _UnusableError(f"its {key} is no mapping")
    return {name: _plain_text(each) for name, each in value.items()}


def _plain_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _UnusableError("one of its values is no text")
    return str(value)
