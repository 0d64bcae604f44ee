"""Whether what an agent is to be made from is there: its Python file, its agent card, its folder of cards.

Looks at names and kinds of files, and into none of them. Dotted paths are not looked for: where Python finds a module
depends on the agent's own environment.
"""

from __future__ import annotations

import posixpath
import stat
from itertools import islice
from typing import TYPE_CHECKING

from pallas_common.problems import did_you_mean, quoted
from pallas_registry.reading.rules import Complaint
from pallas_registry.reading.sources import CARD_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pallas_common.protocol.agent.source import AgentSource

MOST_ENTRIES = 10_000
"""Of a folder that is searched."""


def source_complaint(source: AgentSource, directory: Path) -> Complaint | None:
    """What is wrong with the file or folder of `source` in the working directory, if anything."""
    if source.kind == "module":
        return None
    path = directory / source.path
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _missing(source, path)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        return Complaint(f"{quoted(source.path)} cannot be looked at: {reason}", "see to its permissions")
    if stat.S_ISDIR(mode):
        return _folder(source, path)
    if not stat.S_ISREG(mode):
        return Complaint(f"{quoted(source.path)} is no regular file", "name a file")
    if source.kind == "card" and not source.path.lower().endswith(CARD_SUFFIXES):
        return Complaint(
            f"{quoted(source.path)} is no agent card", f"use a file that ends in {', '.join(CARD_SUFFIXES)}"
        )
    return None


def _folder(source: AgentSource, path: Path) -> Complaint | None:
    if source.kind == "file":
        return Complaint(f"{quoted(source.path)} is a folder", "name a Python file in it")
    if any(name.lower().endswith(CARD_SUFFIXES) for name in _names(path)):
        return None
    return Complaint(
        f"the folder {quoted(source.path)} holds no agent card", f"cards end in {', '.join(CARD_SUFFIXES)}"
    )


def _missing(source: AgentSource, path: Path) -> Complaint:
    kind = "agent card or folder" if source.kind == "card" else "file"
    near = did_you_mean(path.name, _names(path.parent, lambda entry: _fits(source, entry)))
    remedy = "write it, or mend the path: it is relative to the working directory"
    if near:
        remedy = f"did you mean {quoted(posixpath.join(posixpath.dirname(source.path), near))}?"
    return Complaint(f"there is no {kind} {quoted(source.path)}", remedy)


def _fits(source: AgentSource, entry: Path) -> bool:
    return (
        entry.is_dir() or entry.name.endswith(CARD_SUFFIXES)
        if source.kind == "card"
        else entry.suffix == ".py"
    )


def _names(folder: Path, wanted: Callable[[Path], bool] = lambda _: True) -> list[str]:
    """Of the entries in the folder, as far as it can be read."""
    try:
        return [entry.name for entry in islice(folder.iterdir(), MOST_ENTRIES) if wanted(entry)]
    except (OSError, ValueError):
        return []
