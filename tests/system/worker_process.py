"""A worker's serving side in a process of its own, on a socket that the test has bound.

Knows `pallas_worker.serve`; stands in for the supervisor and for the process side of a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_registry.protocol import ReadyReport, Report, WorkerSpec, decode_report, encode_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_TIMEOUT = 60.0
"""Seconds within which a worker must be ready or have failed: it only bounds a failing test."""


@dataclass
class RunningWorker:
    """A worker process as its supervisor sees it."""

    process: subprocess.Popen[bytes]
    listener: socket.socket
    reports: list[Report] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    """Its log records: name, level, message, and what the record carries besides."""
    ended: bool = False
    """It has written its last; its exit follows or has happened."""
    _changed: threading.Condition = field(default_factory=threading.Condition)

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
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_TIMEOUT)

    def read(self, lines: Any) -> None:
        """Take in what the worker writes, until it ends."""
        for line in lines:
            with self._changed:
                if line.startswith(b"R "):
                    self.reports.append(decode_report(line[2:]))
                else:
                    self.records.append(json.loads(line[2:]))
                self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()


@contextlib.contextmanager
def run_worker(
    directory: Path,
    *,
    module: str = "agents.demo",
    agent: str = "demo",
    ready: bool = True,
    environment: dict[str, str] | None = None,
    listener: socket.socket | None = None,
    **changes: Any,
) -> Iterator[RunningWorker]:
    """Run a worker for `agent` of `module` in `directory` until the block ends; wait until it is ready.

    `changes` are fields of the `WorkerSpec`; `environment` is added to a small one without any key. With a
    `listener` of an earlier worker, this one takes over from it.
    """
    if listener is None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        listener.setblocking(False)
    listener = listener.dup()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    metrics = directory / "metrics"
    metrics.mkdir(exist_ok=True)
    fields: dict[str, Any] = {
        "agent": agent,
        "module": module,
        "title": "Demo",
        "description": "An agent of the tests",
        "version": "1.0.0",
        "deployment": "tests",
        "port": listener.getsockname()[1],
        "generation": 1,
        "directory": str(directory),
        "allowed_hosts": ("127.0.0.1:*", "localhost:*"),
        "metrics_directory": str(metrics),
        "metrics_slot": "demo0",
        "stop_timeout": 10.0,
        "log_level": "DEBUG",
        "root_log_level": "INFO",
        "environment": kept | (environment or {}),
    }
    spec = WorkerSpec(**fields | changes)
    process = subprocess.Popen(
        [sys.executable, __file__, str(listener.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=spec.directory,
        env=dict(spec.environment) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )
    worker = RunningWorker(process, listener)
    reader = threading.Thread(target=worker.read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        assert process.stdin is not None
        process.stdin.write(spec.to_json())
        process.stdin.close()
        if ready:
            worker.wait_until(
                lambda it: it.ended or any(isinstance(report, ReadyReport) for report in it.reports)
            )
            assert not worker.ended, (process.wait(), worker.reports, worker.records[-10:])
        yield worker
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join(10)
        assert process.stdout is not None
        process.stdout.close()
        listener.close()


class _RecordWriter(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        extra = {"conversation_id": getattr(record, "conversation_id", None)}
        fields = {"name": record.name, "level": record.levelname, "message": record.getMessage()}
        if record.exc_info:
            fields["traceback"] = logging.Formatter().formatException(record.exc_info)
        _write(b"L " + json.dumps(fields | extra).encode() + b"\n")


_OUTPUT = 3
"""Where the worker's real standard output is kept, so that an agent that prints does not disturb."""


def _write(line: bytes) -> None:
    os.write(_OUTPUT, line)


def _main() -> None:
    spec = WorkerSpec.from_json(sys.stdin.buffer.read())
    listener = socket.socket(fileno=int(sys.argv[1]))
    global _OUTPUT
    _OUTPUT = os.dup(1)
    os.dup2(2, 1)
    sys.path.insert(0, spec.directory)
    from pallas_worker.correlation import CorrelationFilter

    handler = _RecordWriter()
    handler.addFilter(CorrelationFilter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("pallas").setLevel(spec.log_level)
    from pallas_worker.errors import AgentError
    from pallas_worker.metrics import open_metrics
    from pallas_worker.serve import serve

    open_metrics(spec.metrics_directory, spec.metrics_slot)

    async def run() -> None:
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        await serve(spec, listener, lambda report: _write(b"R " + encode_report(report)), stopping)

    try:
        asyncio.run(run())
        os._exit(0)  # as a worker does: the interpreter's own end takes half a second
    except AgentError as error:
        from pallas_registry.protocol import EXIT_FAILURE, EXIT_PERMANENT, FailedReport

        _write(b"R " + encode_report(FailedReport(message=str(error), permanent=error.permanent)))
        os._exit(EXIT_PERMANENT if error.permanent else EXIT_FAILURE)


if __name__ == "__main__":
    _main()
