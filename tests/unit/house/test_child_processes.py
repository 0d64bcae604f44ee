"""Children are started in one room, which says what they get; whatever starts one elsewhere is found here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from support.sources import PACKAGES, modules, room_of, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOM = "pallas_common.processes"

STARTS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {
        *("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen"),
        *(f"spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
        *(f"exec{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    },
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "anyio": {"open_process", "run_process"},
    "pty": {"fork", "spawn"},
    "_posixsubprocess": {"fork_exec"},
}
"""Library → its functions that start a process or become another program."""
METHODS = {"subprocess_exec", "subprocess_shell", "fork_exec", "syscall"}
"""Names that start one, or may, whatever they belong to: of an event loop or the C library, say."""
LIBRARIES = {"multiprocessing", "concurrent.futures.process", "psutil.Popen", "pty", "_posixsubprocess"}
"""What nothing of ours imports: it starts processes by itself."""
CLASSES = {"ProcessPoolExecutor", "InterpreterPoolExecutor"}
PASSING_ON = {"recv_fds"}
"""Takes descriptors that programs would inherit; `descriptors.receive` takes them otherwise."""

ELSEWHERE = {
    "pallas_supervisor.processes.keeper.subreaper": (
        "runs without site-packages, and starts what it is told with the descriptors that it has received"
    ),
    "pallas_worker.process.sibling_fork": "forks workers by clone3(2), which no library has",
    "pallas_worker.process.inspection.__main__": "forks guards, from one thread that has opened nothing else",
    "pallas_worker.process.inspection.guard": "forks the inspected process, and closes its own descriptors there",
    "pallas_worker.process.zygote.double_fork": "forks workers where clone3(2) cannot be had",
    "pallas_worker.process.zygote.imports": "forks a process that ends at once",
}
"""Module → why it starts, or takes descriptors, by itself."""


def starts(path: Path) -> Iterator[str]:
    """The places of a file that start a process."""
    names: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name] = alias.name
                if alias.name in LIBRARIES or alias.name.split(".")[0] == "multiprocessing":
                    yield f"{path}:{node.lineno} imports {alias.name}"
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found = {f"{node.module}.{alias.name}", node.module, node.module.split(".")[0]}
                if found & LIBRARIES or alias.name in STARTS.get(node.module, set()) | CLASSES:
                    yield f"{path}:{node.lineno} imports {alias.name} of {node.module}"
        elif isinstance(node, ast.Attribute):
            owner = names.get(node.value.id, node.value.id) if isinstance(node.value, ast.Name) else ""
            if node.attr in STARTS.get(owner, set()) | METHODS | CLASSES | PASSING_ON:
                yield f"{path}:{node.lineno} uses {owner}.{node.attr}"


@pytest.mark.parametrize("package", PACKAGES)
def test_children_are_started_by_one_room(package: str) -> None:
    names = {path: name for name, path in modules().items()}
    wrong = [
        place
        for path in sources(package)
        if room_of(names[path]) != ROOM and names[path] not in ELSEWHERE
        for place in starts(path)
    ]
    assert not wrong, "start it by pallas_common.processes, which knows what a child may have"


def test_every_exception_is_needed() -> None:
    unused = [name for name in ELSEWHERE if not any(starts(modules()[name]))]
    assert not unused


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(['true'])",
        "import subprocess as sp\nsp.Popen(['true'])",
        "from subprocess import check_output",
        "import os\nos.posix_spawn('/bin/true', [], {})",
        "import os\ndef later():\n    return os.fork()",
        "from os import execv",
        "import asyncio\nawait asyncio.create_subprocess_exec('true')",
        "import anyio\nanyio.open_process(['true'])",
        "loop.subprocess_exec(None, 'true')",
        "import multiprocessing.pool",
        "from multiprocessing import Process",
        "from concurrent.futures import ProcessPoolExecutor",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
        "import pty",
        "import socket\nsocket.recv_fds(channel, 1, 1)",
    ],
)
def test_the_search_finds(source: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(source)
    assert list(starts(path))


def test_the_search_passes_over_what_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text("import asyncio, os, signal\nasyncio.run(main())\nos.kill(1, 0)\nrunner.run()\n")
    assert not list(starts(path))
