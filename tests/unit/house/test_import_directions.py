"""Who imports whom, read from the sources: also imports inside functions, for types only, and by name.

`ROOMS` is the floor plan: it has every folder of code, and with it those of the same package that it may use. A new
room or arrow is written there first; an arrow that nobody uses any more is taken out.
"""

from __future__ import annotations

import functools
import graphlib
from typing import TYPE_CHECKING

import pytest

from support import sources as module
from support.repository import ROOT
from support.sources import (
    PACKAGES,
    folder_of,
    imports_of,
    modules,
    private_uses,
    room_of,
    sources,
    uses,
    where,
)

if TYPE_CHECKING:
    from pathlib import Path

MAY_IMPORT = {
    "pallas_common": set[str](),
    "pallas_registry": {"pallas_common"},
    "pallas_control": {"pallas_common", "pallas_registry"},
    "pallas_check": {"pallas_common", "pallas_registry", "pallas_control", "pallas_supervisor"},
    "pallasctl": {"pallas_common", "pallas_registry", "pallas_control", "pallas_check"},
    "pallas_supervisor": {"pallas_common", "pallas_registry"},
    "pallas": {
        "pallas_common",
        "pallas_registry",
        "pallas_control",
        "pallas_supervisor",
        "pallasctl",
        # What a command does to the gateway's store while no gateway serves; never the process `pallas` itself.
        "pallas_gateway",
    },
    "pallas_worker": {"pallas_common"},
    "pallas_gateway": {"pallas_common", "pallas_registry", "pallas_control"},
}
"""Package → what it may import of ours beside itself."""

ROOMS = {
    "pallas_common.secrets": "",
    "pallas_common": "secrets",
    "pallas_common.logs": ". secrets",
    "pallas_common.processes": "",
    "pallas_common.protocol.agent": ".",
    "pallas_common.protocol.mcp": ".",
    "pallas_common.protocol.agent.output_schema": ". http",
    "pallas_common.http": ". logs secrets",
    "pallas_common.protocol": ". protocol.agent",
    "pallas_common.tracing": "logs secrets",
    "pallas_common.protocol.link": ". logs processes protocol protocol.agent secrets",
    "pallas_common.metrics": ". http logs protocol",
    "pallas_common.metrics.writing": "logs metrics",
    "pallas_registry.reading": "",
    "pallas_registry.deployment": "reading",
    "pallas_registry.environment": "reading",
    "pallas_registry.projects.code": "reading",
    "pallas_registry.catalogue": "deployment",
    "pallas_registry.fastagent_files": "deployment reading",
    "pallas_registry.projects": "deployment projects.code reading",
    "pallas_registry.resources.kinds": "deployment reading",
    "pallas_registry.resources": "deployment reading resources.kinds",
    "pallas_registry": "deployment environment fastagent_files reading resources",
    "pallas_control": "",
    "pallas_control.mcp": ".",
    "pallas_check": "",
    "pallasctl": "",
    "pallasctl.verbs.configuration": ".",
    "pallasctl.verbs.gateway": ".",
    "pallasctl.verbs.resources": ".",
    "pallasctl.verbs.talk.terminal": ".",
    "pallasctl.verbs.resources.create": ". verbs.resources",
    "pallasctl.verbs.state": ". verbs.gateway verbs.resources",
    "pallasctl.verbs.talk": ". verbs.talk.terminal",
    "pallasctl.verbs.talk.backends": ". verbs.gateway verbs.talk",
    "pallasctl.verbs.talk.chat": ". verbs.gateway verbs.talk verbs.talk.backends verbs.talk.terminal",
    "pallasctl.verbs.agents": ". verbs.gateway verbs.state",
    "pallas_supervisor.lifecycle": "",
    "pallas_supervisor.reload": "",
    "pallas_supervisor.sockets": "",
    "pallas_supervisor.events": "lifecycle",
    "pallas_supervisor.processes.linux": "lifecycle",
    "pallas_supervisor.sockets.unserved": "lifecycle sockets",
    "pallas_supervisor.telemetry": "lifecycle",
    "pallas_supervisor.logs": "events lifecycle",
    "pallas_supervisor.processes.keeper": "lifecycle processes.linux",
    "pallas_supervisor.health": "lifecycle logs",
    "pallas_supervisor.logs.console": "logs",
    "pallas_supervisor.processes.pipes": "lifecycle logs",
    "pallas_supervisor.processes": "lifecycle processes.keeper processes.linux processes.pipes",
    "pallas_supervisor.monitors": "lifecycle processes processes.linux",
    "pallas_supervisor.agents": (
        "events health lifecycle logs monitors processes processes.linux processes.pipes reload sockets "
        "sockets.unserved telemetry"
    ),
    "pallas_supervisor.agents.gateway": (
        "agents events health lifecycle logs monitors reload sockets sockets.unserved"
    ),
    "pallas_supervisor.agents.changes": "agents agents.gateway lifecycle reload sockets sockets.unserved",
    "pallas_supervisor.agents.description": "agents health lifecycle logs reload",
    "pallas_supervisor.agents.upstreams": "agents health lifecycle reload sockets",
    "pallas_supervisor.http.page.data": "agents health lifecycle telemetry",
    "pallas_supervisor.http.control": (
        "agents agents.changes agents.description agents.gateway agents.upstreams events http.page.data lifecycle "
        "logs reload sockets telemetry"
    ),
    "pallas_supervisor.http.page.view": "http.page.data lifecycle",
    "pallas_supervisor.http.page": "http.page.data http.page.view",
    "pallas_supervisor.http": "agents http.page http.page.data reload telemetry",
    "pallas": "",
    "pallas.commands.background": "",
    "pallas.service": "",
    "pallas.commands": ". commands.background service",
    "pallas_gateway.identity": "",
    "pallas_gateway.identity.issuer": "identity",
    "pallas_gateway.store.disk": "",
    "pallas_gateway.store": "identity store.disk",
    "pallas_gateway.store.deployment": "identity store",
    "pallas_gateway.store.conversations": "store",
    "pallas_gateway.store.migrations": "store",
    "pallas_gateway.store.migrations.versions": "",
    "pallas_gateway.directory.events": "identity",
    "pallas_gateway.access": "identity store.disk",
    "pallas_gateway.directory": "directory.events identity",
    "pallas_gateway.servers.management.content": "directory",
    "pallas_gateway.servers.management": (
        "access conversations directory directory.events identity mcp relay.http servers.chat "
        "servers.management.content store"
    ),
    "pallas_gateway.mcp": "directory.events identity",
    "pallas_gateway.telemetry": "identity",
    "pallas_gateway.conversations": (
        "access conversations.keeping directory identity relay.http store store.conversations"
    ),
    "pallas_gateway.conversations.keeping": "store store.conversations",
    "pallas_gateway.http": "access identity mcp telemetry",
    "pallas_gateway.http.openapi.operations": "",
    "pallas_gateway.http.openapi": "http http.openapi.operations",
    "pallas_gateway.http.api": (
        "access directory http http.openapi http.openapi.operations identity mcp servers.management "
        "servers.management.content store store.deployment"
    ),
    "pallas_gateway.http.api.conversations": (
        "access conversations directory http http.api http.openapi http.openapi.operations identity mcp "
        "servers.chat store store.conversations telemetry"
    ),
    "pallas_gateway.http.completions": (
        "access conversations directory http http.openapi http.openapi.operations identity mcp relay.http "
        "telemetry"
    ),
    "pallas_gateway.process.upkeep": "access conversations directory identity store store.conversations",
    "pallas_gateway.http.pages.view": "conversations store.conversations",
    "pallas_gateway.http.pages": "access http http.pages.view identity identity.issuer telemetry",
    "pallas_gateway.http.pages.chat": (
        "access conversations directory http http.api http.api.conversations http.pages http.pages.view identity "
        "mcp store.conversations"
    ),
    "pallas_gateway.process": (
        "access conversations conversations.keeping directory directory.events http http.api "
        "http.api.conversations http.completions http.openapi http.pages http.pages.chat identity identity.issuer "
        "mcp process.upkeep servers.chat servers.compositor servers.management store store.conversations "
        "store.deployment telemetry"
    ),
    "pallas_gateway.relay.http": "",
    "pallas_gateway.relay.messages": "relay.http",
    "pallas_gateway.relay": "mcp relay.http relay.messages",
    "pallas_gateway.servers.chat": "conversations directory identity mcp store store.conversations",
    "pallas_gateway.servers.compositor": (
        "access directory directory.events identity mcp relay relay.http relay.messages servers.chat"
    ),
    "pallas_worker": "",
    "pallas_worker.interface.providers": "",
    "pallas_worker.interface": "interface.providers",
    "pallas_worker.agent.messages": "interface",
    "pallas_worker.agent.models": "interface interface.providers",
    "pallas_worker.downstreams": "",
    "pallas_worker.downstreams.stdio": ".",
    "pallas_worker.interface.chat": "interface",
    "pallas_worker.telemetry": "interface",
    "pallas_worker.fastagent": "downstreams downstreams.stdio interface telemetry",
    "pallas_worker.health": ". agent.models downstreams interface.providers telemetry",
    "pallas_worker.fastagent.declared": "downstreams fastagent",
    "pallas_worker.fastagent.instructions": "",
    "pallas_worker.agent.parameters": "agent.models fastagent interface",
    "pallas_worker.fastagent.streams": "fastagent fastagent.tools interface.providers",
    "pallas_worker.fastagent.tools": ". fastagent interface telemetry",
    "pallas_worker.agent": (
        ". agent.messages agent.models agent.parameters downstreams fastagent fastagent.instructions "
        "fastagent.streams fastagent.tools interface interface.providers"
    ),
    "pallas_worker.calls": (
        ". agent agent.messages agent.models downstreams fastagent fastagent.streams interface "
        "interface.chat interface.providers telemetry"
    ),
    "pallas_worker.process.declared": (
        "agent downstreams fastagent fastagent.declared fastagent.tools interface interface.chat"
    ),
    "pallas_worker.http.chat": "calls downstreams interface interface.chat telemetry",
    "pallas_worker.process.user_module": ". fastagent fastagent.instructions interface process.declared",
    "pallas_worker.http": "calls downstreams health http.chat interface interface.chat telemetry",
    "pallas_worker.process": (
        ". agent agent.models calls downstreams fastagent fastagent.instructions fastagent.streams "
        "fastagent.tools health http interface process.declared process.user_module telemetry"
    ),
    "pallas_worker.process.zygote": (
        "agent agent.models calls downstreams fastagent fastagent.instructions fastagent.streams http process "
        "process.user_module telemetry"
    ),
    "pallas_worker.process.inspection": (
        ". agent downstreams health interface process process.declared process.zygote"
    ),
}
"""Room → the rooms of its package that it uses; `.` is the package's own folder."""

NEVER = {
    "pallas_common": {"fast_agent", "mcp"},
    "pallas_registry": {"fast_agent", "mcp"},
    "pallas_supervisor": {"fast_agent", "mcp"},
    "pallas_control": {"click", "fast_agent", "mcp", "starlette", "uvicorn", "prometheus_client"},
    "pallas_check": {"click", "fast_agent", "mcp", "starlette", "uvicorn", "prometheus_client"},
    "pallasctl": {"fast_agent", "mcp", "starlette", "uvicorn", "prometheus_client"},
    "pallas": {"fast_agent", "mcp"},
    "pallas_gateway": {"click", "fast_agent"},
}
"""Package → libraries that have no place there."""

FASTAGENT_PRIVATE = {
    "pallas_worker.fastagent",
    "pallas_worker.fastagent.declared",
    "pallas_worker.fastagent.instructions",
    "pallas_worker.fastagent.streams",
    "pallas_worker.fastagent.tools",
}
"""The only rooms whose files may touch names of fast-agent that begin with an underscore."""

PURE = {
    "pallas_supervisor.lifecycle": {"asyncio", "os", "time", "random", "socket", "logging"},
    "pallas_supervisor.http.page.view": {"asyncio", "os", "time", "random", "starlette"},
    "pallas_supervisor.monitors.cpu_silence": {"asyncio", "os", "time", "random", "datetime"},
    "pallas_supervisor.health.document": {"asyncio", "os", "time", "random", "datetime"},
    "pallas_supervisor.reload.plan": {"asyncio", "os", "time", "random"},
    "pallas_supervisor.http.page.data.history": {"asyncio", "os", "time", "random", "datetime", "starlette"},
    "pallas_supervisor.http.page.data.samples": {"asyncio", "os", "time", "random", "datetime", "starlette"},
}
"""Pure rooms and files → what would make them impure."""


@functools.cache
def arrows() -> dict[str, dict[str, str]]:
    """Room → the rooms of its package that it uses, each with one place where it does."""
    known = modules()
    found: dict[str, dict[str, str]] = {room_of(name): {} for name in known}
    for name, path in known.items():
        for used, line in uses(path, known):
            if used.partition(".")[0] == name.partition(".")[0] and room_of(used) != room_of(name):
                found[room_of(name)][room_of(used)] = where(path, line)
    return found


def planned(room: str) -> set[str]:
    """The rooms that a room may use, by the plan."""
    package = room.partition(".")[0]
    return {package if one == "." else f"{package}.{one}" for one in ROOMS[room].split()}


def test_the_plan_has_every_room() -> None:
    rooms = {room for room in arrows() if len(list(folder_of(room).glob("*.py"))) > 1}
    assert not rooms - set(ROOMS), "write these into ROOMS, with the rooms that they may use"
    assert not set(ROOMS) - rooms, "take these out of ROOMS: there is no such folder any more"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_the_rooms_that_the_plan_says(room: str) -> None:
    used = arrows()[room]
    unplanned = [f"{place} imports {other}" for other, place in used.items() if other not in planned(room)]
    assert not unplanned, (
        "import from below, or write the arrow into ROOMS if it runs the same way as the others"
    )
    assert not planned(room) - used.keys(), "in the plan, and not used any more"


def test_the_plan_has_no_circle() -> None:
    graphlib.TopologicalSorter({room: planned(room) for room in ROOMS}).prepare()


def test_files_import_each_other_in_no_circle() -> None:
    known = modules()
    graph = {name: {used for used, _ in uses(path, known)} - {name} for name, path in known.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_every_package_of_ours_is_looked_at() -> None:
    packages = {
        path.parent.name for part in set(PACKAGES.values()) for path in (ROOT / part).glob("*/__init__.py")
    }
    assert packages == set(MAY_IMPORT) == set(PACKAGES)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_of_ours_only_what_it_may(package: str) -> None:
    allowed = MAY_IMPORT[package] | {package}
    wrong = [
        f"{where(path, found.line)} imports {found.module}"
        for path in sources(package)
        for found in imports_of(path)
        if found.top in PACKAGES.keys() - allowed
    ]
    assert not wrong


@pytest.mark.parametrize("package", NEVER)
def test_a_package_stays_clear_of_libraries_that_are_not_its_own(package: str) -> None:
    wrong = [
        f"{where(path, found.line)} imports {found.module}"
        for path in sources(package)
        for found in imports_of(path)
        if found.top in NEVER[package]
    ]
    assert not wrong


def test_nothing_imports_relatively() -> None:
    """Absolute imports read the same everywhere, and survive a move."""
    wrong = [path for path in modules().values() if "from ." in path.read_text()]
    assert not wrong


@pytest.mark.parametrize("name", PURE)
def test_a_pure_room_stays_pure(name: str) -> None:
    folder = folder_of(name)
    paths = sorted(folder.glob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    wrong = [
        f"{where(path, found.line)} imports {found.module}"
        for path in paths
        for found in imports_of(path)
        if found.top in PURE[name]
    ]
    assert not wrong


def test_only_the_room_for_it_touches_private_names_of_fast_agent() -> None:
    touching = {
        room_of(name)
        for name, path in modules().items()
        if name.startswith("pallas_worker") and next(private_uses(path), None) is not None
    }
    assert touching == FASTAGENT_PRIVATE


@pytest.mark.parametrize(
    "source",
    [
        "import fast_agent._core",
        "from fast_agent.core import _harness",
        "from fast_agent._core import harness",
        "def later():\n    from fast_agent.core import _harness",
        "def use(agent):\n    return agent._context",
        "getattr(agent, '_context')",
        "from fast_agent import FastAgent\nFastAgent._registry",
    ],
)
def test_the_search_for_private_names_finds(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROOT", tmp_path)
    path = tmp_path / "worker" / "sample.py"
    path.parent.mkdir()
    path.write_text(source)
    assert list(private_uses(path))


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import fast_agent.core", "fast_agent.core"),
        ("if TYPE_CHECKING:\n    from mcp import types", "mcp"),
        ("def later():\n    import pallas_worker", "pallas_worker"),
        ("importlib.import_module('pallas_worker.process.serve')", "pallas_worker.process.serve"),
        ("from . import serve", "package"),
        ("from ..other import serve", "other"),
    ],
)
def test_the_search_for_imports_finds(
    source: str, imported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROOT", tmp_path)
    path = tmp_path / "part" / "package" / "sample.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert [found.module for found in imports_of(path)] == [imported]
