"""The audit: one line of JSON for everything that changes something, and for each call of a tool.

Knows a file; nothing of HTTP or MCP. A line is written whole, with one write(2), before the answer is sent. There is
always some room kept on the disk for what was begun before it became full: after that, whatever would have to be
audited is refused, until there is room again. Only what takes something away, a right or what fills the disk, has room
of its own beyond that.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pallas_common.logs.setup import get_logger
from pallas_common.secrets.patterns import KEY_SHAPES, redact
from pallas_common.times import timestamp
from pallas_gateway.access.refusals import Refusals
from pallas_gateway.identity.principal import TENANT
from pallas_gateway.store.disk.reserve import Reserve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pallas_gateway.identity.principal import Principal

Outcome = Literal["ok", "error", "denied", "cancelled", "begun", "unknown"]
"""`begun` is of a line before its deed; `unknown` of one whose gateway ended before it could say how that went."""

FILE = "audit.jsonl"
"""In the state directory; older ones are `audit.jsonl.1` and so on, the newest first."""
MOST_BYTES = 64 * 1024 * 1024
"""Of one file."""
KEPT = 8
"""Older files."""
RESERVE = 1024 * 1024
"""Bytes that are kept free on the disk for lines about what has begun already."""
RELIEF = 1024 * 1024
"""The same for what takes something away, when that is used up."""
RETRY_INTERVAL = 0.2
"""Seconds between two tries to make room again."""
LONGEST_TEXT = 300
"""Characters of a name or target."""
LONGEST_CONTENT = 64 * 1024
"""Characters of what was asked or answered, each."""

_log = get_logger("pallas.gateway.audit")


class AuditUnavailableError(Exception):
    """It cannot be written down, and is therefore not done: 503."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """What somebody did."""

    principal: Principal | None
    """None for what the gateway does by itself."""
    action: str
    """`tools/call`, `resources/apply`, `token.create`."""
    target: str
    """`jarvis/git__commit`, `agent/jarvis`: what it was done to; never an argument or an answer."""
    outcome: Outcome = "ok"
    duration_ms: float = 0.0
    request_id: str | None = None
    trace_id: str | None = None
    asked: Any = None
    """Arguments; written down only where the settings say so."""
    answered: Any = None
    frees: bool = False
    """Whether it takes something away: revokes, closes or deletes."""
    id: str | None = None
    """Of what has two lines, one before and one after."""

    def line(self, at: float, *, content: bool) -> bytes:
        """The entry as a line of JSON."""
        who = self.principal
        fields: dict[str, Any] = {
            "time": timestamp(at),
            "principal": who.id if who is not None else None,
            "name": _plain(who.name[:LONGEST_TEXT]) if who is not None else "gateway",
            "role": who.role if who is not None else None,
            "agent": who.agent if who is not None else None,
            "tenant": who.tenant if who is not None else TENANT,
            "action": self.action,
            "target": _plain(self.target[:LONGEST_TEXT]),
            "outcome": self.outcome,
            "duration_ms": round(self.duration_ms, 3),
            "request_id": self.request_id,
            "trace_id": self.trace_id,
        }
        if self.id is not None:
            fields["id"] = self.id
        if content:
            fields |= {
                name: _content(value)
                for name, value in (("asked", self.asked), ("answered", self.answered))
                if value is not None
            }
        return _encoded(fields)


@lru_cache(4096)
def _plain(text: str) -> str:
    """A name that a client may have made up, without a key in it; it is short, as it is kept."""
    return redact(text, KEY_SHAPES)


def _content(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), default=str)
    return redact(text[:LONGEST_CONTENT], KEY_SHAPES)


class Audit:
    """The file that is written now.

    Args:
        directory: the state directory.
        content: whether arguments and answers are written down.
        process: the name of this process, by which what it has begun is found if it is killed.
        written: is told of each line that was written, and of each that could not be, whether it was tried or not.
        monotonic, clock: seconds, of a clock that never goes back and since the epoch.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        content: bool = False,
        most_bytes: int = MOST_BYTES,
        kept: int = KEPT,
        process: str | None = None,
        written: Callable[[bool], object] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(directory, FILE)
        self.content = content
        self._reserve = Reserve(Path(directory, "audit.reserve"), RESERVE)
        self._relief = Reserve(Path(directory, "audit.relief"), RELIEF)
        self._relieved = False
        """Whether there is room from the second that is not used up."""
        self._refusals = Refusals()
        self._most_bytes = most_bytes
        self._kept = kept
        self._process = process
        self._written = written
        self._monotonic = monotonic
        self._clock = clock
        self._descriptor: int | None = None
        self._has_room = False
        self._torn = False
        self._retry_at = float("-inf")
        self._why: OSError | None = None
        """The last failure; None since something could be written."""
        with contextlib.suppress(AuditUnavailableError):
            self.check()

    def check(self, *, frees: bool = False) -> None:
        """Before something is done that has to be written down.

        Args:
            frees: whether it takes something away, as revoking and deleting do.

        Raises:
            AuditUnavailableError: it could not be; it is logged once.
        """
        if self._has_room or self._make_room():
            return
        if frees and (self._relieved or self._relief.is_there):
            return
        self._written(False)
        raise AuditUnavailableError(
            f"the audit cannot be written ({self.path.name}: is the disk full?), and what cannot be written down is"
            " not done; try again when there is room"
        )

    def problem(self) -> str | None:
        """Why nothing can be written now, and what to do; asks the disk, writes and counts nothing."""
        if self._has_room:
            try:
                self._current()
            except OSError as error:
                self._complain(error)
                self._has_room = False
        if self._has_room or self._make_room():
            return None
        why = self._why.strerror or str(self._why) if self._why is not None else "unknown"
        return (
            f"the audit {self.path} cannot be written ({why}), and nothing is done that it has to tell: make room on"
            " its disk, and see to its permissions"
        )

    def write(self, entry: Entry) -> None:
        """Write it down, before the answer is sent.

        Raises:
            AuditUnavailableError: it cannot be; it was done all the same.
        """
        self.tell_folded()
        if entry.outcome != "denied" or not self._refusals.fold(entry.principal, self._monotonic()):
            self._write(entry)

    def begin(self, entry: Entry) -> None:
        """Write down what is about to be done elsewhere; `write` of the same entry says how it went.

        If this process is killed in between, the next one says that nobody knows.

        Raises:
            AuditUnavailableError: it cannot be written down, and must not be done.
        """
        entry.id = secrets.token_hex(8)
        line = json.loads(entry.line(self._clock(), content=False))
        line |= {"outcome": "begun", "process": self._process}
        self._write_line(_encoded(line), frees=entry.frees)

    def leave(self, begun: Mapping[str, Any]) -> None:
        """Say of a line of something begun, by a process that is dead, that nobody knows how it went.

        Raises:
            AuditUnavailableError: it cannot be written.
        """
        line = {**begun, "time": timestamp(self._clock()), "outcome": "unknown"}
        del line["process"]
        self._write_line(_encoded(line), frees=False)

    def tell_folded(self) -> None:
        """Write down how many refusals had no line of their own, where that is due.

        Raises:
            AuditUnavailableError: it cannot be written.
        """
        for principal, number in self._refusals.told(self._monotonic()):
            self._write(
                Entry(principal=principal, action="refusals", target=f"{number} more", outcome="denied")
            )

    def _write(self, entry: Entry) -> None:
        line = entry.line(self._clock(), content=self.content)
        self._write_line(line, frees=entry.frees and entry.outcome == "ok")

    def _write_line(self, line: bytes, *, frees: bool) -> None:
        try:
            try:
                self._append(line)
            except OSError as error:
                if not self._make_way(error, frees=frees):
                    raise
                self._append(line)
        except OSError as error:
            self._complain(error)
            self._written(False)
            raise AuditUnavailableError(
                "this was begun, and maybe done, and cannot be written into the audit; see to the disk"
            ) from error
        self._written(True)

    @contextmanager
    def doing(
        self,
        principal: Principal | None,
        action: str,
        target: str,
        *,
        request_id: str | None = None,
        trace_id: str | None = None,
        frees: bool = False,
    ) -> Iterator[Entry]:
        """What happens inside the block is written down at its end, as an error if it raises.

        The entry may be changed inside: its target, its outcome.

        Raises:
            AuditUnavailableError: it cannot be written down; the block has not begun then.
        """
        self.check(frees=frees)
        entry = Entry(
            principal=principal,
            action=action,
            target=target,
            request_id=request_id,
            trace_id=trace_id,
            frees=frees,
        )
        begun = self._monotonic()
        try:
            yield entry
        except BaseException as error:
            if entry.outcome == "ok":
                entry.outcome = outcome_of(error)
            raise
        finally:
            entry.duration_ms = (self._monotonic() - begun) * 1000
            self.write(entry)

    def close(self) -> None:
        """Nothing is written any more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _make_way(self, error: OSError, *, frees: bool) -> bool:
        """Give away what is kept for an entry that could not be written; whether there is any."""
        self._complain(error)
        had_room, self._has_room = self._has_room, False
        self._retry_at = self._monotonic() + RETRY_INTERVAL
        if had_room and self._reserve.free():
            return True
        self._relieved = frees and self._relief.free()
        return self._relieved

    def _append(self, line: bytes) -> None:
        descriptor = self._current(len(line))
        if self._torn:
            line = b"\n" + line  # readers pass over what is no line of JSON
        if os.write(descriptor, line) != len(line):
            self._torn = True
            raise OSError("only a part of it was written")
        self._torn = False

    def _current(self, coming: int = 0) -> int:
        """The file of that name, also after another process, or somebody else, has moved it away."""
        if self._descriptor is not None:
            try:
                there, own = os.lstat(self.path), os.fstat(self._descriptor)
            except FileNotFoundError:
                pass
            else:
                if os.path.samestat(there, own):
                    if own.st_size + coming <= self._most_bytes or not own.st_size:
                        return self._descriptor
                    self._rotate(own)
            os.close(self._descriptor)
            self._descriptor = None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        return self._descriptor

    def _rotate(self, own: os.stat_result) -> None:
        """Move it away, unless another process has done so by now: for a moment there may be two."""
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if not os.path.samestat(os.lstat(self.path), own):
                    return
                for number in range(self._kept, 0, -1):
                    older = self.path if number == 1 else older_file(self.path, number - 1)
                    if older.exists():
                        older.rename(older_file(self.path, number))
        finally:
            os.close(lock)

    def _make_room(self) -> bool:
        now = self._monotonic()
        if now < self._retry_at:
            return False
        self._retry_at = now + RETRY_INTERVAL
        try:
            self._current()
            self._relief.keep()
            self._reserve.keep()
        except OSError as error:
            self._complain(error)
            return False
        self._has_room, self._relieved = True, False
        if self._why is not None:
            self._why = None
            _log.info("the audit is written again")
        return True

    def _complain(self, error: OSError) -> None:
        first, self._why = self._why is None, error
        if first:
            _log.error(f"the audit cannot be written, and nothing is done that it has to tell: {error}")


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def older_file(path: Path, number: int) -> Path:
    """The file before the one that is written, the first, the second, …"""
    return path.with_name(f"{path.name}.{number}")


def outcome_of(error: BaseException) -> Outcome:
    """What is written down of something that raised."""
    if type(error).__name__ in ("CancelledError", "GeneratorExit"):
        return "cancelled"
    return "denied" if type(error).__name__ == "InsufficientScopeError" else "error"
