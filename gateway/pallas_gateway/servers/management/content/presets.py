"""Presets: agents to begin with, as resources or cards: those that are shipped, and those in the project's `presets/`.

Files of the project are read anew where they have changed. One that cannot be used is in the list, with what is wrong.
"""

from __future__ import annotations

import os
import stat
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_registry.resources.documents import read_resources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

type Json = dict[str, Any]

FOLDER = "presets"
MOST_FILES = 200
MOST_BYTES = 256 * 1024
"""Of one file."""
RESOURCES = (".yaml", ".yml", ".json")
CARD = ".md"


class Presets:
    """The presets of a project. Methods read files: call them in a thread."""

    def __init__(self) -> None:
        self._shipped: list[Json] | None = None

    def all(self, directory: str | None) -> list[Json]:
        """All of them; where a name is there twice, the project's."""
        if self._shipped is None:
            self._shipped = list(_shipped())
        found = {each["name"]: each for each in self._shipped}
        for each in _of_project(directory):
            found[each["name"]] = each
        return [found[name] for name in sorted(found)]

    def signature(self, directory: str | None) -> object:
        """What changes when the project's presets do."""
        return [(path.name, status.st_mtime_ns, status.st_size) for path, status in _files(directory)]


def _shipped() -> Iterator[Json]:
    folder: Traversable = resources.files("pallas_gateway.servers.management.content") / "preset_files"
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(RESOURCES):
            yield from _of_file(file.name, file.read_bytes(), "shipped")


def _of_project(directory: str | None) -> Iterator[Json]:
    for path, status in _files(directory):
        if status.st_size > MOST_BYTES:
            yield _broken(path.name, f"has more than {MOST_BYTES} bytes")
            continue
        try:
            data = path.read_bytes()[: MOST_BYTES + 1]
        except OSError as error:
            yield _broken(path.name, f"cannot be read: {error.strerror}")
            continue
        yield from _of_file(path.name, data, "project")


def _files(directory: str | None) -> list[tuple[Path, os.stat_result]]:
    if not directory:
        return []
    found = []
    try:
        with os.scandir(Path(directory) / FOLDER) as entries:
            for entry in entries:
                if entry.name.endswith((*RESOURCES, CARD)) and not entry.name.startswith("."):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):  # a pipe would be read for ever
                        found.append((Path(entry.path), status))
    except OSError:
        pass  # there is none, or it is not ours to read
    return sorted(found)[:MOST_FILES]


def _of_file(name: str, data: bytes, source: str) -> Iterator[Json]:
    if name.endswith(CARD):
        text = data.decode("utf-8", "replace")
        yield {"name": name.removesuffix(CARD), "kind": "card", "source": source, "file": name, "text": text}
        return
    read = read_resources(data, name)
    for problem in read.problems:
        yield _broken(name, str(problem))
        return
    for resource in read.resources:
        if resource.id.kind == "agent":
            yield {
                "name": resource.id.name,
                "kind": "agent",
                "source": source,
                "file": name,
                "description": resource.spec.get("description", resource.id.name.title()),
                "output_schema": resource.spec.get("outputSchema"),
                "spec": dict(resource.spec),
            }


def _broken(name: str, error: str) -> Json:
    return {
        "name": name.rpartition(".")[0],
        "kind": "error",
        "source": "project",
        "file": name,
        "error": error,
    }
