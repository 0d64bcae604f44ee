"""What the children of a worker have open: its stdio servers, and what its agent's own code starts and forks."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from pathlib import Path

LOOK = """
import os, socket


def look():
    found = {}
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
            if found[number].startswith("socket:"):
                found[number] = socket.socket(fileno=os.dup(number)).family.name
        except OSError:  # the listing's own
            continue
    return found
"""

SERVER = """
import json, sys
from look import look
seen = look()
INFO = {"name": "s", "version": "1"}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    tools = [{"name": "seen", "inputSchema": {"type": "object", "properties": {}}}]
    result = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO},
        "tools/list": {"tools": tools},
        "tools/call": {"content": [{"type": "text", "text": json.dumps(seen)}]},
    }.get(asked["method"], None)
    outcome = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}), flush=True)
"""

AGENT = """
import asyncio, json, multiprocessing, os, subprocess, sys

from fast_agent import FastAgent

from look import look

SHOW = [sys.executable, "-c", "import json; from look import look; print(json.dumps(look()))"]


def told(writing):
    os.write(writing, json.dumps(look()).encode())
    os.close(writing)


def read(reading):
    with open(reading) as file:
        return json.load(file)


def by_fork():
    reading, writing = os.pipe()
    if os.fork() == 0:
        told(writing)
        os._exit(0)
    os.close(writing)
    return read(reading)


def by_multiprocessing(method):
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        return pool.apply(look)


async def looks() -> str:
    \"\"\"Say what children have.\"\"\"
    child = await asyncio.create_subprocess_exec(*SHOW, stdout=subprocess.PIPE, close_fds=False)
    by_loop = json.loads((await child.communicate())[0])
    return json.dumps({
        "subprocess": json.loads(subprocess.check_output(SHOW, close_fds=False)),
        "asyncio": by_loop,
        "spawn": by_multiprocessing("spawn"),
        "fork": by_fork(),
        "multiprocessing": by_multiprocessing("fork"),
    })


fast = FastAgent("tests")


@fast.agent(name="demo", instruction="You look.", servers=["local"], function_tools=[looks])
async def demo(): ...
"""

PROGRAMS = ("subprocess", "asyncio", "spawn")
LEADS_NOWHERE = {os.devnull, "AF_UNIX", "anon_inode:[eventfd]", "anon_inode:[pidfd]"}
"""What a fork may have besides files and the pipes of whoever forks: what stands in the place of the worker's."""


def test_no_child_of_a_worker_has_what_is_not_meant_for_it(tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "server.py").write_text(SERVER)
    servers = {"local": {"command": sys.executable, "args": ["server.py"]}}
    folder = project(tmp_path, servers=servers, agents=AGENT)
    with run_worker(folder, environment={"PYTHONPATH": str(tmp_path)}) as worker:
        server = json.loads(text(call(worker.url, "auto", "demo", message="***CALL_TOOL local__seen {}")))
        found = json.loads(text(call(worker.url, "auto", "demo", message="***CALL_TOOL looks {}")))
    assert more_than_standard(server) == set()
    for kind in PROGRAMS:
        assert more_than_standard(found[kind]) == set(), kind
    for kind in ("fork", "multiprocessing"):
        links = {link for number, link in found[kind].items() if int(number) > 2}
        left = {link for link in links if not link.startswith(("/", "pipe:"))} - LEADS_NOWHERE
        assert left == set(), kind


def more_than_standard(found: dict[str, str]) -> set[str]:
    """What a program has besides stdin, stdout and stderr; pipes and semaphores are multiprocessing's own."""
    standard = {link for number, link in found.items() if int(number) <= 2}
    return {link for link in found.values() if not link.startswith(("pipe:", "/dev/"))} - standard
