"""One zygote process as its client sees it: its channel, and what it has told of its imports.

Knows the packets of `pallas_worker.process.zygote`; what is done about them is in `zygote_client`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING

from pallas_supervisor.processes.linux.helper_process import HelperProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pallas_supervisor.processes.linux.process_tree import ProcessParent

LONGEST_PACKET = 16384
"""Bytes."""

type Packet = dict[str, object]


class ZygoteProcess(HelperProcess):
    """The process; it has to be given its imports before it becomes ready.

    Args:
        tell: takes what there is to say of an import: its name, and what about it.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        parent: ProcessParent,
        tell: Callable[[str, str], None],
    ) -> None:
        super().__init__(parent, [sys.executable, "-P", "-m", "pallas_worker.process.zygote"], environment)
        self.channel.setblocking(False)
        self._tell = tell
        self.ready = False
        self.asked = False
        """Whether it has been given the first imports."""
        self.importing: str | None = None
        """What it imports now, of what it was given."""
        self.trouble: str | None = None
        """Why it cannot go on with that."""
        self.is_dismissed = False
        """Whether its end is wanted."""
        self.gone = asyncio.Event()

    def ask_for(self, modules: Collection[str], models: Collection[str]) -> None:
        """Have it import these; it answers with packets for `take`, and is not ready until the last of them."""
        self.asked, self.ready = True, False
        with contextlib.suppress(OSError):  # its end is noticed by whoever waits for an answer
            self.channel.send(json.dumps({"modules": list(modules), "models": list(models)}).encode())

    async def receive(self, timeout: float) -> Packet:
        """The next packet.

        Raises:
            OSError: it has gone, or is silent.
            ValueError: it is no packet.
        """
        async with asyncio.timeout(timeout):
            data = await asyncio.get_running_loop().sock_recv(self.channel, LONGEST_PACKET)
        if not data:
            raise ConnectionResetError("the zygote has gone")
        return _decoded(data)

    def take(self, packet: Packet) -> None:
        """Take a packet that tells of imports."""
        match packet:
            case {"ready": True}:
                self.ready, self.importing = True, None
            case {"importing": str(name)}:
                self.importing = name
            case {"unsafe": str(why)}:
                self.trouble = why
            case {"failed": str(why)} if self.importing is not None:
                self._tell(self.importing, f"cannot be imported: {why}")
            case {"printed": str(text)} if self.importing is not None:
                self._tell(self.importing, f"has printed while it was imported: {text}")
            case _:
                raise ValueError("the zygote says what it should not")

    def take_unread(self) -> None:
        """Take what it has told before its end, which nobody has waited for."""
        with contextlib.suppress(OSError, ValueError):
            while data := self.channel.recv(LONGEST_PACKET):
                self.take(_decoded(data))

    def kill(self) -> None:
        """Kill it; nothing if it has ended."""
        if not self.gone.is_set():
            super().kill()


def _decoded(data: bytes) -> Packet:
    packet = json.loads(data)
    if isinstance(packet, dict):
        return packet
    raise ValueError("the zygote says what it should not")
