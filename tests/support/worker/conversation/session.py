"""Conversations with a project's agents that fast-agent itself keeps: what a worker has to equal from rows alone.

Run as a program in the project's folder: a line with agent, message and images gives one with the turn's rows.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pallas_worker.agent.messages.content import user_turn
from pallas_worker.agent.messages.rows import turn_rows
from pallas_worker.interface.chat.rows import messages_of
from pallas_worker.interface.images import parse_images
from support.worker.children import SMALL_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Session:
    """A process that holds the conversations."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def turn(self, agent: str, message: str, *images: dict[str, str]) -> list[dict[str, Any]]:
        """The rows of the conversation's next turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"agent": agent, "message": message, "images": images}) + "\n")
        self._process.stdin.flush()
        rows: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return rows


@contextmanager
def run_session(directory: Path) -> Iterator[Session]:
    """Run such a process for the module `agents.demo` until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-P", __file__],
        cwd=directory,
        env=SMALL_ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([str(directory), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Session(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


async def hold() -> None:
    """Answer each line until the input ends."""
    fast = importlib.import_module("agents.demo").fast
    async with fast.run() as app:
        while line := await asyncio.to_thread(sys.stdin.readline):
            said = json.loads(line)
            agent = app[said["agent"]]
            await agent.generate([user_turn(said["message"], parse_images(said["images"]))])
            answer = json.dumps(messages_of(turn_rows(agent.last_turn_messages)))
            print(answer, file=OUTPUT, flush=True)


if __name__ == "__main__":
    OUTPUT, sys.stdout = sys.stdout, sys.stderr
    asyncio.run(hold())
