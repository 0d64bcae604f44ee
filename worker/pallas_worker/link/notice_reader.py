"""The worker's end of the pipe on which the supervisor tells it something. Knows one descriptor and lines."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.notices import decode_notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_common.protocol.notices import Notice

CHUNK = 64 * 1024
"""What a pipe holds by default: all that has come is read at once."""
LONGEST_LINE = 64 * 1024

_log = get_logger("pallas.worker.notices")


class NoticeReader:
    """Reads notices on the running loop, from `listen` until the pipe ends or `close`."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # no concern of what the agent starts
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._rest = bytearray()
        self._hear: Callable[[Notice], None] = lambda _notice: None
        self._alone: Callable[[], None] = lambda: None

    def listen(self, hear: Callable[[Notice], None], alone: Callable[[], None]) -> None:
        """Tell `hear` of each notice, and `alone` that no more can come."""
        self._hear, self._alone = hear, alone
        if self._descriptor is None:
            alone()
        else:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Read no more."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> None:
        if self._descriptor is None:
            return
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.close()
            self._alone()
            return
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self._rest.clear()
        for line in lines:
            try:
                notice = decode_notice(bytes(line))
            except ValueError as error:
                _log.warning(str(error))
                continue
            self._hear(notice)
