"""How large the rooms are: what a reader can take in at a glance."""

from __future__ import annotations

import ast
import re

import pytest

from support.repository import ROOT
from support.sources import PACKAGES, folder_of, modules, room_of

MOST_ENTRIES = 12
"""Files and folders at the top level of a package."""
MOST_FILES = 10
"""Files in a room, without its `__init__.py`."""
MOST_LINES = 400
"""Lines of a file, unless its docstring says why there are more (`Long because`)."""

COMMON_ROOMS = {"http", "logs", "metrics", "processes", "protocol", "secrets", "tracing"}
"""The rooms of what all share. A new one needs a reason: what only one package uses belongs into that package."""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_seen_at_a_glance(package: str) -> None:
    entries = {path.name for path in folder_of(package).iterdir() if path.name != "__pycache__"}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


@pytest.mark.parametrize("room", sorted({room_of(name) for name in modules()}))
def test_a_room_has_few_files(room: str) -> None:
    files = {path.name for path in folder_of(room).glob("*.py") if path.name != "__init__.py"}
    assert len(files) <= MOST_FILES, sorted(files)


def test_no_file_is_long_without_a_reason() -> None:
    unexplained = []
    for path in modules().values():
        text = path.read_text()
        if text.count("\n") > MOST_LINES and "Long because" not in (ast.get_docstring(ast.parse(text)) or ""):
            unexplained.append(str(path))
    assert not unexplained


def test_the_rooms_of_what_all_share_are_known() -> None:
    rooms = {path.parent.name for path in folder_of("pallas_common").glob("*/__init__.py")}
    assert rooms == COMMON_ROOMS


@pytest.mark.parametrize("room", sorted({room_of(name) for name in modules()} - set(PACKAGES)))
def test_a_readme_names_the_room_and_what_to_read_first(room: str) -> None:
    package, _, inside = room.partition(".")
    if not any(path.name != "__init__.py" for path in folder_of(room).glob("*.py")):
        return
    readme = (ROOT / PACKAGES[package] / "README.md").read_text()
    row = re.search(rf"^\| `{inside.replace('.', '/')}/` \|.*\| `([\w/]+\.py)`[^|]*\|$", readme, re.MULTILINE)
    assert row, f"{PACKAGES[package]}/README.md needs a row for it"
    assert (folder_of(package) / row[1]).is_file()
