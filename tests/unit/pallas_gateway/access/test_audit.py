"""The audit: whole lines, bounded files, nothing done that cannot be written down, and reading it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.secrets.tokens import new_token
from pallas_gateway.access import audit as module
from pallas_gateway.access.audit import Audit, AuditUnavailableError, Entry, older_file
from pallas_gateway.access.audit_reader import Filter, following, newest
from pallas_gateway.identity.principal import Principal
from pallas_gateway.process.upkeep.left_deeds import tell_left

if TYPE_CHECKING:
    from pathlib import Path

ADA = Principal(id="tok_1", name="Ada", role="human")
WORKER = Principal(id="worker:j/1", name="j", role="agent", agent="j")


def entry(target: str = "jarvis/git__log", principal: Principal = ADA, **more: Any) -> Entry:
    return Entry(principal=principal, action=more.pop("action", "tools/call"), target=target, **more)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_line_says_who_what_and_how_it_went(tmp_path: Path) -> None:
    audit = Audit(tmp_path, clock=lambda: 0.0)
    audit.write(entry(duration_ms=1.23456, request_id="r1", trace_id="t1", asked={"x": "private"}))
    assert lines(audit.path) == [
        {
            "time": "1970-01-01T00:00:00.000000Z",
            "principal": "tok_1",
            "name": "Ada",
            "role": "human",
            "agent": None,
            "tenant": "default",
            "action": "tools/call",
            "target": "jarvis/git__log",
            "outcome": "ok",
            "duration_ms": 1.235,
            "request_id": "r1",
            "trace_id": "t1",
        }
    ]
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600


def test_what_was_asked_is_written_down_only_where_that_is_wanted_and_never_a_token(tmp_path: Path) -> None:
    audit = Audit(tmp_path, content=True)
    token = new_token("human")
    audit.write(entry(target=f"x\n{token}" + "y" * 900, asked={"a": token, "b": 1}, answered="z" * 10**6))
    (line,) = lines(audit.path)
    assert token not in json.dumps(line)
    assert len(line["target"]) <= module.LONGEST_TEXT
    assert json.loads(line["asked"])["b"] == 1
    assert len(line["answered"]) == module.LONGEST_CONTENT


def test_a_block_is_written_down_however_it_ends(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    with audit.doing(ADA, "token.create", "token/x") as made:
        made.target = "token/tok_5"
    with pytest.raises(ValueError, match="no"), audit.doing(ADA, "token.revoke", "token/x"):
        raise ValueError("no")
    with pytest.raises(asyncio.CancelledError), audit.doing(None, "token.revoke", "token/y"):
        raise asyncio.CancelledError
    found = [(line["name"], line["target"], line["outcome"]) for line in lines(audit.path)]
    assert found == [
        ("Ada", "token/tok_5", "ok"),
        ("Ada", "token/x", "error"),
        ("gateway", "token/y", "cancelled"),
    ]


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    first, second = (Audit(tmp_path, most_bytes=1000, kept=3) for _ in range(2))
    for number in range(60):
        (first, second)[number % 2].write(entry(str(number)))
    files = [first.path, *(older_file(first.path, number) for number in (1, 2, 3))]
    assert all(path.stat().st_size <= 1000 for path in files)
    assert not older_file(first.path, 4).exists()
    kept = [int(line["target"]) for path in reversed(files) for line in lines(path)]
    assert kept == list(range(60 - len(kept), 60))
    assert [int(line["target"]) for line in newest(first.path, 1000, Filter())] == kept


def test_a_file_that_somebody_took_away_is_begun_anew(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    audit.write(entry("one"))
    audit.path.rename(tmp_path / "elsewhere")
    audit.write(entry("two"))
    assert [line["target"] for line in lines(audit.path)] == ["two"]


class Disk:
    """One that is full, or not, as far as the audit notices."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.free = 0
        """Bytes that fit in all the same, once."""
        self._write, self._allocate = os.write, os.posix_fallocate
        patch.setattr(os, "write", self.write)
        patch.setattr(os, "posix_fallocate", self.allocate)

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.is_full or not (self.reserve is None or self.reserve.exists()):
            return self._write(descriptor, data)
        if self.free:
            free, self.free = self.free, 0
            return self._write(descriptor, data[:free])
        raise OSError(errno.ENOSPC, "full")

    reserve: Path | None = None

    def allocate(self, descriptor: int, offset: int, size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "full")
        self._allocate(descriptor, offset, size)


def test_on_a_full_disk_what_has_begun_is_written_down_and_nothing_more_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.reserve = tmp_path / "audit.reserve"
    now = 0.0
    told: list[bool] = []
    audit = Audit(tmp_path, monotonic=lambda: now, written=told.append)
    audit.check()
    disk.is_full, disk.free = True, 10
    audit.write(entry("had begun"))
    audit.write(entry("had begun, too"))
    for _ in range(3):
        now += 1
        with pytest.raises(AuditUnavailableError, match="disk full"):
            audit.check()
    disk.reserve = None
    with pytest.raises(AuditUnavailableError, match="maybe done"):
        audit.write(entry("lost"))
    disk.is_full = False
    now += 1
    audit.check()
    audit.write(entry("again"))
    assert told == [True, True, *[False] * 4, True]
    found = [line["target"] for line in newest(audit.path, 10, Filter())]
    assert found == ["had begun", "had begun, too", "again"]


def test_on_a_full_disk_what_takes_something_away_has_room_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    now = 0.0
    audit = Audit(tmp_path, monotonic=lambda: now)
    disk.reserve = tmp_path / "audit.reserve"
    disk.is_full = True
    audit.write(entry("had begun"))
    disk.reserve = tmp_path / "audit.relief"
    now += 1
    with pytest.raises(AuditUnavailableError):
        audit.check()
    for _ in range(3):
        with audit.doing(ADA, "token.revoke", "token/1", frees=True):
            pass
    assert not disk.reserve.exists()
    disk.reserve = None  # and that is used up as well
    with pytest.raises(AuditUnavailableError), audit.doing(ADA, "token.revoke", "token/2", frees=True):
        pass
    with pytest.raises(AuditUnavailableError):
        audit.check(frees=True)
    disk.is_full = False
    now += 1
    audit.check()
    assert [line["target"] for line in lines(audit.path)] == ["had begun", *["token/1"] * 3]
    assert all((tmp_path / name).stat().st_size == 1024**2 for name in ("audit.reserve", "audit.relief"))


def test_refusals_of_one_principal_are_folded_and_counted(tmp_path: Path) -> None:
    now = 0.0
    audit = Audit(tmp_path, monotonic=lambda: now)
    bob = Principal(id="tok_2", name="Bob", role="human")
    for number in range(1000):
        audit.write(entry(f"agent/{number}", outcome="denied"))
    audit.write(entry("agent/x", bob, outcome="denied"))
    audit.write(entry("agent/y", outcome="error"))
    assert len(lines(audit.path)) == 62
    now = 61.0
    audit.tell_folded()
    audit.tell_folded()
    audit.write(entry("agent/z", outcome="denied"))
    told, last = lines(audit.path)[62:]
    assert (told["principal"], told["action"], told["target"], told["outcome"]) == (
        "tok_1",
        "refusals",
        "940 more",
        "denied",
    )
    assert last["target"] == "agent/z"


def test_a_folder_that_cannot_be_written_is_no_reason_not_to_start(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "missing", monotonic=lambda: 0.0)
    with pytest.raises(AuditUnavailableError):
        audit.check()


def test_lines_are_chosen(tmp_path: Path) -> None:
    now = 100.0
    audit = Audit(tmp_path, clock=lambda: now)
    for number in range(3):
        now = 100.0 + number
        audit.write(entry(f"a{number}"))
        audit.write(entry(f"b{number}", WORKER, action="token.create", outcome="denied"))
    with audit.path.open("ab") as file:
        file.write(b'[1]\n"x"\n{"torn": \n\n\xff\n')

    def chosen(count: int = 100, **wanted: str) -> list[str]:
        return [line["target"] for line in newest(audit.path, count, Filter(**wanted))]

    assert chosen(2) == ["a2", "b2"]
    assert chosen(principal="Ada") == chosen(principal="tok_1") == ["a0", "a1", "a2"]
    assert chosen(action="token") == chosen(action="token.create") == ["b0", "b1", "b2"]
    assert chosen(action="tok") == []
    assert chosen(outcome="denied", since="1970-01-01T00:01:41.000000Z") == ["b1", "b2"]
    assert chosen(0) == []


def test_new_lines_are_followed_into_the_next_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_gateway.access.audit_reader.LOOK_INTERVAL", 0.0)
    audit = Audit(tmp_path, most_bytes=1000)

    async def follow() -> None:
        for number in range(3):
            audit.write(entry(str(number)))
        stream = following(audit.path, 2, Filter(principal="tok_1"))
        found = [(await anext(stream))["target"] for _ in range(2)]
        for number in range(3, 40):
            audit.write(entry(str(number)))
            audit.write(entry("other", WORKER))
            found.append((await anext(stream))["target"])
        await stream.aclose()
        assert found == [str(number) for number in range(1, 40)]

    asyncio.run(follow())


def test_what_acts_elsewhere_has_a_line_before_and_one_after(tmp_path: Path) -> None:
    audit = Audit(tmp_path, process="p1")
    with audit.doing(ADA, "tools/call", "jarvis/git__push") as doing:
        audit.begin(doing)
    before, after = lines(audit.path)
    assert (before["outcome"], before["process"], after["outcome"]) == ("begun", "p1", "ok")
    assert before["id"] == after["id"]
    assert [line["outcome"] for line in newest(audit.path, 10, Filter())] == ["ok"]
    assert [line["outcome"] for line in newest(audit.path, 10, Filter(outcome="begun"))] == ["begun"]


def test_what_a_killed_process_had_begun_is_unknown_and_said_once(tmp_path: Path) -> None:
    for process in ("dead", "alive"):
        audit = Audit(tmp_path, process=process)
        for target in ("ended", "left"):
            begun = entry(f"{process}/{target}")
            audit.begin(begun)
            if target == "ended":
                audit.write(begun)
    for _ in range(2):
        asyncio.run(tell_left(audit, {"dead": 0.0}))
    unknown = [line for line in lines(audit.path) if line["outcome"] == "unknown"]
    (line,) = unknown
    assert (line["target"], line["principal"]) == ("dead/left", "tok_1")
    (begun_line,) = (
        each for each in lines(audit.path) if each["target"] == "dead/left" and "process" in each
    )
    assert line["id"] == begun_line["id"]
