"""A worker in a process of its own, on a socket that the test has bound.

Knows the worker protocol, and stands in for the supervisor; how the process comes to be is in `children`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.reports import ReadyReport, Report, decode_report
from pallas_common.protocol.spec import Descriptors, WorkerSpec
from pallas_registry.reading.sources import card_source, module_source
from support.worker.children import SMALL_ENVIRONMENT, Child, forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

START_TIMEOUT = 180.0
"""Seconds within which a worker must be ready or have failed: it only bounds a failing test."""


@dataclass
class RunningWorker:
    """A worker process as its supervisor sees it."""

    process: Child
    listener: socket.socket
    reports: list[Report] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    """Its log records: name, level, message, conversation_id, and the traceback if there is one."""
    _reading: int = 2
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def ended(self) -> bool:
        """It has written its last; its exit follows or has happened."""
        return self._reading == 0

    @property
    def port(self) -> int:
        """Its TCP port on 127.0.0.1."""
        port: int = self.listener.getsockname()[1]
        return port

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Its MCP endpoint."""
        return f"{self.origin}/mcp"

    def wait_until(self, matches: Any, timeout: float = START_TIMEOUT) -> None:
        """Wait until `matches(self)` holds; it is looked at after every report and record, and at the end."""
        with self._changed:
            if not self._changed.wait_for(lambda: matches(self), timeout):
                raise TimeoutError(f"reports: {self.reports}; records: {self.records[-10:]}")

    def messages(self, level: str) -> list[str]:
        """The messages of all records of this level so far."""
        return [record["message"] for record in self.records if record["level"] == level]

    def stop(self) -> int:
        """Ask it to drain (SIGTERM) and wait for its exit status."""
        self.process.terminate()
        return self.process.wait(START_TIMEOUT)

    def read(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        """Take in the lines that the worker writes to this pipe, until it ends."""
        with open(descriptor, "rb") as lines:
            for line in lines:
                with self._changed:
                    take(line)
                    self._changed.notify_all()
        with self._changed:
            self._reading -= 1
            self._changed.notify_all()


@contextlib.contextmanager
def run_worker(
    directory: Path,
    *,
    module: str = "agents.demo",
    card: str | None = None,
    agent: str = "demo",
    ready: bool = True,
    environment: dict[str, str] | None = None,
    listener: socket.socket | None = None,
    make: Callable[[Descriptors, Mapping[str, str]], Child] = forked,
    **changes: Any,
) -> Iterator[RunningWorker]:
    """Run a worker for `agent` of `module`, or of `card`, in `directory` until the block ends; wait until it is ready.

    `changes` are fields of the `WorkerSpec`; `environment` is added to a small one without any key. With a
    `listener` of an earlier worker, this one takes over from it. What the agent prints goes to our stderr.
    """
    if listener is None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        listener.setblocking(False)
    listener = listener.dup()
    metrics = directory / "metrics"
    metrics.mkdir(exist_ok=True)
    fields: dict[str, Any] = {
        "agent": agent,
        "source": card_source(card) if card is not None else module_source(module),
        "title": "Demo",
        "description": "An agent of the tests",
        "version": "1.0.0",
        "deployment": "tests",
        "port": listener.getsockname()[1],
        "generation": 1,
        "directory": str(directory),
        "allowed_hosts": ("localhost", "127.0.0.1"),
        "metrics_directory": str(metrics),
        "metrics_slot": "demo0",
        "stop_timeout": 10.0,
        "log_level": "DEBUG",
        "root_log_level": "INFO",
        "environment": SMALL_ENVIRONMENT | (environment or {}),
    }
    spec = WorkerSpec(**fields | changes)
    with contextlib.ExitStack() as stack:
        stack.callback(listener.close)
        lifeline, lifeline_held = os.pipe()
        stack.callback(os.close, lifeline_held)
        (reports, to_reports), (records, to_records) = os.pipe(), os.pipe()
        # Libraries that say all they can must not find it full: a worker never waits, and drops records.
        fcntl.fcntl(to_records, fcntl.F_SETPIPE_SZ, 1 << 20)
        memory = os.memfd_create("worker-spec")
        os.write(memory, spec.to_json())
        theirs = Descriptors(memory, listener.fileno(), lifeline, to_reports, to_records, 2)
        worker = RunningWorker(make(theirs, spec.environment), listener)
        for descriptor in (memory, lifeline, to_reports, to_records):
            os.close(descriptor)
        sources: list[tuple[int, Callable[[bytes], None]]] = [
            (reports, lambda line: worker.reports.append(decode_report(line))),
            (records, lambda line: worker.records.append(json.loads(line))),
        ]
        for source in sources:
            reader = threading.Thread(target=worker.read, args=source, daemon=True)
            reader.start()
            stack.callback(reader.join, 60)
        stack.callback(worker.process.end)
        if ready:
            worker.wait_until(
                lambda it: it.ended or any(isinstance(report, ReadyReport) for report in it.reports)
            )
            assert not worker.ended, (worker.process.wait(30), worker.reports, worker.records[-10:])
        yield worker
    assert not any("log records lost" in message for message in worker.messages("WARNING"))
