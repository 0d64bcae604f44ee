"""Downstream servers that fail: what the worker's health and log say, and how that ends by itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fakes import stdio_server
from fakes.downstream import Fault, run_downstream
from fakes.tool_lists import run_tool_lists, tool
from pallas_common.protocol.reports import HealthReport
from support.ports import free_ports
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from pallas_common.protocol.reports import DownstreamHealth

SECRET = "the-servers-secret"
WELL = [sys.executable, "-IS", str(Path(stdio_server.__file__))]


def dying(flag: Path, words: str) -> dict[str, Any]:
    """A server that says why it ends, until the file is there."""
    script = (
        f"test -e {flag} || {{ echo 'starting' >&2; echo '{words}' >&2; exit 1; }}; exec {' '.join(WELL)}"
    )
    return {"command": "sh", "args": ["-c", script], "env": {"API_TOKEN": SECRET}}


def newest(worker: RunningWorker) -> HealthReport | None:
    return next((report for report in reversed(worker.reports) if isinstance(report, HealthReport)), None)


def is_known_as(status: str) -> Any:
    def reached(worker: RunningWorker) -> bool:
        report = newest(worker)
        return report is not None and report.status == status

    return reached


def servers_of(worker: RunningWorker) -> dict[str, DownstreamHealth]:
    report = newest(worker)
    assert report is not None
    return {server.name: server for server in report.downstreams}


def test_a_server_that_says_why_it_ends_is_down_and_its_words_are_in_the_log(tmp_path: Path) -> None:
    flag = tmp_path / "mended"
    servers = {
        "one": dying(flag, "KeyError: API_TOKEN is wrong"),
        "two": dying(flag, f"refused: {SECRET}"),
        "three": {"command": "sh", "args": ["-c", f"test -e {flag} || exit 1; exec {' '.join(WELL)}"]},
        "good": {"command": WELL[0], "args": WELL[1:]},
    }
    with run_worker(project(tmp_path, servers=servers), probe_interval=0.3) as worker:
        worker.wait_until(is_known_as("degraded"))
        found = servers_of(worker)
        assert [name for name, server in found.items() if server.up] == ["good"]
        assert found["one"].error == "ended before it answered: KeyError: API_TOKEN is wrong"
        assert found["two"].error == "ended before it answered: starting | refused: [redacted]"
        assert found["three"].error == "ended before it answered"
        health = json.loads(text(call(worker.url, "auto", "get_health")))
        assert (health["status"], health["message"]) == ("degraded", "Unreachable: one, two, three")
        assert "pid" in text(call(worker.url, "auto", "demo", message="***CALL_TOOL good__pid {}"))

        flag.touch()  # and nobody calls: the worker itself tries again
        worker.wait_until(is_known_as("ok"))
        assert all(server.up and server.error is None for server in servers_of(worker).values())
        assert "pid" in text(call(worker.url, "auto", "demo", message="***CALL_TOOL one__pid {}"))
        worker.stop()

    said = [
        r["message"] for r in worker.records if r["name"] == "pallas.worker.server" and r["level"] == "INFO"
    ]
    assert sorted(said) == [  # once, however often they are tried
        "one: KeyError: API_TOKEN is wrong",
        "one: starting",
        "two: refused: [redacted]",
        "two: starting",
    ]
    for name in ("one", "two", "three"):
        changes = [r["message"] for r in worker.records if f"downstream server {name} is" in r["message"]]
        assert len(changes) == 2, changes
        assert "is up again; attempts that failed: " in changes[1]
    assert not any(SECRET in json.dumps(record) for record in worker.records)


def test_a_server_that_cannot_be_reached_is_a_line_when_it_goes_and_one_when_it_comes(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    servers = {"late": {"transport": "http", "url": f"http://127.0.0.1:{port}/mcp"}}
    with run_worker(project(tmp_path, servers=servers), probe_interval=0.3) as worker:
        worker.wait_until(is_known_as("degraded"))
        for _ in range(3):  # calls try it, and so does the worker after each of them
            assert text(call(worker.url, "auto", "demo", message="alone")) == "alone"
        with run_downstream(port=port):
            worker.wait_until(is_known_as("ok"))
            used = '***CALL_TOOL late__echo {"text": "back"}'
            assert "back" in text(call(worker.url, "auto", "demo", message=used))
            worker.stop()
    told = [
        r
        for r in worker.records
        if "late" in r["message"] and r["level"] != "DEBUG" and r["name"] != "pallas.worker.calls"
    ]
    assert [r["message"].partition("; ")[0] for r in told] == [
        "downstream server late is down: cannot connect",
        "downstream server late is up again",
    ]
    assert not [r for r in worker.records if r["level"] in ("WARNING", "ERROR") and r not in told]
    assert not any("Traceback" in str(record) for record in told)


def test_a_server_that_wants_its_callers_token_is_not_down_before_one_has_called(tmp_path: Path) -> None:
    with run_downstream(fault=Fault(status=401)) as server:
        servers = {"personal": {"transport": "http", "url": server.url, "forward_inbound_auth": True}}
        with run_worker(project(tmp_path, servers=servers)) as worker:
            worker.wait_until(lambda worker: newest(worker) is not None)
            report = newest(worker)
            assert report is not None
            assert (report.status, report.message) == ("ok", None)


def test_all_pages_of_a_servers_lists_are_used_and_what_is_cut_is_said(tmp_path: Path) -> None:
    with (
        run_tool_lists([tool(f"t{number}") for number in range(7)], page=3) as paged,
        run_tool_lists([tool("first")], page=1) as endless,
    ):
        endless.endless = True
        servers = {
            "paged": {"transport": "http", "url": paged.url},
            "endless": {"transport": "http", "url": endless.url},
        }
        with run_worker(project(tmp_path, servers=servers)) as worker:
            assert text(call(worker.url, "auto", "demo", message="***CALL_TOOL paged__t6 {}")) == "t6 ran"
            worker.wait_until(is_known_as("degraded"))
            found = servers_of(worker)
            assert (found["paged"].up, found["paged"].incomplete) == (True, None)
            why = "only 1 of its tools are used: their pages do not end"
            assert (found["endless"].up, found["endless"].incomplete) == (True, why)
            report = newest(worker)
            assert report is not None
            assert report.message == f"Incomplete: endless ({why})"
            worker.stop()
    assert [r["message"] for r in worker.records if why in r["message"]] == [f"endless: {why}"]


def test_a_server_with_other_tools_is_asked_again_once_one_is_unknown_there(tmp_path: Path) -> None:
    with run_tool_lists([tool("old")]) as server:
        servers = {"files": {"transport": "http", "url": server.url}}
        with run_worker(project(tmp_path, servers=servers)) as worker:
            assert text(call(worker.url, "auto", "demo", message="***CALL_TOOL files__old {}")) == "old ran"
            server.tools = [tool("new")]
            said = text(call(worker.url, "auto", "demo", message="***CALL_TOOL files__old {}"))
            assert "Unknown tool: old" in said
            assert text(call(worker.url, "auto", "demo", message="***CALL_TOOL files__new {}")) == "new ran"
