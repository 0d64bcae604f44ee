"""The texts of `module:` and `card:` in agents.yaml as an `AgentSource`, or what is wrong with them.

Pure; whether there are such files is for others to look.
"""

from __future__ import annotations

import keyword
import posixpath
import sys

from pallas_common.problems import quoted, shortened
from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.reading.rules import Complaint

CARD_SUFFIXES = (".md", ".markdown", ".yaml", ".yml")
"""What fast-agent reads as an agent card."""

LONGEST = 1000
"""Characters of a source: more than any path that makes sense."""


def module_source(value: str) -> AgentSource | Complaint:
    """The source in `module:`: `agents.jarvis` or `agents/jarvis.py`, and `:name` or `:name()` behind it."""
    if len(value) > LONGEST:
        return Complaint(f"has {len(value)} characters", f"use at most {LONGEST}")
    path, colon, held = value.partition(":")
    if colon and (complaint := _held(path, held)):
        return complaint
    name = held.removesuffix("()") or None
    is_factory = held.endswith("()")
    if "/" in path or path.endswith(".py"):
        place = _within(path)
        if isinstance(place, Complaint):
            return place
        if not place.endswith(".py"):
            return _no_python_file(value, path)
        return AgentSource("file", place, name, is_factory)
    return _module(path) or AgentSource("module", path, name, is_factory)


def card_source(value: str) -> AgentSource | Complaint:
    """The source in `card:`: the path of an agent card or of a folder of them."""
    if len(value) > LONGEST:
        return Complaint(f"has {len(value)} characters", f"use at most {LONGEST}")
    if "://" in value:
        return Complaint(
            f"{quoted(value)} is a URL",
            "download the card, look at it, and name the file: a card can run code",
        )
    if not value.strip():
        return Complaint("is empty", "name an agent card, as in `card: cards/jarvis.md`, or a folder of them")
    if value.endswith(".py"):
        return Complaint(
            f"{quoted(value)} is Python code, no agent card", "write it behind `module:` instead"
        )
    place = _within(value)
    return place if isinstance(place, Complaint) else AgentSource("card", place)


def _held(path: str, held: str) -> Complaint | None:
    """The complaint about what stands behind the colon."""
    name, bracket, _ = held.partition("(")
    if not _is_name(name):
        return Complaint(
            f"{quoted(held)} is not the name of a FastAgent in {quoted(path)}",
            "write the name behind the colon, as in `agents.jarvis:app`, or of what makes it, as in "
            "`agents.jarvis:create()`",
        )
    if bracket and not held.endswith("()"):
        return Complaint(
            f"{quoted(held)} has arguments", f"write `{shortened(path)}:{shortened(name)}()`: none are given"
        )
    if bracket and held != f"{name}()":
        return Complaint(f"{quoted(held)} is no call", f"write `{shortened(path)}:{shortened(name)}()`")
    return None


def _within(value: str) -> str | Complaint:
    """The path in the working directory, as short as it can be said.

    A path that leads out is refused: the working directory is what is deployed, and whose changes are noticed.
    """
    if not value.isprintable():
        return Complaint(
            f"{quoted(value)} is not a path", "write the path of a file, in the working directory"
        )
    if value.startswith(("/", "~")):
        return Complaint(
            f"{quoted(value)} is not in the working directory", "write a path that is relative to it"
        )
    place = posixpath.normpath(value)
    if place == ".." or place.startswith("../"):
        return Complaint(
            f"{quoted(value)} leads out of the working directory",
            "move the file into it, or run pallas in the folder above",
        )
    return place


def _module(path: str) -> Complaint | None:
    """The complaint about what should be a dotted path that Python can import."""
    if _is_dotted_path(path):
        first = path.partition(".")[0]
        if first in sys.stdlib_module_names:
            return Complaint(f"`{first}` is Python's own module", "rename yours")
        return None
    if path.endswith(CARD_SUFFIXES):
        return Complaint(f"{quoted(path)} is no Python module", "write an agent card behind `card:` instead")
    if _is_dotted_path(path.replace("-", "_")):
        file = f"{path.replace('.', '/')}.py"
        better = next(part for part in path.split(".") if "-" in part).replace("-", "_")
        return Complaint(
            f"{quoted(path)} cannot be imported: it has a hyphen",
            f"name the file, `{shortened(file)}`, or rename it: `{shortened(better)}`",
        )
    return Complaint(
        f"{quoted(path)} is not a Python module's dotted path",
        "write it as in `agents.jarvis`, or the file, as in `agents/jarvis.py`",
    )


def _no_python_file(value: str, path: str) -> Complaint:
    if path.endswith(CARD_SUFFIXES):
        return Complaint(f"{quoted(value)} is no Python file", "write an agent card behind `card:` instead")
    return Complaint(f"{quoted(value)} is no Python file", f"write `{shortened(path.rstrip('/'))}.py`")


def _is_dotted_path(value: str) -> bool:
    return all(_is_name(part) for part in value.split("."))


def _is_name(value: str) -> bool:
    return value.isidentifier() and not keyword.iskeyword(value)
