"""A real fleet with a victim, and what has to hold whatever the victim or a stranger does to the supervisor.

Two agents, one of which depends on the other, must notice nothing: same workers, same health, every call answered. The
victim may die of what is done to it and has to come back. `status` has to agree with the processes of the machine. The
supervisor's loop is measured from inside by `instrument/sitecustomize.py`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from support.faults.fuzz.material import MARK
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.fleet.log_reader import LogReader
from support.fleet.process_tree import descendants
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet.deployment import Deployment

PATIENCE = 90.0
"""Seconds within which a victim is back."""

CALM = ("calm", "dependent")
"""Agents that must not notice anything."""

VICTIMS = ("victim", "twin")
"""Agents to which things are done; both probe the same server."""

_WORKER = re.compile(r"pallas-worker (\S+) (\d+) ")
_LOOK_INTERVAL = 0.02
_DEFECTS = re.compile(r"Traceback|a defect|Exception in (callback|ASGI)|never retrieved")
_SUPERVISOR_LOGGERS = ("pallas.supervisor", "pallas.registry", "asyncio", "uvicorn", "starlette")


class BrokenError(AssertionError):
    """Something did not hold."""


class WatchedFleet:
    """The fleet, as a context.

    Args:
        directory: a folder to be made.
        stall_matters: whether a stall of the loop is a problem, or only counted.
    """

    def __init__(self, directory: Path, *, stall_matters: bool = True) -> None:
        self.directory = directory
        self.stalls: list[dict[str, Any]] = []
        self._stall_matters = stall_matters
        self._report = directory / "loop-report.jsonl"
        self._reported = 0
        self._stack = ExitStack()
        self._calls = dict.fromkeys(CALM, 0)

    def __enter__(self) -> Self:
        self.directory.mkdir()
        self.deployment = self._deploy()
        environment = {
            "PALLAS_TEST_LOOP_REPORT": str(self._report),
            "PYTHONPATH": str(Path(__file__).with_name("instrument")),
            "PALLAS_PROBE_INTERVAL": "1",
        }
        self.fleet = self._stack.enter_context(Fleet(self.deployment, env=environment))
        self.fleet.wait()
        self.log = LogReader(self.fleet.log_file)
        self._client = self._stack.enter_context(httpx.Client(timeout=PATIENCE))
        self._before = {name: self.fleet.agent(name)["pid"] for name in CALM}
        self._supervisor = self._supervisor_pid()
        self._await_health()
        self._read_report()
        self.stalls.clear()  # of the start
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _deploy(self) -> Deployment:
        defaults = {"max_failures": 1000, "reset_after": 0.05, "stop_timeout": 2, "start_timeout": 60}
        deployment = make_deployment(self.directory / "fleet", defaults=defaults)
        (nobody,) = free_ports(1)
        deployment.servers["shared"] = {"transport": "http", "url": f"http://127.0.0.1:{nobody}/mcp"}
        deployment.add("calm")
        deployment.add("dependent", depends_on=["calm"])
        for name in VICTIMS:
            deployment.add(name, servers=("shared",))
        deployment.write()
        return deployment

    # --- what attacks need --------------------------------------------------------------------------------

    @property
    def metrics_directory(self) -> Path:
        """Where the workers' metrics files are."""
        return self.fleet.runtime / "metrics"

    def pid(self, agent: str) -> int:
        """The agent's worker, as soon as it has one."""
        deadline = time.monotonic() + PATIENCE
        while (pid := self.fleet.agent(agent)["pid"]) is None:
            if time.monotonic() > deadline:
                raise BrokenError(f"{agent} has no worker: {self.fleet.agent(agent)}")
            time.sleep(_LOOK_INTERVAL)
        assert isinstance(pid, int)
        return pid

    def kill(self, agent: str) -> None:
        """SIGKILL the agent's worker."""
        os.kill(self.pid(agent), signal.SIGKILL)

    # --- what has to hold ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Wait until the victims are back and look at everything.

        Raises:
            BrokenError: something did not hold.
        """
        self._settle()
        for name in VICTIMS:
            self._call_victim(name)
        self._settle()
        problems = [*self._disturbed(), *self._loop_problems(), *self.log.problems(), *self._log_defects()]
        problems += self._scrape_problems()
        if problems:
            raise BrokenError("; ".join(problems[:10]))

    def _settle(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while unsettled := self._unsettled():
            if time.monotonic() > deadline:
                raise BrokenError(f"not in order within {PATIENCE:g} s: " + "; ".join(unsettled))
            time.sleep(_LOOK_INTERVAL)  # processes have no event for us

    def _call_victim(self, name: str) -> None:
        """What was done to it may end it with its next call; the worker after that has to answer."""
        for _ in range(3):
            try:
                if (text := self._call(name)) != "still there?":
                    raise BrokenError(f"{name} answered {text!r}")
            except httpx.TransportError:
                self._settle()
            else:
                return
        raise BrokenError(f"{name} ends with every call")

    def _unsettled(self) -> list[str]:
        """What may be wrong for a moment."""
        agents = {agent["name"]: agent for agent in self.fleet.status()["agents"]}
        found = [
            f"{name} is {agent['state']} ({agent['message']}, {agent['last_exit']})"
            for name, agent in agents.items()
            if agent["state"] != "ready" or agent["replacement"] is not None
        ]
        running = {
            match[1]: process.pid
            for process in descendants(self.fleet.pid)
            if not process.zombie and (match := _WORKER.match(process.title + " ")) is not None
        }
        found += [
            f"status says that the worker of {name} is {agent['pid']}, and it is {running.get(name)}"
            for name, agent in agents.items()
            if agent["pid"] != running.get(name)
        ]
        return found

    def _disturbed(self) -> Iterator[str]:
        if self._supervisor_pid() != self._supervisor:
            yield "the supervisor was restarted"
        for agent in self.fleet.status()["agents"]:
            name = agent["name"]
            if name in CALM and agent["pid"] != self._before[name]:
                yield f"the worker of {name} was {self._before[name]} and is {agent['pid']}"
            if name in CALM and agent["health"] != "ok":
                yield f"{name} is {agent['health']}: {agent['message']}"
        for name in CALM:
            if (text := self._call(name)) != "still there?":
                yield f"{name} answered {text!r}"

    def _supervisor_pid(self) -> int:
        pid = self.fleet.status()["supervisor"]["pid"]
        assert isinstance(pid, int)
        return pid

    def _await_health(self) -> None:
        self.fleet.await_that(
            lambda: all(self.fleet.agent(name)["health"] == "ok" for name in CALM),
            "those that are to be left alone are well",
        )

    def _call(self, agent: str) -> str:
        """What the agent answers to a call."""
        arguments = {"message": "still there?"}
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "send_message", "arguments": arguments},
        }
        headers = {"accept": "application/json, text/event-stream", "connection": "close"}
        answer = self._client.post(self.deployment.url(agent), json=body, headers=headers)
        if agent in CALM:
            self._calls[agent] += 1
        data = answer.text.partition("data: ")[2] or answer.text
        try:
            text = json.loads(data)["result"]["content"][-1]["text"]
        except (ValueError, LookupError, TypeError):
            return f"{answer.status_code}: {answer.text[:300]}"
        return str(text)

    def _read_report(self) -> list[dict[str, Any]]:
        """What the instrument has written since the last look."""
        try:
            with self._report.open("rb") as file:
                file.seek(self._reported)
                whole, feed, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._reported += len(whole) + len(feed)
        entries = [json.loads(line) for line in whole.splitlines()]
        self.stalls += [entry for entry in entries if entry["kind"] == "stall"]
        return entries

    def _loop_problems(self) -> Iterator[str]:
        for entry in self._read_report():
            if entry["kind"] == "exception":
                yield f"the loop's handler got {entry['message']}: {entry['traceback']}"
            elif self._stall_matters:
                yield f"a stall of {entry['seconds']:.3f} s ({entry['cpu']:.3f} s of CPU): {entry['slowest']}"

    def _log_defects(self) -> Iterator[str]:
        """Records of the supervisor that tell of a defect, and records under a name that is not the writer's."""
        lines = self.fleet.get("/v1/logs?n=3000").content.splitlines()
        for line in lines:
            record = json.loads(line)
            ours = str(record["logger"]).startswith(_SUPERVISOR_LOGGERS)
            text = f"{record['message']} {record.get('exception', '')}"
            if ours and record.get("agent") not in VICTIMS and _DEFECTS.search(text):
                yield f"the log says: {text[:2000]}"
            if record.get("agent") in CALM and MARK in text:
                yield f"a record under a false name: {record}"

    def _scrape_problems(self) -> Iterator[str]:
        answer = self._client.get(f"{self.deployment.registry}/metrics")
        if answer.status_code != 200:
            yield f"/metrics answered {answer.status_code}: {answer.text[:300]}"
            return
        counted: dict[str, float] = {}
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                if sample.name == "pallas_send_message_total" and sample.labels.get("outcome") == "ok":
                    agent = sample.labels["agent"]
                    counted[agent] = counted.get(agent, 0.0) + sample.value
        for name, calls in self._calls.items():
            if counted.get(name) != calls:
                yield f"{name} was called {calls} times, and /metrics says {counted.get(name)}"
