"""What the deployment runs in: interpreter, versions, directory, control group, limits; nothing of the environment."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_common import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

type Json = dict[str, Any]

PACKAGES = ("fast-agent-mcp", "mcp", "httpx", "pydantic", "sqlalchemy", "uvicorn")
TOOLS = ("uv", "uvx", "npx", "node", "git", "docker")
"""Programs by which MCP servers are often started."""
LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "address_space": resource.RLIMIT_AS,
}


def container_info(supervisor: Mapping[str, Any]) -> Json:
    """Reads files of the kernel: to be called in a thread.

    Args:
        supervisor: the status document of the control API.
    """
    group = _control_group()
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "prefix": sys.prefix,
            "path": [path for path in sys.path if path],
        },
        "pallas": __version__,
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "tools": {name: path for name in TOOLS if (path := shutil.which(name))},
        "deployment": supervisor.get("deployment"),
        "working_directory": supervisor.get("directory"),
        "configuration": supervisor.get("file"),
        "control_group": group,
        "limits": {
            **{name: _limit(number) for name, number in LIMITS.items()},
            "memory": _group_value(group, "memory.max"),
            "tasks": _group_value(group, "pids.max"),
        },
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _limit(number: int) -> int | None:
    soft, _ = resource.getrlimit(number)
    return None if soft == resource.RLIM_INFINITY else soft


def _control_group() -> str | None:
    """Path of the control group of this process (cgroups(7), version 2)."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    return next((line[3:] for line in lines if line.startswith("0::")), None)


def _group_value(group: str | None, name: str) -> int | None:
    if group is None:
        return None
    try:
        text = (Path("/sys/fs/cgroup") / group.lstrip("/") / name).read_text().strip()
        return None if text == "max" else int(text)
    except (OSError, ValueError):
        return None
