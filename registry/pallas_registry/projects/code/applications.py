"""The FastAgents of a project, put together from all its Python files: an instance may get its agents in several.

Pure: takes contents of files. Knows how an import statement finds a file of the project.
"""

from __future__ import annotations

import keyword
import posixpath
import re
import sys
from typing import TYPE_CHECKING

from pallas_common.problems import Problem, counted
from pallas_registry.projects.code.constants import Room
from pallas_registry.projects.code.facts import Application, Definition, PythonFile, Source, served
from pallas_registry.projects.code.python_file import read_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from pallas_registry.projects.code.facts import Card, Factory, Notes
    from pallas_registry.projects.code.files import Tree

MAXIMUM_IMPORT_DEPTH = 40
"""Files that import each other in a row; what is deeper is not followed."""

_MENTIONED = re.compile(rb"FastAgent|fast_agent|mcp_agent")
_WORD = re.compile(rb"[\w\x80-\xff]+")
_SOURCE_FOLDERS = ("", "src")
"""Where the top level of the module path may be."""


class Sources:
    """All Python files of a project, each read once, when it is needed."""

    def __init__(self, tree: Tree) -> None:
        self._files = tree.files
        self._read: dict[str, PythonFile] = {}
        self._depth = 0
        self.room = Room()
        self.dotted: dict[str, str] = {}
        """Paths of files → the dotted path by which another file imports them."""
        for path, data in tree.files.items():
            if path.endswith(".py") and _MENTIONED.search(data):
                self.file(path)
        self._read_importers()

    def __iter__(self) -> Iterator[PythonFile]:
        return iter(sorted(self._read.values(), key=lambda found: (found.path.count("/"), found.path)))

    def file(self, path: str) -> PythonFile:
        if path not in self._read:
            self._read[path] = found = PythonFile(path)
            self._depth += 1
            read_python(self._files[path], path, self, found)
            self._depth -= 1
        return self._read[path]

    def module(self, name: str, level: int, file: str) -> PythonFile | None:
        """The file that an import statement in `file` reads, if it is one of the project."""
        if self._depth > MAXIMUM_IMPORT_DEPTH:
            return None
        here = posixpath.dirname(file)
        bases: Sequence[str] = (*_SOURCE_FOLDERS, here)
        if level:
            for _ in range(min(level - 1, 20)):
                here = posixpath.dirname(here)
            bases = (here,)
        inside = name.replace(".", "/")
        for base in bases:
            for ending in (".py", "/__init__.py"):
                path = posixpath.join(base, f"{inside}{ending}").lstrip("/")
                if path in self._files and path != file:
                    if not level and "." in name and base != file:
                        self.dotted.setdefault(path, name)
                    return self.file(path)
        return None

    def closure(self, path: str) -> set[str]:
        """The files that importing the one at `path` executes, itself included."""
        found: set[str] = set()
        waiting = [path]
        while waiting:
            each = waiting.pop()
            if each not in found and each in self._read:
                found.add(each)
                waiting.extend(self._read[each].imports)
        return found

    def _read_importers(self) -> None:
        """Reads the files that take a FastAgent from another one, without a word of fast-agent themselves."""
        stems = {
            posixpath.basename(posixpath.dirname(path) if path.endswith("__init__.py") else path)
            .removesuffix(".py")
            .encode()
            for path, found in self._read.items()
            if found.applications or found.factories
        }
        if not stems:
            return
        for path, data in self._files.items():
            if path.endswith(".py") and path not in self._read and _may_import(data, stems):
                self.file(path)


def _may_import(data: bytes, stems: AbstractSet[bytes]) -> bool:
    """Whether a line has the word `import` and one of these. One pass over each line, whatever its length."""
    return any(b"import" in line and not stems.isdisjoint(_WORD.findall(line)) for line in data.splitlines())


def module_sources(
    tree: Tree, cards: Sequence[Card], notes: Notes, is_installed: Callable[[str], bool]
) -> tuple[list[Source], set[str], list[str]]:
    """What can stand behind `module:`, the cards that modules load themselves, and what was left out and why.

    Args:
        is_installed: whether Python finds a package of that name without the project's folder.
    """
    sources = Sources(tree)
    found: list[Source] = []
    loaded: set[str] = set()
    left_out: list[str] = []
    for file in sources:
        notes.mend.extend(file.problems)
    for application, holders in _held(sources).items():
        holder, name, definitions = _holder(sources, application, holders, notes)
        own = _loaded_cards(application, cards)
        loaded.update(card.definition.file for card in own)
        definitions += [card.definition for card in own]
        if not definitions and application.late:
            definitions = application.late
            first = definitions[0]
            message = "the agents are defined inside a function, which Pallas does not run"
            remedy = "move the decorated functions to the top level of the file"
            notes.mend.append(Problem(first.file, first.line, "", message, remedy))
        if not definitions and application.complete:
            left_out.append(f"{application.file}:{application.line}: this FastAgent defines no agent")
            continue
        value = _module_value(sources.file(holder), tree, sources, notes, is_installed)
        found.append(_source(f"{value}:{name}" if name != "fast" else value, application, definitions, notes))
    for file in sources:
        for name, factory in file.factories.items():
            if factory.application.file != file.path or _is_held(sources, factory.application):
                continue
            _refuse_arguments(name, factory, file.path, notes)
            application = factory.application
            if not application.definitions and application.complete and not application.card_paths:
                left_out.append(f"{file.path}:{factory.line}: {name}() defines no agent")
                continue
            own = _loaded_cards(application, cards)
            loaded.update(card.definition.file for card in own)
            definitions = [*application.definitions, *(card.definition for card in own)]
            value = _module_value(file, tree, sources, notes, is_installed)
            found.append(_source(f"{value}:{name}()", application, definitions, notes))
    return found, loaded, left_out


type _Holders = list[tuple[str, str]]
"""Paths of files, and the name that each has for the FastAgent."""


def _held(sources: Sources) -> dict[Application, _Holders]:
    held: dict[int, tuple[Application, _Holders]] = {}
    for file in sources:
        for name, application in file.applications.items():
            held.setdefault(id(application), (application, []))[1].append((file.path, name))
    return dict(held.values())


def _is_held(sources: Sources, application: Application) -> bool:
    return any(application in file.applications.values() for file in sources)


def _holder(
    sources: Sources, application: Application, holders: _Holders, notes: Notes
) -> tuple[str, str, list[Definition]]:
    """The file to be served, its name for the FastAgent, and the agents that are defined once it is imported."""
    wanted = {found.file for found in application.definitions}

    def rank(holder: tuple[str, str]) -> tuple[int, bool, bool, int]:
        path, name = holder
        missing = len(wanted - sources.closure(path))
        return missing, path != application.file, name != "fast", path.count("/")

    path, name = min(holders, key=rank)
    within = sources.closure(path)
    if missing := sorted(wanted - within):
        message = f"its agents are defined in {counted(len(wanted), 'file')}, and none imports them all"
        remedy = f"import {', '.join(missing[:3])} at the end of {path}"
        notes.mend.append(Problem(application.file, application.line, "", message, remedy))
    return path, name, [found for found in application.definitions if found.file in within]


def _loaded_cards(application: Application, cards: Sequence[Card]) -> list[Card]:
    paths = {posixpath.normpath(path) for path in application.card_paths}
    return [card for card in cards if card.definition.file in paths or (card.folder or ".") in paths]


def _source(value: str, application: Application, definitions: Sequence[Definition], notes: Notes) -> Source:
    if not application.complete and len(definitions) < 1:
        notes.unknown.append(f"which agents {application.file}:{application.line} has: others define them")
    chosen = served(definitions)
    return Source(
        key="module",
        value=value,
        file=application.file,
        line=application.line,
        definitions=tuple(definitions),
        served=chosen,
        free_name=len(definitions) < 2 and application.complete,
        name=application.name,
        port=application.port,
        docstring=application.docstring,
        own_settings=application.own_settings,
    )


def _refuse_arguments(name: str, factory: Factory, path: str, notes: Notes) -> None:
    if factory.required:
        message = f"{name}() returns a FastAgent, and needs {', '.join(factory.required)}"
        notes.mend.append(Problem(path, factory.line, "", message, "give each of its arguments a default"))


def _module_value(
    file: PythonFile, tree: Tree, sources: Sources, notes: Notes, is_installed: Callable[[str], bool]
) -> str:
    """What stands behind `module:` for the file: a dotted path where it is part of a package, else its path."""
    *folders, last = file.path.removesuffix(".py").split("/")
    base = len(folders)
    while base and "/".join(folders[:base]) in tree.packages:
        base -= 1
    inside = [*folders[base:], *([] if last == "__init__" else [last])]
    above = "/".join(folders[:base])
    if base == len(folders):  # in no package
        dotted = sources.dotted.get(file.path, "")
        return (
            dotted if dotted and "/".join(dotted.split(".")) == file.path.removesuffix(".py") else file.path
        )
    if not _is_importable(inside):
        return file.path
    if not above:
        return ".".join(inside)
    package = f"{above}/{inside[0]}/"
    if not any(path.startswith(package) for path in file.imports):
        return file.path
    if not is_installed(inside[0]):
        message = f"is in the package {inside[0]}, which is not installed"
        remedy = "run `pip install -e .` where Pallas is installed"
        notes.mend.append(Problem(file.path, None, "", message, remedy))
    return ".".join(inside)


def _is_importable(parts: Sequence[str]) -> bool:
    good = all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)
    return good and parts[0] not in sys.stdlib_module_names
