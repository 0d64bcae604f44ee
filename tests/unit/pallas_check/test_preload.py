"""Modules of `preload:` that are not there are named with file and line, and none is imported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pallas_check.preload import missing_part, preload_findings
from pallas_registry.deployment.agents_file import read_deployment

if TYPE_CHECKING:
    from pathlib import Path


def test_they_are_named_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise AssertionError('imported')")
    file = tmp_path / "agents.yaml"
    file.write_text(
        "name: demo\npreload:\n  - mine\n  - min\n  - json\nagents:\n  a: {module: a, port: 9000}\n"
    )
    [finding] = preload_findings(read_deployment(file), file, tmp_path)
    assert str(finding.problem).startswith(f"{file}:4: preload[1]: there is no module 'min'; install it into")
    assert finding.level == "warning"
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("sys", None),
        ("zipimport", None),
        ("json.decoder", None),
        ("package.inner.leaf", None),
        ("package.leaf", "package.leaf"),
        ("package.inner.leaf.deeper", "package.inner.leaf.deeper"),
        ("space.leaf", None),
        ("nowhere.at.all", "nowhere"),
    ],
)
def test_what_is_missing(name: str, missing: str | None, tmp_path: Path) -> None:
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner.parent, inner):
        (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (inner / "leaf.py").touch()
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "leaf.py").touch()
    assert missing_part(name, [str(tmp_path), *sys.path]) == missing
