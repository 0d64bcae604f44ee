"""A worker at its memory limit: it ends at the first MemoryError, whoever would have caught it. Real processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pallas_common.protocol.reports import FailedReport, Report, decode_report
from pallas_common.protocol.spec import EXIT_OUT_OF_MEMORY

MIB = 1024**2

WORKER = f"""
import logging, os, sys, threading
from pallas_common.protocol.link import memory_limit as memory
logging.basicConfig(format="%(message)s%(stack_info)s")
memory.LAST_WORDS_TIMEOUT = 60.0
limit = memory.MemoryLimit(256 * {MIB}, int(sys.argv[1]), by_group=len(sys.argv) > 2)
limit.count_from_here()
limit.end_at_memory_errors()

def too_much():
    try:
        return bytearray(600 * {MIB})
    except Exception:
        return None
"""


def run(script: str, *arguments: str) -> tuple[int, list[Report], str]:
    """Exit status, reports and log of a worker that does `script`."""
    read_end, write_end = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", WORKER + script, str(write_end), *arguments],
        pass_fds=[write_end],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(write_end)
    with os.fdopen(read_end, "rb") as reports:
        return done.returncode, [decode_report(line) for line in reports], done.stderr


@pytest.mark.parametrize(
    "script",
    ["too_much()", "threading.Thread(target=too_much).start(); threading.Event().wait()"],
    ids=["in the main thread", "in another one"],
)
def test_a_swallowed_memory_error_ends_the_worker_and_tells_the_place(script: str) -> None:
    status, reports, log = run(script)
    assert status == EXIT_OUT_OF_MEMORY
    (report,) = reports
    assert isinstance(report, FailedReport)
    assert not report.permanent
    assert report.message == "out of memory: it asked for more than its memory_limit of 256 MiB leaves"
    assert report.message in log
    assert "in too_much" in log


def test_a_log_that_is_locked_does_not_hold_the_end_up() -> None:
    status, reports, log = run(
        "memory.LAST_WORDS_TIMEOUT = 0.2\nlogging.getLogger().handlers[0].acquire()\ntoo_much()"
    )
    assert (status, len(reports), log) == (EXIT_OUT_OF_MEMORY, 1, "")


def test_what_fits_and_what_else_is_raised_is_nobodys_end() -> None:
    script = f"""
held = bytearray(100 * {MIB})
try:
    raise KeyError("nothing to do with memory")
except KeyError:
    pass
print(too_much, file=sys.stderr)
"""
    status, reports, log = run(script)
    assert (status, reports) == (0, [])
    assert "too_much" in log


def test_a_child_that_the_agent_forked_fails_by_itself() -> None:
    script = """
child = os.fork()
if child == 0:
    os._exit(7 if too_much() is None else 8)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(script)[:2] == (7, [])


def test_where_the_control_group_bounds_memory_allocations_are_not_limited() -> None:
    assert run("os._exit(7 if too_much() is None else 8)", "by group")[:2] == (8, [])


def test_without_room_for_another_tool_it_goes_on() -> None:
    script = """
limit.end_at_memory_errors()
os._exit(0)
"""
    status, _, log = run(script)
    assert status == 0
    assert "sys.monitoring has no room for another tool" in log
