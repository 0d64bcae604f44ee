"""Credentials: those named like a variable become one, nothing wins over the environment, no value is ever shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pallas_common.problems import ConfigurationError
from pallas_registry.environment.credentials import load_credentials

if TYPE_CHECKING:
    from pathlib import Path


def loaded(directory: Path, **environ: str) -> dict[str, str]:
    return dict(load_credentials({"CREDENTIALS_DIRECTORY": str(directory), **environ}))


def test_without_a_directory_there_are_none(tmp_path: Path) -> None:
    assert load_credentials({}) == {}
    assert loaded(tmp_path / "gone") == {}


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"key", "key"),
        (b"key\n", "key"),
        (b"key\r\n", "key"),
        (b"key\n\n", "key\n"),
        (b" k=\xc3\xa9 ", " k=é "),
        (b"", ""),
    ],
)
def test_one_line_end_is_not_part_of_the_value(content: bytes, value: str, tmp_path: Path) -> None:
    (tmp_path / "OPENAI_API_KEY").write_bytes(content)
    assert loaded(tmp_path) == {"OPENAI_API_KEY": value}


def test_only_names_of_variables_count_and_the_environment_wins(tmp_path: Path) -> None:
    for name in ("A_KEY", "B_KEY", "openai-api-key", "Key", "1KEY", "NOTIFY_SOCKET", "LISTEN_FDS", "tls.pem"):
        (tmp_path / name).write_text("from the file")
    (tmp_path / "FOLDER").mkdir()
    assert loaded(tmp_path, A_KEY="from outside") == {"B_KEY": "from the file"}


@pytest.mark.parametrize("content", [b"sk-geheim\0", b"sk-geheim\xff"])
def test_what_no_variable_can_carry_is_refused_without_being_shown(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "A_KEY").write_bytes(content)
    (tmp_path / "B_KEY").write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path)
    assert len(caught.value.problems) == 2
    assert "$CREDENTIALS_DIRECTORY/A_KEY" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="Not a directory"):
        loaded(tmp_path / "file")
    os.symlink("A_KEY", tmp_path / "A_KEY")  # noqa: PTH211 - a loop is what is wanted
    assert loaded(tmp_path) == {}
