"""What `-f` names: files, folders, stdin; and what cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pallasctl.failures import InvalidConfiguration
from pallasctl.verbs.resources.files import File, files_of


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"# {name}\n")


def names(*paths: str, recursive: bool = False) -> list[str]:
    return [file.name for file in files_of(paths, recursive=recursive)]


def test_a_folder_is_its_files_in_the_order_of_their_names() -> None:
    write("d/b.yml", "d/a.yaml", "d/c.json", "d/notes.txt", "d/.hidden.yaml", "d/sub/e.yaml", "d/.git/f.yaml")
    write("d/agents.yaml", "d/fastagent.config.yaml", "d/sub/fastagent.secrets.yaml")
    assert names("d") == ["d/a.yaml", "d/b.yml", "d/c.json"]
    assert names("d", recursive=True) == ["d/a.yaml", "d/b.yml", "d/c.json", "d/sub/e.yaml"]


def test_files_come_as_they_are_named_and_once() -> None:
    write("d/b.yaml", "d/a.yaml", "odd.txt")
    assert names("d/b.yaml", "odd.txt", "d", "odd.txt") == ["d/b.yaml", "odd.txt", "d/a.yaml"]


def test_text_is_what_the_file_says() -> None:
    Path("a.yaml").write_bytes("\ufeffname: é\n".encode())
    assert files_of(["a.yaml"], recursive=False) == [File("a.yaml", "name: é\n")]


def test_all_that_cannot_be_read_is_said_at_once(tmp_path: Path) -> None:
    write("good.yaml", "empty/notes.txt", "empty/below/a.yaml")
    Path("latin.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    os.mkfifo("pipe")
    with pytest.raises(InvalidConfiguration) as refused:
        files_of(["good.yaml", "gone.yaml", "empty", "latin.yaml", "pipe"], recursive=False)
    assert refused.value.message == "not all files can be read; nothing was done"
    assert refused.value.details == [
        f"gone.yaml: is not there; check the path; this is '{tmp_path}'",
        "empty: has no *.yaml, *.yml or *.json; name another folder, or a file, or -R for the folders below it",
        "latin.yaml:2: the byte 0xe9 is not UTF-8; save the file as UTF-8",
        "pipe: is a pipe, not a file; name a regular file",
    ]
