"""The sources as data: which package and room a file belongs to, what it imports, and which private names it uses."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

PACKAGES = {
    "pallas_common": "common",
    "pallas_registry": "registry",
    "pallas_supervisor": "supervisor",
    "pallas_control": "supervisor",
    "pallas_check": "supervisor",
    "pallasctl": "supervisor",
    "pallas": "supervisor",
    "pallas_worker": "worker",
    "pallas_gateway": "gateway",
}
"""Package → the folder that it is in."""

OTHERS_PRIVATE = {"_init_value"}
"""Private names that are used and known to be somebody else's: prometheus_client's."""


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
    """The dotted name of a file of ours."""
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


def sources(package: str, root: Path = ROOT) -> list[Path]:
    """The source files of a package."""
    found = sorted((root / PACKAGES[package] / package).rglob("*.py"))
    assert found, f"{package} is empty"
    return found


def folder_of(room: str) -> Path:
    """The folder of a room: `pallas_worker.agent` → worker/pallas_worker/agent."""
    package = room.partition(".")[0]
    return ROOT / PACKAGES[package] / room.replace(".", "/")


def room_of(module: str) -> str:
    """The room of a module of ours: the folder that its file is in."""
    return module if (folder_of(module) / "__init__.py").exists() else module.rpartition(".")[0]


def modules() -> dict[str, Path]:
    """Every module of ours and its file."""
    return {module_of(path): path for package in PACKAGES for path in sources(package)}


def uses(path: Path, known: Container[str]) -> Iterator[tuple[str, int]]:
    """The modules of ours that a file imports, each with its line; `from package import module` is the module."""
    for found in imports_of(path):
        whole = f"{found.module}.{found.name}"
        if whole in known:
            yield whole, found.line
        elif found.module in known:
            yield found.module, found.line


def where(path: Path, line: int) -> str:
    """A place in the sources as people write it."""
    return f"{path.relative_to(ROOT)}:{line}"


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
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and is_private(name.value):
                yield f"{where(path, node.lineno)} reaches for {name.value}"
