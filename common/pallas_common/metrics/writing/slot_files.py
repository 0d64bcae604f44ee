"""The files of one metrics slot: who may write them, their space on the disk, their soundness.

Knows how prometheus_client's multiprocess mode writes its files; must not know which metrics there are.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import stat
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from prometheus_client.mmap_dict import MmapedDict

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.file_names import agent_of
from pallas_common.metrics.fold import UNFINISHED, remove, set_aside, write_reserved
from pallas_common.metrics.mmap_file import MAX_BYTES, DamagedError, check, encode, entry_size
from pallas_common.metrics.reader import MergedFiles

SETTLING = 10
"""Times that files are read again because the supervisor was folding some of them meanwhile."""

LARGEST = 8 * MAX_BYTES
"""Bytes of a file that a worker goes on writing: what is beyond `MAX_BYTES` is counted and not served."""

_FILE = re.compile(r".+_(?P<slot>[^_.]+)(\.p\d+)?\.db")
"""A values file: its kind, its slot, and the process that the slot's writer forked."""

_log = get_logger("pallas.worker.metrics")


class SlotBusyError(RuntimeError):
    """Another living process writes this slot."""


class SlotLock:
    """The right to be the only writer of a slot, held until this process ends.

    It is not shared with processes that this one forks: a child that outlives its worker does not keep the
    next worker from its slot.
    """

    def __init__(self, directory: str, slot: str) -> None:
        """Take the lock, `<directory>/<slot>.lock`.

        Raises:
            SlotBusyError: another living process holds it.
            OSError: the file cannot be opened.
        """
        self._path = Path(directory, f"{slot}.lock")
        self._slot = slot
        self._descriptor: int | None = _locked(self._path, slot)
        os.register_at_fork(after_in_child=self.release)

    def renew(self) -> None:
        """Take it anew, if somebody has removed its file, with which others could take it as well.

        Raises:
            SlotBusyError: another living process has done so.
            OSError: the file cannot be made.
        """
        if self._descriptor is not None and is_lost(self._path, self._descriptor):
            renewed = _locked(self._path, self._slot)
            os.close(self._descriptor)
            self._descriptor = renewed

    def release(self) -> None:
        """Let go of it; harmless when that has happened."""
        if (descriptor := self._descriptor) is not None:
            self._descriptor = None
            os.close(descriptor)


def _locked(path: Path, slot: str) -> int:
    """A descriptor that holds the lock, with this process's number in the file for messages."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f"process {holder}" if holder.isdecimal() else "another process"
        raise SlotBusyError(f"cannot open metrics slot {slot!r}: {who} is writing it") from None
    with suppress(OSError):  # on a full disk the message has to do without the number
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def is_lost(path: str | Path, descriptor: int) -> bool:
    """Whether an open file has no longer the name under which it was opened."""
    try:
        return not os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return True


def slot_files(directory: str, slot: str) -> list[str]:
    """The value files of the slot and of processes that its worker forked, sorted."""
    with os.scandir(directory) as entries:
        return sorted(
            entry.path
            for entry in entries
            if (found := _FILE.fullmatch(entry.name)) and found["slot"] == slot
        )


def drop_live_gauges(directory: str, slot: str) -> None:
    """Remove what the slot's previous writer said of its own state; counters and histograms stay."""
    for path in slot_files(directory, slot):
        if Path(path).name.startswith("gauge_live"):
            remove(Path(path))


def reserve(filename: str) -> None:
    """Have a sound values file at `filename`, with all its blocks on the disk.

    An existing file is kept if it is sound, and set aside as `<filename>.damaged` if it is not. A new one
    appears under its name complete: never empty, and never to be written past the end of the disk, which
    would kill the process with SIGBUS.

    Raises:
        OSError: no space is left, or the directory cannot be written.
    """
    path = Path(filename)
    try:
        check(_whole(path))
    except FileNotFoundError:
        pass
    except (DamagedError, PermissionError) as error:
        _log.warning(f"metrics file {path.name} is set aside and begun anew: {error}")
        set_aside(path)
    else:
        return
    unfinished = Path(f"{filename}{UNFINISHED}")
    try:
        write_reserved(unfinished, encode([]))
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def _whole(path: Path) -> bytes:
    """What is in an existing file.

    Raises:
        DamagedError: it is none that a worker has written; a device or a sparse file would be read without end.
        FileNotFoundError: there is none.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise DamagedError("it is no regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if (size := os.fstat(descriptor).st_size) > LARGEST:
            raise DamagedError(f"it has {size} bytes")
        return os.pread(descriptor, size, 0)
    finally:
        os.close(descriptor)


class AgentFiles:
    """The files of all slots of one agent, as its own port shows them: counts do not begin anew with another slot."""

    def __init__(self, directory: str, slot: str, owner: str | None) -> None:
        self._directory = directory
        self._agent = agent_of(slot)
        self._owner = owner
        self.merged = MergedFiles(directory)

    def read(self) -> None:
        """Take in what they say now; while the supervisor folds files, what they say is said twice or not at all."""
        for _ in range(SETTLING):
            before = self._names()
            # One that went with its process and came again with the next is another file.
            self.merged.forget([name for name in before if name.startswith("gauge")])
            self.merged.read({self._agent: self._owner})
            if before == self._names() and not any(name.endswith(UNFINISHED) for name in before):
                break

    @cached_property
    def _ours(self) -> re.Pattern[str]:
        return re.compile(rf".+_{re.escape(self._agent)}[s.].*")

    def _names(self) -> set[str]:
        with os.scandir(self._directory) as entries:
            return {entry.name for entry in entries if self._ours.fullmatch(entry.name)}


class Upkeep:
    """Makes the slot's files again that were removed while this process writes them.

    What it has counted is in memory still, in the file without a name; without a new one it would be lost with this
    process. A cleaner of temporary directories removes files that are written by mapping, as these are: their times
    stay what they were.
    """

    def __init__(self, directory: str, lock: SlotLock) -> None:
        self._directory = directory
        self._lock = lock
        self._files: WeakSet[ReservedFile] = WeakSet()
        self._family = os.getpid(), os.getppid()
        self._complained = False
        self.is_due = False
        """Whether the next write shall look."""

    def add(self, file: ReservedFile) -> None:
        """Look after this file, too."""
        self._files.add(file)

    def look(self) -> None:
        """Make again what is missing; what keeps it from that is logged once. Only under prometheus_client's lock."""
        self.is_due = False
        # A child has files of its own. After the supervisor's end, the directory is the next one's, which wipes it.
        if (os.getpid(), os.getppid()) != self._family:
            return
        try:
            lost = [file for file in self._files if file.is_lost()]
            if lost:
                Path(self._directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.renew()
            for file in lost:
                file.make_again()
        except (OSError, SlotBusyError) as error:
            if not self._complained:
                _log.warning(f"metrics files were removed, and cannot be made again: {error}")
            self._complained = True
        else:
            self._complained = False


class ReservedFile(MmapedDict):
    """prometheus_client's values file that has its space reserved before it is written."""

    upkeep: ClassVar[Upkeep | None] = None
    """Looks after the files of this process."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        if not read_mode:
            reserve(filename)
        super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]  # its library has no types
        if self.upkeep is not None and not read_mode:
            self.upkeep.add(self)

    def is_lost(self) -> bool:
        """Whether what is written no longer goes into the file of this name."""
        return self._f is not None and is_lost(self._fname, self._f.fileno())

    def make_again(self) -> None:
        """Go on in a new file with all that is in the old one; whatever has its name now is set aside.

        Raises:
            OSError: no space is left, or the directory cannot be written; all is as it was.
        """
        path = Path(self._fname)
        _log.warning(f"metrics file {path.name} was removed: it is made again")
        unfinished = path.with_name(f"{path.name}{UNFINISHED}")
        try:
            write_reserved(unfinished, bytes(self._m))
            file = unfinished.open("a+b")
            mapped = mmap.mmap(file.fileno(), self._capacity)
            if os.path.lexists(path):
                set_aside(path)
            unfinished.rename(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        old = self._m, self._f
        self._m, self._f = mapped, file
        for one in old:
            one.close()

    def _init_value(self, key: str) -> None:
        """Add an entry; raises OSError, and changes nothing, when the disk has no space for it."""
        needed = self._used + entry_size(len(key.encode()))
        capacity = self._capacity
        while capacity < needed:
            capacity *= 2
        if capacity > self._capacity:
            os.posix_fallocate(self._f.fileno(), 0, capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]  # its library has no types

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Set an entry; raises OSError if a fork on a full disk left this process without a file."""
        if self._m is None:
            raise OSError(f"metrics file {self._fname} is closed")
        super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]  # its library has no types
        if self.upkeep is not None and self.upkeep.is_due:
            self.upkeep.look()
