"""Log lines to the journal as entries of its own: the JSON line as message, priority and a few keys as fields.

Knows the journal's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL) and the one log format. Over stderr an entry
would have no fields, and lines beyond journald's LineMax= would be cut into pieces that are no JSON.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
from typing import TYPE_CHECKING

from pallas_common.logs.records import parse_record

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "pallas"

PRIORITIES = {"CRITICAL": 2, "ERROR": 3, "WARNING": 4, "INFO": 6, "DEBUG": 7}
"""Names of levels → syslog(3) priorities."""
NOTICE = 5

FIELDS = ("agent", "pid", "generation", "logger", "conversation_id", "request_id", "trace_id")
"""Keys of a record that become fields: `agent` is `PALLAS_AGENT`."""

LONGEST_FIELD = 256
"""Characters of a field's value, some of which clients and agents choose."""

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Journal:
    """Writes entries to the journal's socket.

    Args:
        path: where the socket is.
    """

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def write(self, line: bytes) -> bool:
        """Write one JSON line as one entry, however long it is; whether the journal took it. May block."""
        data = entry(line)
        try:
            self._channel.sendto(data, self._path)
        except OSError:  # mostly because it is too long for a datagram
            try:
                self._send_in_memory(data)
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Close the socket."""
        self._channel.close()

    def _send_in_memory(self, data: bytes) -> None:
        memory = os.memfd_create("pallas-journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with os.fdopen(os.dup(memory), "wb") as file:
                file.write(data)
            fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))
            self._channel.sendmsg([], [rights], 0, self._path)
        finally:
            os.close(memory)


def entry(line: bytes) -> bytes:
    """The datagram of one record, given as its line of JSON without a line feed."""
    record = parse_record(line) or {}
    priority = PRIORITIES.get(str(record.get("level")), NOTICE)
    fields = [f"PRIORITY={priority}", f"SYSLOG_IDENTIFIER={IDENTIFIER}"]
    fields += [
        f"PALLAS_{key.upper()}={' '.join(str(record[key]).split())[:LONGEST_FIELD]}"
        for key in FIELDS
        if record.get(key) is not None
    ]
    return (
        b"MESSAGE=" + line.replace(b"\n", b" ") + b"\n" + "\n".join(fields).encode("utf-8", "replace") + b"\n"
    )


def journal_behind(descriptor: int, environ: Mapping[str, str]) -> Journal | None:
    """The journal, if that is where the service manager has led this descriptor; else None."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    if (device, inode) != (str(found.st_dev), str(found.st_ino)):
        return None
    return Journal()
