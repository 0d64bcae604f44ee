"""The files that instructions are read from: which an agent's definition has read, and which an instance includes.

Knows fast-agent's templates and the state of files; must not know calls.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import contextvars
from pathlib import Path
from typing import Any

from fast_agent.core import direct_decorators
from fast_agent.core.instruction import InstructionBuilder

from pallas_worker.fastagent.instructions.dates import today

MOST_FILES = 200
"""Files of an instance that are looked at again."""

type _State = tuple[int, int, int] | None
"""Of a file: time, size, number; None for one that is not there."""


class Rendering:
    """What the instructions of one instance are true for: the day, and the files that they include."""

    def __init__(self) -> None:
        self._day = today()
        self._files: dict[Path, _State] = {}

    def is_current(self) -> bool:
        """Return whether they would be the same now."""
        return self._day == today() and all(_state(path) == state for path, state in self._files.items())

    def include(self, path: Path) -> None:
        """Note a file that is about to be read."""
        if len(self._files) < MOST_FILES:
            self._files.setdefault(path, _state(path))


def note_files() -> None:
    """Note the files that instructions are read from, in this process."""
    for owner, name, replacement in _REPLACED:
        setattr(owner, name, replacement)


def begin_rendering() -> Rendering:
    """Have the files that this context's instances include noted in what is returned."""
    begun = Rendering()
    _rendering.set(begun)
    return begun


def instruction_files() -> tuple[Path, ...]:
    """Return the files that agents were defined with, absolute: they are read once, as a module is."""
    return tuple(_read)


_rendering: contextvars.ContextVar[Rendering | None] = contextvars.ContextVar("rendering", default=None)
_read: dict[Path, None] = {}
_read_text_source = vars(direct_decorators)["read_text_source"]
_resolve_path = InstructionBuilder._resolve_file_placeholder_path


def _noting_source(source: Any, *arguments: Any, **options: Any) -> str:
    if isinstance(source, Path):
        _read[source.expanduser().absolute()] = None
    text: str = _read_text_source(source, *arguments, **options)
    return text


def _noting_path(builder: InstructionBuilder, path: Path) -> Path:
    resolved = _resolve_path(builder, path)
    if (rendering := _rendering.get()) is not None:
        rendering.include(resolved)
    return resolved


def _state(path: Path) -> _State:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


_REPLACED: tuple[tuple[Any, str, object], ...] = (
    (direct_decorators, "read_text_source", _noting_source),
    (InstructionBuilder, "_resolve_file_placeholder_path", _noting_path),
)
