"""The import of the user's module by its dotted path, or of a file by its place.

Knows Python's import; nothing of agents.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from pallas_common.protocol.agent.source import AgentSource
    from pallas_worker.process.user_module.errors import UserCode

PREFIX = "agent_file_"
"""Before the name of a file's module whose own name another module has."""


def import_source(source: AgentSource, directory: str) -> ModuleType:
    """The module of `source`, which has run then, under a name of its own that is never `__main__`.

    A file is imported as a part of its package where all folders above it, below the working directory, have an
    `__init__.py`: relative imports work in it then. Else it is a module by itself. Its folder is on the module path
    either way, as it is for a script.
    """
    if source.kind == "module":
        return importlib.import_module(source.path)
    path = Path(directory, source.path)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(sys.path.index(directory) + 1 if directory in sys.path else 0, folder)
    if (dotted := _dotted_path(source.path, Path(directory))) is not None:
        return importlib.import_module(dotted)
    name = path.stem.replace(".", "_")
    if name in sys.modules or name in sys.stdlib_module_names:
        name = PREFIX + name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source.path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def namesake(source: AgentSource, code: UserCode) -> str | None:
    """The complaint about a module called like one of Python's own, which is what was imported."""
    if source.kind != "module":
        return None
    package = source.path.partition(".")[0]
    spec = getattr(sys.modules.get(package), "__spec__", None)
    if package not in sys.stdlib_module_names or spec is None or code.owns(str(spec.origin)):
        return None
    return f"`{package}` is Python's own module; rename yours"


def _dotted_path(file: str, directory: Path) -> str | None:
    """What the file is called as a part of a package; None if it is in none, or if another package is called so."""
    *folders, name = file.removesuffix(".py").split("/")
    if not folders or any("." in part for part in (*folders, name)):
        return None
    place = directory
    for folder in folders:
        place /= folder
        if not (place / "__init__.py").is_file():
            return None
    loaded = sys.modules.get(folders[0])
    if loaded is None:
        known = importlib.util.find_spec(folders[0])
        origin = None if known is None else known.origin
    else:
        origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin) != directory / folders[0] / "__init__.py":
        return None
    return ".".join((*folders, name))
