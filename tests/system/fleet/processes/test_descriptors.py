"""Every process of a deployment: whatever it starts inherits none of its descriptors but stdin, stdout and stderr."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import with_gateway

if TYPE_CHECKING:
    import psutil

KINDS = (
    "pallas-zygote",
    "pallas-spare",
    "pallas-worker forked",
    "pallas-worker own",
    "pallas-gateway",
    "subreaper",
)
"""Parts of their command lines, besides the supervisor's."""


def inheritable(process: psutil.Process) -> set[str]:
    """What a program would inherit that the process starts now: what is not marked close-on-exec."""
    found = set()
    for entry in Path("/proc", str(process.pid), "fd").iterdir():
        try:
            info = Path("/proc", str(process.pid), "fdinfo", entry.name).read_text()
            link = str(entry.readlink())
        except OSError:  # it has just been closed
            continue
        flags = next(line.split()[1] for line in info.splitlines() if line.startswith("flags:"))
        if int(entry.name) > 2 and not int(flags, 8) & os.O_CLOEXEC:
            found.add(f"{entry.name} -> {link}")
    return found


def test_no_process_of_a_deployment_has_anything_that_programs_inherit(tmp_path: Path) -> None:
    """Also where `pallas` itself was started with a descriptor too many, as by a shell that holds a lock."""
    deployment = with_gateway(make_deployment(tmp_path / "fleet", "forked"))
    deployment.add("own", python=sys.executable)
    fleet = Fleet(deployment)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        foreign = f"socket:[{os.fstat(listener.fileno()).st_ino}]"
        fleet.inherited = [listener.fileno()]
        with fleet:
            fleet.wait()
            fleet.spare()
            processes = fleet.processes()
            lines = [" ".join(process.cmdline()) for process in processes]
            assert [kind for kind in KINDS if not any(kind in line for line in lines)] == []
            found = {line: inheritable(process) for line, process in zip(lines, processes, strict=True)}
            assert {line: links for line, links in found.items() if links} == {}
            below = [process for process in processes if process.pid != fleet.pid]
            assert [process for process in below if foreign in links_of(process)] == []


def links_of(process: psutil.Process) -> set[str]:
    """What a process has open."""
    return {
        str(entry.readlink())
        for entry in Path("/proc", str(process.pid), "fd").iterdir()
        if entry.is_symlink()
    }
