"""Which of a project's agents call each other: servers of the settings that are other agents of the project.

Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_common.protocol.gateway import DEFAULT_PORT
from pallas_registry.projects.code.facts import reach
from pallas_registry.projects.servers import Server, target_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pallas_registry.projects.model import Entry


def wanted_ports(entries: Sequence[Entry], servers: Mapping[str, Server]) -> dict[str, tuple[int, str]]:
    """Entries' names → the port at which the settings look for the agent, and where that is said.

    An agent is meant by a server that has its name, or the port on which its own file serves it. What is at the
    gateway's default port is the gateway, and no agent gets that port.
    """
    found: dict[str, tuple[int, str]] = {}
    for server in servers.values():
        if server.port is None or server.port < 1024 or server.port == DEFAULT_PORT:
            continue
        why = f"{server.file} names for {server.name}"
        for entry in entries:
            same_name = _slug(server.name) in {_slug(entry.name), _slug(_agent(entry))}
            if entry.name not in found and (same_name or entry.source.port == server.port):
                found[entry.name] = (server.port, why)
                break
    return found


def with_dependencies(
    entries: Sequence[Entry], servers: Mapping[str, Server], files: Mapping[str, bytes]
) -> list[Entry]:
    """The entries with `depends_on`, and no cycle in it."""
    by_port = {entry.port: entry.name for entry in entries}
    by_file: dict[str, list[str]] = {}
    for entry in entries:
        by_file.setdefault(entry.source.file, []).append(entry.name)
    depends: dict[str, dict[str, str | None]] = {}
    for entry in entries:
        depends[entry.name] = {}
        for server in _servers(entry, servers, files):
            targets: dict[str, str | None] = {}
            if server.port in by_port:
                targets[by_port[server.port]] = None
            for script in server.scripts:
                for name in by_file.get(script, ())[:1]:
                    targets[name] = script
            for target, runs in targets.items():
                if target != entry.name and not _leads_to(target, entry.name, depends):
                    depends[entry.name].setdefault(target, runs)
    ports = {entry.name: entry.port for entry in entries}
    return [
        replace(
            entry,
            depends_on=tuple(depends[entry.name]),
            remarks=(
                *entry.remarks,
                *(
                    f"it runs a copy of {script}; to use this one: `url: http://localhost:{ports[target]}/mcp`"
                    for target, script in depends[entry.name].items()
                    if script is not None
                ),
            ),
        )
        for entry in entries
    ]


def _servers(entry: Entry, servers: Mapping[str, Server], files: Mapping[str, bytes]) -> Iterator[Server]:
    """The servers of the served agent and of all that it is made of."""
    source = entry.source
    known = source.served is not None and source.served.name is not None
    inner = reach(source.served.name or "", source.definitions) if known and source.served else None
    for definition in source.definitions:
        if inner is None or definition.name in inner:
            for name in definition.servers:
                if name in servers:
                    yield servers[name]
            for target in definition.targets:
                yield target_server(target, definition.file, files)


def _leads_to(start: str, goal: str, depends: Mapping[str, Mapping[str, object]]) -> bool:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        each = waiting.pop()
        if each == goal:
            return True
        if each not in found:
            found.add(each)
            waiting.extend(depends.get(each, ()))
    return False


def _agent(entry: Entry) -> str:
    served = entry.source.served
    return (served.name if served is not None else None) or entry.name


def _slug(name: str) -> str:
    return name.lower().replace("_", "-")
