"""Agents that do what they are told, however bad for them: how they are deployed and how orders reach them.

Knows the ways of `misbehaving_agent`, which runs inside the workers.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.fleet.deployment import PASSTHROUGH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet.deployment import Deployment

PATIENCE = 90.0
"""Seconds within which an order has been carried out."""


class Orders:
    """Orders to the agents of one deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._control = deployment.directory / "control"
        self._control.mkdir(exist_ok=True)

    def add(self, name: str, **fields: Any) -> None:
        """Add an agent that obeys; `fields` go into its entry of `agents.yaml`."""
        self._deployment.add(name, **fields)
        modules = self._deployment.directory / "agents"
        shutil.copy(Path(__file__).with_name("misbehaving_agent.py"), modules)
        obeying = f"from agents.misbehaving_agent import obey\nobey({name!r})\n"
        (modules / f"{name}.py").write_text(PASSTHROUGH.format(name=name, servers=[]) + obeying)

    def tell(self, agent: str, do: str, **details: Any) -> None:
        """Tell a running worker what to do, without waiting for it."""
        with self._channel() as channel:
            self._send(channel, agent, do, details)

    def ask(self, agent: str, do: str, **details: Any) -> Any:
        """Tell a running worker what to do and wait until it has been done; its answer."""
        with self._channel() as channel:
            self._send(channel, agent, do, details)
            channel.settimeout(PATIENCE)
            return json.loads(channel.recv(4096))

    def prepare(self, agent: str, do: str, **details: Any) -> None:
        """Tell the agent's next start what to do."""
        (self._control / "new").write_text(json.dumps({"do": do, **details}))
        (self._control / "new").rename(self.prepared(agent))

    def prepared(self, agent: str) -> Path:
        """The file that is there until a start has followed it."""
        return self._control / f"{agent}.start"

    @contextmanager
    def _channel(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind("")  # the kernel makes an address up
            yield channel

    def _send(self, channel: socket.socket, agent: str, do: str, details: dict[str, Any]) -> None:
        # By way of a descriptor: the folder's own path may be longer than a socket's address can be.
        folder = os.open(self._control, os.O_PATH | os.O_DIRECTORY)
        try:
            address = f"/proc/self/fd/{folder}/{agent}.sock"
            channel.sendto(json.dumps({"do": do, **details}).encode(), address)
        finally:
            os.close(folder)
