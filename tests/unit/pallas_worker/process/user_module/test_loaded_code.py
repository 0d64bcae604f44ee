"""Which files a worker tells of: the user's own, with what is in them, in lines that can be read."""

from __future__ import annotations

import hashlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.reports import CodeReport, decode_report, encode_report
from pallas_worker.process.user_module import loaded_code
from pallas_worker.process.user_module.errors import UserCode
from pallas_worker.process.user_module.loaded_code import MOST_FILES, code_reports

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LONGEST_LINE = 64 * 1024


def told(directory: Path, *files: Path) -> list[CodeReport]:
    return list(code_reports(UserCode(str(directory), AgentSource("module", "agents.demo")), files))


def test_modules_and_cards_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, card, library = tmp_path / "own.py", tmp_path / "card.md", tmp_path / "site-packages" / "lib.py"
    library.parent.mkdir()
    for file in (own, card, library):
        file.write_text(file.name)
    os.mkfifo(tmp_path / "pipe.py")
    for name, file in {
        "own": own,
        "lib": library,
        "pipe": tmp_path / "pipe.py",
        "gone": tmp_path / "gone.py",
    }.items():
        module = ModuleType(f"test_{name}")
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    odd = ModuleType("test_odd")
    odd.__file__ = 5  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, odd.__name__, odd)
    (report,) = told(tmp_path, card)
    assert [mark.path for mark in report.files] == ["card.md", "own.py"]
    assert report.files[1].state == f"6 {own.stat().st_mtime_ns}"
    assert report.files[1].digest == hashlib.blake2b(b"own.py", digest_size=16).hexdigest()


def test_many_files_with_long_names_fit_into_lines(tmp_path: Path) -> None:
    files = [tmp_path / f"{'ü' * 100}{number}.py" for number in range(MOST_FILES + 50)]
    for file in files:
        file.touch()
    reports = told(tmp_path, *files)
    assert sum(len(report.files) for report in reports) == MOST_FILES
    assert all(len(encode_report(report)) < LONGEST_LINE for report in reports)
    assert [decode_report(encode_report(report)) for report in reports] == reports


def test_what_a_zygote_has_imported_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        module = ModuleType(name)
        module.__file__ = str(tmp_path / f"{name}.py")
        (tmp_path / f"{name}.py").touch()
        monkeypatch.setitem(sys.modules, name, module)

    monkeypatch.setattr(loaded_code, "_last_library", None)
    load("test_of_zygote")
    load("test_last_of_zygote")
    loaded_code.pass_over_libraries()
    assert told(tmp_path) == []
    load("test_own")
    load("test_other")
    (report,) = told(tmp_path)
    assert [mark.path for mark in report.files] == ["test_own.py", "test_other.py"]
    monkeypatch.delitem(sys.modules, "test_of_zygote")
    load("test_of_zygote")  # imported again, by the user's code
    (report,) = told(tmp_path)
    assert "test_of_zygote.py" in [mark.path for mark in report.files]
    monkeypatch.delitem(sys.modules, "test_last_of_zygote")
    (report,) = told(tmp_path)
    assert len(report.files) == 3
