"""Remembers a process tree, to tell later whether any of it is left.

Knows processes by pid and start time, so that a pid used again is not mistaken for the old one.

    python scripts/lib/processes.py tree PID > remembered
    python scripts/lib/processes.py left < remembered
"""

from __future__ import annotations

import sys
from contextlib import suppress

import psutil


def describe(process: psutil.Process) -> str:
    """One line: pid, start time, command line."""
    return f"{process.pid} {process.create_time()} {' '.join(process.cmdline())}"


def tree(pid: int) -> list[str]:
    """The process and all its descendants."""
    root = psutil.Process(pid)
    lines = []
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            lines.append(describe(process))
    return lines


def left(remembered: list[str]) -> list[str]:
    """Those of the remembered lines whose process is still there."""
    return [line for line in remembered if _is_there(*line.split(maxsplit=2)[:2])]


def _is_there(pid: str, started: str) -> bool:
    try:
        process = psutil.Process(int(pid))
        return process.create_time() == float(started) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main() -> int:
    """Exit status of `left`: 0 none is there, 1 some are, and printed."""
    match sys.argv[1:]:
        case ["tree", pid]:
            print("\n".join(tree(int(pid))))
            return 0
        case ["left"]:
            there = left([line for line in sys.stdin.read().splitlines() if line])
            print("\n".join(there), end="\n" if there else "")
            return 1 if there else 0
        case _:
            print("usage: processes.py tree PID | left", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
