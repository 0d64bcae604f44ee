"""Files of a configuration: only regular ones are read, nobody waits, and every refusal says what to do."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.configured_secrets import configured_secrets
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.location import deployment_name
from pallas_registry.environment.dotenv import load_dotenv
from pallas_registry.fastagent_files.models import read_model_settings
from pallas_registry.reading.files import MAXIMUM_BYTES, read_file, text_of

if TYPE_CHECKING:
    from collections.abc import Callable


def refused(path: Path) -> Problem:
    with pytest.raises(ConfigurationError) as caught:
        read_file(path)
    [problem] = caught.value.problems
    assert problem.file == str(path)
    assert problem.remedy
    return problem


def test_a_file_and_a_link_to_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a: 1\n")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "link of a link").symlink_to("link")
    (tmp_path / "empty").touch()
    assert read_file(tmp_path / "file") == read_file(tmp_path / "link of a link") == b"a: 1\n"
    assert read_file(tmp_path / "empty") == b""


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    assert read_file(tmp_path / "absent") is None
    assert read_file(tmp_path / "file" / "below") is None
    assert read_file(tmp_path / "link") is None


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_refused_and_nobody_waits_for_its_writer(linked: bool, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if linked:
        path = tmp_path / "link"
        path.symlink_to("pipe")
    assert refused(path).message == "is a pipe, not a file"


def test_a_file_that_becomes_a_pipe_while_it_is_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(path)
    file.touch()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: os.stat(file))  # noqa: PTH116
    assert refused(path).message == "is a pipe, not a file"


def test_what_else_is_no_file_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert refused(tmp_path / "socket").message == "is a socket, not a file"
    assert refused(tmp_path).message == "is a folder, not a file"
    assert refused(Path("/dev/zero")).message == "is a device, not a file"
    (tmp_path / "circle").symlink_to("circle")
    assert "Too many levels of symbolic links" in refused(tmp_path / "circle").message


def test_a_file_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MAXIMUM_BYTES)
    assert read_file(path) == bytes(MAXIMUM_BYTES)
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert refused(path).message == f"has {1 << 40} bytes, more than any real configuration"


@pytest.mark.parametrize("name", ["agents.yaml", ".env", "fastagent.config.yaml", "fastagent.secrets.yaml"])
def test_every_reader_of_a_file_refuses_a_pipe_in_its_place(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert list(configured_secrets(tmp_path, {})) == []
    assert deployment_name(tmp_path / "agents.yaml") is None
    problems: list[Problem] = []
    readers: tuple[Callable[[], object], ...] = (
        lambda: load_dotenv(tmp_path, {}),
        lambda: read_model_settings(tmp_path),
        lambda: read_deployment(tmp_path / "agents.yaml"),
    )
    for read in readers:
        try:
            read()
        except ConfigurationError as error:
            problems += error.problems
    ours = [problem for problem in problems if problem.file == str(tmp_path / name)]
    assert [problem.message for problem in ours] == (
        [] if "secrets" in name else ["is a pipe, not a file"]
    ), "nobody but fast-agent reads its secrets for what they say"


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"a\nb\xff", 2, "the byte 0xff is not UTF-8"),
        (b"a\n\nb\0c", 3, "holds a NUL character"),
        (b"\xff\xfea\0", 1, "is UTF-16"),
        (b"\xff\xfe\0\0a\0\0\0", 1, "is UTF-32"),
        (b"\xed\xa0\xbd", 1, "the byte 0xed is not UTF-8"),
    ],
)
def test_what_is_no_text(data: bytes, line: int, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        text_of(data, "f")
    [problem] = caught.value.problems
    assert (problem.line, problem.message) == (line, message)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert text_of(b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9f", "f") == "grüß"
