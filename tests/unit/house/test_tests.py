"""How the tests are kept: in rooms as the product's, small ones, and none of them needs another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.repository import ROOT
from support.sources import PACKAGES, folder_of, imports_of

if TYPE_CHECKING:
    from pathlib import Path

TESTS = ROOT / "tests"
UNIT = TESTS / "unit"

MOST_ENTRIES = 12
"""Files and folders in a folder of tests."""

FOLDERS = sorted({TESTS, *(path.parent for path in TESTS.rglob("*.py"))})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_is_seen_at_a_glance(folder: Path) -> None:
    entries = {path.name for path in folder.iterdir() if path.name != "__pycache__"}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_no_test_imports_another() -> None:
    """What several tests need is in `tests/support` or `tests/fakes`, where it is looked for."""
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"
        for path in TESTS.rglob("*.py")
        for found in imports_of(path)
        if any(part.startswith("test_") for part in (*found.module.split("."), found.name or ""))
    ]
    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_the_rooms_of_unit_tests_are_those_of_the_product(package: str) -> None:
    tested = UNIT / package
    unknown = [
        str(room)
        for room in {path.parent.relative_to(tested) for path in tested.rglob("test_*.py")}
        if not (folder_of(package) / room).is_dir()
    ]
    assert not unknown
