"""What is not done because it could not be written down counts as a line that failed: an alert looks at that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_gateway.access.audit import Audit, AuditUnavailableError, Entry

if TYPE_CHECKING:
    from pathlib import Path


def test_each_refusal_is_counted_until_it_can_be_written_again(tmp_path: Path) -> None:
    counted: list[bool] = []
    now = [0.0]
    (tmp_path / "audit.jsonl").mkdir()
    audit = Audit(tmp_path, written=counted.append, monotonic=lambda: now[0])
    for _ in range(2):
        with pytest.raises(AuditUnavailableError):
            audit.check()
    refused = len(counted)
    assert refused >= 2
    assert not any(counted)
    (tmp_path / "audit.jsonl").rmdir()
    now[0] += 10
    audit.check()
    audit.write(Entry(principal=None, action="token.create", target="token/x"))
    assert counted[refused:] == [True]


def test_who_only_looks_counts_nothing_and_learns_why(tmp_path: Path) -> None:
    counted: list[bool] = []
    now = [0.0]
    audit = Audit(tmp_path, written=counted.append, monotonic=lambda: now[0])
    assert audit.problem() is None
    audit.path.rename(tmp_path / "moved")
    audit.path.mkdir()
    for _ in range(2):
        assert f"the audit {audit.path} cannot be written (Is a directory)" in str(audit.problem())
    with pytest.raises(AuditUnavailableError):
        audit.check()
    audit.path.rmdir()
    now[0] += 10
    assert audit.problem() is None
    assert counted == [False], "only what was refused counts"
