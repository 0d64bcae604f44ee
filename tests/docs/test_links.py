"""Every relative link of the documents leads somewhere, and every file of code that they name is there."""

from __future__ import annotations

import functools
import re
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from support.repository import ROOT
from support.sources import PACKAGES, folder_of, modules, room_of

if TYPE_CHECKING:
    from pathlib import Path

LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
CODE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`([\w./-]+/[\w.-]+\.py)`")
OF_USERS = {"agents/dates.py", "agents/helper.py", "agents/jarvis.py", "agents/my-jarvis.py"}
"""Files that a deployment has, and this repository does not."""


def documents() -> list[str]:
    """The Markdown files of the repository, relative to it."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in found if (ROOT / name).is_file()]


def text_of(page: Path) -> str:
    """A document without its blocks of code."""
    return CODE.sub("", page.read_text())


@functools.cache
def anchors(page: Path) -> set[str]:
    """What a link may have after `#`: the headings as GitHub writes them, the second of a name with `-1`."""
    found: set[str] = set()
    for heading in HEADING.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", one) is not None for one in found)
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def fault_of(link: str, page: Path, root: Path = ROOT) -> str | None:
    """What is wrong with a link of a page, if anything."""
    if re.match(r"[a-z]+:", link):
        return None
    name, _, anchor = link.partition("#")
    target = (page.parent / unquote(name)).resolve() if name else page
    if not target.is_relative_to(root):
        return "leads out of the repository"
    if not target.exists():
        return "leads to no file"
    if anchor and (target.suffix != ".md" or anchor not in anchors(target)):
        return "leads to no heading"
    return None


def is_there(name: str, page: Path) -> bool:
    """Whether a file of code is where a page says: seen from the repository, the page, or a package."""
    bases = (
        ROOT,
        page.parent,
        *(base for package in PACKAGES for base in (folder_of(package), folder_of(package).parent)),
    )
    return any((base / name).is_file() for base in bases)


@pytest.mark.parametrize("name", documents())
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    faults = [f"{link}: {fault}" for link in LINK.findall(text_of(page)) if (fault := fault_of(link, page))]
    assert not faults


@pytest.mark.parametrize("name", documents())
def test_every_file_of_code_that_is_named_is_there(name: str) -> None:
    page = ROOT / name
    missing = [path for path in FILE.findall(text_of(page)) if not is_there(path, page)]
    assert set(missing) <= OF_USERS


@pytest.mark.parametrize("package", PACKAGES)
def test_the_readme_of_a_package_names_each_of_its_rooms(package: str) -> None:
    """A room within a room may be named without that one, in its row."""
    text = (folder_of(package).parent / "README.md").read_text()
    rooms = {room_of(module) for module in modules() if module.partition(".")[0] == package} - {package}
    files = {
        room: [path for path in folder_of(room).glob("*.py") if path.stem != "__init__"] for room in rooms
    }
    named = set(re.findall(r"`([\w/]+?)/?`", text))
    missing = [
        room
        for room in rooms
        if files[room] and not {room.partition(".")[2].replace(".", "/"), room.rpartition(".")[2]} & named
    ]
    assert not missing


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("other.md", None),
        ("other.md#a-heading-with-code--signs", None),
        ("other.md#twice-1", None),
        ("#here", None),
        ("https://example.org/nowhere", None),
        ("missing.md", "leads to no file"),
        ("other.md#twice-2", "leads to no heading"),
        ("#missing", "leads to no heading"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A heading, with `code` & signs\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text("# Here\n")
    assert fault_of(link, page, tmp_path) == fault
