"""What the agents of a fault campaign do when they are told to: crash, hang, flood, multiply, run out of things.

Copied into a deployment and imported by its agents' modules, inside workers: nothing of the tests is known here. Orders
for the next start lie in `control/<agent>.start`, those for a running worker come to the socket `control/<agent>.sock`,
both as JSON, `{"do": …}`. Whoever survives an order answers it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 600
"""Seconds for which what hangs hangs, and after which nothing of all this lives on in any case."""

_held: list[int] = []


def obey(agent: str) -> None:
    """Follow the order for this start, if there is one, and listen for more; to be called from the agent's module."""
    signal.signal(
        signal.SIGUSR2, lambda *_: time.sleep(LONG)
    )  # in the main thread, which the loop is in later
    start = Path("control", f"{agent}.start")
    try:
        order = json.loads(start.read_text())
        start.unlink()
    except FileNotFoundError:
        order = {"do": "nothing"}
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    path = Path("control", f"{agent}.sock")
    path.unlink(missing_ok=True)
    channel.bind(str(path))
    threading.Thread(target=_listen, args=(channel,), daemon=True).start()
    _follow(order)


def _listen(channel: socket.socket) -> None:
    while True:
        order, sender = channel.recvfrom(4096)
        answer = _follow(json.loads(order))
        with contextlib.suppress(OSError):  # nobody waits for it
            channel.sendto(json.dumps(answer).encode(), sender)


def _follow(order: dict[str, Any]) -> object:
    details = {key: value for key, value in order.items() if key != "do"}
    if order["do"] == "block the loop":
        os.kill(os.getpid(), signal.SIGUSR2)
    elif order["do"] == "leave strays":
        return {way: leave() for way, leave in _STRAYS.items()}
    elif order["do"] != "nothing":
        _DEEDS[order["do"]](**details)
    return "done"


def _hold_the_interpreter() -> None:
    threading.Timer(0.05, ctypes.PyDLL(None).sleep, (LONG,)).start()  # the answer goes first


def _ignore_sigterm() -> None:
    # Behind Python's back: the loop's own handler would be called otherwise.
    ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))


def _multiply(count: int) -> None:
    for number in range(count):
        _KINDS[number % len(_KINDS)]()


def _eat_memory() -> None:
    """Run into the limit of the address space, and end as a program does that has no memory left."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
    eaten = []
    try:
        while True:
            eaten.append(bytearray(1 << 20))
    except MemoryError:
        os.abort()


def _flood(size: int) -> None:
    line = b"x" * 99 + b"\n"
    block = line * 600
    for _ in range(size // len(block) + 1):
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(1, rest) :]


def _babble(lines: list[tuple[str, str, int, str]], times: int) -> None:
    """Write lines, of a beginning, a piece so many times, and an end, to every pipe that leads out, and end."""
    written = b"".join(f"{begin}{piece * count}{end}\n".encode() for begin, piece, count, end in lines)
    ends: dict[int, list[tuple[str, int]]] = {os.O_RDONLY: [], os.O_WRONLY: []}
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):  # it was the listing's own
            target = Path(f"/proc/self/fd/{number}").readlink()
            if str(target).startswith("pipe:"):
                ends[fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE].append((str(target), number))
    inside = {target for target, _ in ends[os.O_RDONLY]}  # nobody else reads those
    for pipe, number in ends[os.O_WRONLY]:
        if pipe not in inside:
            os.set_blocking(number, True)
            rest = memoryview(written * times)
            while rest:
                rest = rest[os.write(number, rest) :]
    os._exit(1)


def _take_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, hard))
    try:
        while True:
            _held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass


def _give_descriptors_back() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    while _held:
        os.close(_held.pop())


# --- grandchildren: all ignore SIGTERM and have sessions of their own -------------------------------------


def _stay() -> None:
    """Ignore SIGTERM for as long as it may be. For a forked child, whose other threads are gone."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))
    os.setsid()
    time.sleep(LONG)
    os._exit(0)


def _fork() -> None:
    if os.fork() == 0:
        _stay()


def _fork_twice() -> None:
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            _stay()
        os._exit(0)
    os.waitpid(child, 0)


def _execute() -> None:
    subprocess.Popen(["sh", "-c", f"trap '' TERM; exec sleep {LONG}"], start_new_session=True)


def _execute_unsigned() -> None:
    command = ["env", "-i", "sh", "-c", f"trap '' TERM; (exec sleep {LONG}) & exec sleep {LONG}"]
    subprocess.Popen(command, start_new_session=True)


# --- strays: whatever a worker may leave behind, each by one way to get away from it ----------------------


def _stray(
    *,
    forks: int = 2,
    session: bool = True,
    environment: dict[str, str] | None = None,
    close: bool = False,
    block: bool = False,
    execute: bool = True,
) -> int:
    """Leave a process that sleeps; its process ID."""
    reader, writer = os.pipe()
    if os.fork() != 0:
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            return int(answer.readline())
    try:
        if session:
            os.setsid()
        for _ in range(forks - 1):
            if os.fork() != 0:
                os._exit(0)
        if block:
            signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        os.write(writer, b"%d\n" % os.getpid())
        os.close(writer)
        if close:
            os.closerange(0, 4096)
        if execute:
            os.execve("/bin/sleep", ["sleep", str(LONG)], os.environ if environment is None else environment)
        time.sleep(LONG)
    finally:
        os._exit(1)


def _stray_of_multiprocessing() -> int:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(LONG,))
    process.start()
    assert process.pid is not None
    return process.pid


def _stopped_stray() -> int:
    pid = _stray(session=False)
    os.kill(pid, signal.SIGSTOP)
    return pid


_STRAYS: dict[str, Callable[[], int]] = {
    "popen": lambda: subprocess.Popen(["sleep", str(LONG)]).pid,
    "new session": lambda: subprocess.Popen(["sleep", str(LONG)], start_new_session=True).pid,
    "multiprocessing": _stray_of_multiprocessing,
    "double fork": _stray,
    "env -i": lambda: _stray(environment={}),
    "closed descriptors": lambda: _stray(close=True),
    "forked, closed descriptors": lambda: _stray(close=True, execute=False),
    "env -i, closed descriptors": lambda: _stray(environment={}, close=True),
    "blocked signals": lambda: _stray(block=True),
    "stopped": _stopped_stray,
    "another's sign": lambda: _stray(environment={"PALLAS_WORKER": "zzz/99"}),
}

_KINDS = (_fork, _fork_twice, _execute, _execute_unsigned)

_DEEDS: dict[str, Callable[..., object]] = {
    "exit": os._exit,
    "signal": lambda number: os.kill(os.getpid(), number),
    "segfault": lambda: ctypes.string_at(0),
    "eat memory": _eat_memory,
    "hang": lambda: time.sleep(LONG),
    "hold the interpreter": _hold_the_interpreter,
    "ignore SIGTERM": _ignore_sigterm,
    "multiply": _multiply,
    "flood": _flood,
    "babble": _babble,
    "close stderr": lambda: os.close(2),
    "take descriptors": _take_descriptors,
    "give descriptors back": _give_descriptors_back,
}

if __name__ == "__main__":
    sys.exit("this is for agents' modules")
