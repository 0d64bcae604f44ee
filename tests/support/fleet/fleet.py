"""A real `pallas` process on a deployment, and the ways to talk to it: control socket, log stream, signals.

Waits for events, never for time; every wait has a bound, after which the test fails with the log's tail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
import psutil

from support.fleet.process_tree import descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from support.fleet.deployment import Deployment

PATIENCE = 180.0
"""Seconds after which something that has to happen has not happened."""

BIN = Path(sys.executable).parent

KEEPER = "subreaper.py"
"""Part of the command line of the keeper, the process between the supervisor and all others."""

type Record = dict[str, Any]


class Fleet:
    """One supervisor process; as a context manager it is stopped, or killed, at the end."""

    def __init__(self, deployment: Deployment, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.deployment = deployment
        self.runtime = deployment.directory / "run"
        self.state = deployment.directory / "state"
        self.log_file = deployment.directory / "log" / "pallas.log"
        self._arguments = arguments
        self.environment = {
            **os.environ,
            "PALLAS_RUNTIME_DIR": str(self.runtime),
            "PALLAS_STATE_DIR": str(self.state),
            "PALLAS_LOG_FILE": str(self.log_file),
            **(env or {}),
        }
        self.wrapper: Sequence[str] = ()
        """What starts `pallas`, instead of this process itself; its command line follows."""
        self.inherited: Sequence[int] = ()
        """Descriptors that it inherits."""
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise

    # --- the process --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start `pallas` and return as soon as its control socket answers."""
        out = (self.deployment.directory / "stderr.txt").open("a")
        with out:
            self.process = subprocess.Popen(
                [*self.wrapper, str(BIN / "pallas"), *self._arguments],
                cwd=self.deployment.directory,
                env=self.environment,
                pass_fds=self.inherited,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                text=True,
            )
        self.await_that(self._answers, "the control socket answers")

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"pallas ended with {self.process.returncode}: {self.stderr}")
        try:
            return self.get("/v1/status").status_code == 200
        except httpx.TransportError:
            return False

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def stderr(self) -> str:
        return (self.deployment.directory / "stderr.txt").read_text()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def processes(self) -> list[psutil.Process]:
        """The supervisor and all that descends from it."""
        supervisor = psutil.Process(self.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def keeper(self) -> psutil.Process:
        """The process between the supervisor and all that it starts."""
        return next(child for child in psutil.Process(self.pid).children() if KEEPER in str(child.cmdline()))

    def zygote(self) -> psutil.Process:
        """The zygote."""
        return self.descendant("pallas-zygote")

    def spare(self) -> psutil.Process:
        """The worker that is forked ahead, as soon as it is there."""
        return self.descendant("pallas-spare")

    def descendant(self, title: str) -> psutil.Process:
        """The one with this title or command line, as soon as it is there."""
        found: list[int] = []

        def there() -> bool:
            found[:] = [process.pid for process in descendants(self.pid) if process.title == title]
            return bool(found)

        self.await_that(there, f"{title} is there")
        return psutil.Process(found[0])

    # --- the control socket -------------------------------------------------------------------------------

    def _client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=str(self.runtime / "control.sock"))
        return httpx.Client(transport=transport, base_url="http://pallas", timeout=PATIENCE)

    def get(self, path: str) -> httpx.Response:
        with self._client() as client:
            return client.get(path)

    def post(self, path: str, **body: Any) -> httpx.Response:
        with self._client() as client:
            return client.post(path, json=body)

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = self.get("/v1/status").json()
        return document

    def agent(self, name: str) -> dict[str, Any]:
        """One agent's status."""
        return next(agent for agent in self.status()["agents"] if agent["name"] == name)

    def pids(self) -> dict[str, int | None]:
        return {agent["name"]: agent["pid"] for agent in self.status()["agents"]}

    def wait(self, *names: str, until: str = "ready") -> None:
        """Wait until the agents (all, if none is named) are there."""
        answer = self.post("/v1/wait", agents=list(names), timeout=PATIENCE, **{"for": until})
        assert answer.json().get("done"), f"{answer.text}\n{self.stderr[-4000:]}"

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the real `pallasctl`."""
        return self._run("pallasctl", *arguments)

    def pallas(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a verb of the real `pallas`."""
        return self._run("pallas", *arguments)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / program), *arguments],
            cwd=self.deployment.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    # --- the log ------------------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """The log file's records, among them all that the supervisor has told by now; every line has to parse."""
        if self.process is not None and self.process.poll() is None:
            # The file is written by a thread of its own, a little later than the log is told to anybody who asks.
            told = set(self.get("/v1/logs?n=1000000").content.splitlines())
            self.await_that(lambda: told <= set(self._lines()), "what was told is in the log file")
        return self.written()

    def written(self) -> list[Record]:
        """The log file's records as it is; every line has to parse."""
        return [json.loads(line) for line in self._lines()]

    def _lines(self) -> list[bytes]:
        """The lines of the log file; the last one may be half written while the supervisor runs."""
        *lines, rest = self.log_file.read_bytes().split(b"\n")
        assert not rest or self.process is None or self.process.poll() is None, rest
        return lines

    def transitions(self, *names: str) -> list[Record]:
        """Records of state changes, of the named agents or of all."""
        return [r for r in self.records() if "previous" in r and (not names or r["agent"] in names)]

    def follow(self) -> LogStream:
        """A stream of the records from now on; open it before causing what is waited for."""
        return LogStream(self)

    def leave_the_log(self) -> None:
        """Follow the log, and go away with the first that comes of it."""
        with (
            self._client() as client,
            client.stream("GET", "/v1/logs", params={"follow": "1"}, timeout=PATIENCE) as lines,
        ):
            next(lines.iter_raw())

    def kill(self, name: str) -> int:
        """SIGKILL the agent's worker and return once another one is ready; its process ID."""
        before = self.agent(name)
        with self.follow() as log:
            os.kill(before["pid"], signal.SIGKILL)
            log.until(
                lambda r: (
                    r.get("agent") == name
                    and r.get("state") == "ready"
                    and r["generation"] > before["generation"]
                )
            )
        pid = self.agent(name)["pid"]
        assert isinstance(pid, int)
        return pid

    def await_that(self, reached: Callable[[], bool], what: str) -> None:
        """Look again and again until it is so; only for what no event tells."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {PATIENCE:g} s: {what}\n{self.stderr[-4000:]}")
            time.sleep(0.02)  # between two looks at a process that offers no event yet


class LogStream:
    """The log as a stream, read by a thread into a list that `until` waits on."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._seen: list[Record] = []
        self._news = threading.Condition()
        self._open = threading.Event()
        self._client = fleet._client()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._open.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _read(self) -> None:
        try:
            timeout = httpx.Timeout(PATIENCE, read=None)
            with self._client.stream(
                "GET", "/v1/logs", params={"follow": "1", "n": 0}, timeout=timeout
            ) as answer:
                self._open.set()
                for line in answer.iter_lines():
                    if line:
                        with self._news:
                            self._seen.append(json.loads(line))
                            self._news.notify_all()
        except (httpx.HTTPError, httpx.StreamError, OSError, RuntimeError):
            pass  # the stream was closed, or the supervisor has gone

    def until(self, wanted: Callable[[Record], bool]) -> Record:
        """The first record, of those since the stream was opened, that is wanted."""
        with self._news:
            if not self._news.wait_for(lambda: any(map(wanted, self._seen)), PATIENCE):
                tail = "\n".join(str(record) for record in self._seen[-40:])
                raise AssertionError(f"the record did not come; the last ones were:\n{tail}")
            return next(filter(wanted, self._seen))


def run_to_end(
    deployment: Deployment, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `pallas` where it is expected to end by itself."""
    fleet = Fleet(deployment, *arguments, env=env)
    return subprocess.run(
        [str(BIN / "pallas"), *arguments],
        cwd=deployment.directory,
        env=fleet.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
