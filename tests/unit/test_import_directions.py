"""Who imports whom, read from the sources: also imports inside functions, for types only, and by name.

The table is the one of the folders in the README: each part may use what stands beside it and nothing else of ours.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

MAY_IMPORT = {
    "registry/pallas_registry": set(),
    "worker/pallas_worker": {"pallas_registry"},
    "supervisor/pallas_supervisor": {"pallas_registry"},
    "supervisor/pallasctl": {"pallas_registry"},
    "supervisor/pallas": {"pallas_registry", "pallas_supervisor"},
}
"""Package → what it may import of ours beside itself."""

OURS = {Path(package).name for package in MAY_IMPORT}

NEVER = {
    "registry/pallas_registry": {"fast_agent", "mcp"},
    "supervisor/pallas_supervisor": {"fast_agent", "mcp"},
    "supervisor/pallasctl": {"fast_agent", "mcp", "starlette", "uvicorn", "prometheus_client"},
    "supervisor/pallas": {"fast_agent", "mcp"},
}
"""Package → libraries that have no place there."""

FASTAGENT_PRIVATE = "worker/pallas_worker/fastagent"
"""The only folder whose files may touch names of fast-agent that begin with an underscore."""

OTHERS_PRIVATE = {"_init_value"}
"""Private names that are used and known to be somebody else's: prometheus_client's."""

PURE = {
    "machine": {"asyncio", "os", "time", "random", "socket", "logging", "datetime"},
    "actions": {"asyncio", "os", "time", "random", "socket", "logging", "datetime"},
    "states": {"asyncio", "os", "time", "random", "socket", "logging", "datetime"},
    "backoff": {"asyncio", "os", "time", "random", "datetime"},
    "graph": {"asyncio", "os", "time", "random"},
    "plan": {"asyncio", "os", "time", "random"},
    "rollup": {"asyncio", "os", "time", "random", "datetime"},
    "pulse": {"asyncio", "os", "time", "random", "datetime"},
    "wording": {"asyncio", "os", "time", "random"},
    "page/charts": {"asyncio", "os", "time", "random", "datetime", "starlette"},
    "page/graph": {"asyncio", "os", "time", "random", "datetime", "starlette"},
    "page/history": {"asyncio", "os", "time", "random", "datetime", "starlette"},
    "page/html": {"asyncio", "os", "time", "random", "datetime", "starlette"},
    "page/layers": {"asyncio", "os", "time", "random", "datetime", "starlette"},
    "page/render": {"asyncio", "os", "time", "random", "datetime", "starlette"},
    "page/samples": {"asyncio", "os", "time", "random", "datetime", "starlette"},
}
"""Pure rooms of the supervisor → what would make them impure."""


@dataclass(frozen=True)
class Import:
    """One imported name: `module` is absolute, `name` what is taken out of it, if anything."""

    module: str
    name: str | None
    line: int

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[Import]:
    """Every import of a source file, wherever in it it stands."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = module_of(path).split(".")
                keep = len(base) - node.level + (path.name == "__init__.py")
                module = ".".join([*base[:keep], *([module] if module else [])])
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.Call) and (name := _imported_by_call(node)):
            yield Import(name, None, node.lineno)


def _imported_by_call(call: ast.Call) -> str | None:
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function not in ("import_module", "__import__") or not call.args:
        return None
    name = call.args[0]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def sources(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"{folder} is empty"
    return found


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_package_of_ours_is_looked_at():
    packages = {
        str(path.parent.relative_to(ROOT))
        for part in ("registry", "supervisor", "worker")
        for path in (ROOT / part).glob("*/__init__.py")
    }
    assert packages == set(MAY_IMPORT)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_of_ours_only_what_it_may(package: str):
    allowed = MAY_IMPORT[package] | {Path(package).name}
    wrong = [
        f"{where(path, found.line)} imports {found.module}"
        for path in sources(package)
        for found in imports_of(path)
        if found.top in OURS - allowed
    ]
    assert not wrong


@pytest.mark.parametrize("package", NEVER)
def test_a_package_stays_clear_of_libraries_that_are_not_its_own(package: str):
    wrong = [
        f"{where(path, found.line)} imports {found.module}"
        for path in sources(package)
        for found in imports_of(path)
        if found.top in NEVER[package]
    ]
    assert not wrong


def test_nothing_imports_relatively():
    """Absolute imports read the same everywhere, and survive a move."""
    wrong = [
        where(path, node.lineno)
        for package in MAY_IMPORT
        for path in sources(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not wrong


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_stays_pure(room: str):
    path = ROOT / "supervisor/pallas_supervisor" / f"{room}.py"
    assert not {found.top for found in imports_of(path)} & PURE[room]


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def private_uses(path: Path) -> Iterator[str]:
    """Names with an underscore that may be fast-agent's: imported from it, or taken from some object.

    What is taken from `self`, `cls`, or something that was imported from elsewhere is not fast-agent's.
    """
    theirs: set[str] = set()
    for found in imports_of(path):
        if found.top == "fast_agent":
            if any(map(is_private, [*found.module.split("."), found.name or ""])):
                yield f"{where(path, found.line)} imports {found.module}.{found.name}"
        else:
            theirs.add(found.name or found.top)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            if base not in {"self", "cls", *theirs} and node.attr not in OTHERS_PRIVATE:
                yield f"{where(path, node.lineno)} uses .{node.attr}"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "setattr", "delattr"):
            name = node.args[1] if len(node.args) > 1 else None
            if isinstance(name, ast.Constant) and is_private(str(name.value)):
                yield f"{where(path, node.lineno)} reaches for {name.value}"


def test_exactly_one_folder_touches_private_names_of_fast_agent():
    touching = {
        str(path.relative_to(ROOT).parent)
        for path in sources("worker/pallas_worker")
        if next(private_uses(path), None) is not None
    }
    assert touching == {FASTAGENT_PRIVATE}


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
def test_the_search_for_private_names_finds(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("test_import_directions.ROOT", tmp_path)
    path = tmp_path / "worker" / "sample.py"
    path.parent.mkdir()
    path.write_text(source)
    assert list(private_uses(path))


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import fast_agent.core", "fast_agent.core"),
        ("if TYPE_CHECKING:\n    from mcp import types", "mcp"),
        ("def later():\n    import pallas_worker", "pallas_worker"),
        ("importlib.import_module('pallas_worker.serve')", "pallas_worker.serve"),
        ("from . import serve", "package"),
        ("from ..other import serve", "other"),
    ],
)
def test_the_search_for_imports_finds(
    source: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("test_import_directions.ROOT", tmp_path)
    path = tmp_path / "part" / "package" / "sample.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert [found.module for found in imports_of(path)] == [module]
