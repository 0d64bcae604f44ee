"""Every command in the documentation runs as a reader would run it, and prints what the page says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.documents.blocks import Block, blocks_of, commands_of
from support.documents.pages import (
    INSTALL,
    READERS,
    Folder,
    as_read,
    expected,
    pages,
    prepare,
)
from support.documents.shell import Shell, matches
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RUN_WITH_OTHERS = (ROOT / "tests" / "real" / "test_examples.py").read_text()
FOLDERS = {
    Folder.EMPTY: "first",
    Folder.PROJECT: "trips",
    Folder.QUICKSTART: "quickstart",
    Folder.RUNNING: "quickstart",
}


class Reader:
    """Somebody in a folder of his own, with an empty home."""

    def __init__(self, folder: Folder, directory: Path) -> None:
        home = directory / "home"
        home.mkdir(parents=True)
        self.ports: Mapping[str, str] = prepare(folder, directory / FOLDERS[folder])
        self.socket = home / "run" / "control.sock"
        log = home / ".local" / "state" / "pallas" / "pallas.log"
        self.shell = Shell(directory / FOLDERS[folder], home, {"PALLAS_LOG_FILE": str(log)})

    def follows(self, page: str) -> None:
        """Run all commands of a page, and compare what they print with what it says."""
        blocks = blocks_of(ROOT / page)
        commands = [block for block in blocks if block.language == "bash" and block.not_run is None]
        printed = self.shell.run(
            [INSTALL, *(as_read(block.text, self.ports, self.socket) for block in commands)]
        )
        assert len(printed) == len(commands) + 1
        for block, output in zip(commands, printed[1:], strict=True):
            for shown in shown_below(block, blocks):
                wanted = expected(shown.text, self.ports)
                assert matches(wanted, output), (
                    f"{page}:{shown.line}: {block.text}printed\n{output}\nnot\n{wanted}"
                )


def shown_below(block: Block, blocks: list[Block]) -> list[Block]:
    """The block that stands right below one of commands: what they print."""
    end = block.line + block.text.count("\n") + 1
    return [other for other in blocks if other.line == end + 2 and other.language in {"text", "yaml", "json"}]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody whose quickstart runs."""
    reader = Reader(Folder.RUNNING, tmp_path_factory.mktemp("running"))
    try:
        reader.shell.run(["pallas up -d"])
        yield reader
    finally:
        reader.shell.run(["pallas down --now"])


def is_run(page: str) -> bool:
    """Whether a page has commands that a test runs."""
    return any(block.language == "bash" and block.not_run is None for block in blocks_of(ROOT / page))


@pytest.mark.parametrize("page", [page for page, folder in READERS.items() if folder is not Folder.RUNNING])
def test_the_commands_of_a_page(page: str, tmp_path: Path) -> None:
    reader = Reader(READERS[page], tmp_path)
    try:
        reader.follows(page)
    finally:
        if (reader.shell.folder / "agents.yaml").exists():
            reader.shell.run(["pallas down --now"])


@pytest.mark.parametrize("page", [page for page, folder in READERS.items() if folder is Folder.RUNNING])
def test_the_commands_of_a_page_about_what_runs(page: str, running: Reader) -> None:
    running.follows(page)


def test_no_command_is_left_out() -> None:
    """A page with commands has a reader, is an example with programs of others, or says why they are not run."""
    examples = {page: re.fullmatch(r"examples/(.+)/README\.md", page) for page in pages()}
    others = {page for page, match in examples.items() if match and f'"{match[1]}"' in RUN_WITH_OTHERS}
    assert {page for page in pages() if is_run(page)} == {*READERS, *others}


def test_the_first_answer_takes_six_commands_and_the_first_page_of_all_has_the_same() -> None:
    commands = commands_of(ROOT / "docs/getting-started.md")
    first = commands[: next(at for at, line in enumerate(commands) if "pallasctl ask" in line) + 1]
    assert len(first) == 6
    readme = "\n".join(commands_of(ROOT / "README.md"))
    assert "\n".join(first) in readme
