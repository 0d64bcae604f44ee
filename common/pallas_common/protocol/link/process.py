"""How a process that the supervisor has started becomes what it is to be: identity, control group, limit, loop.

Knows this process; nothing of what it is to serve.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import setproctitle

from pallas_common.processes.signals import outlive_ordinary_signals
from pallas_common.protocol.link.memory_limit import MemoryLimit
from pallas_common.protocol.spec import EXIT_FAILURE, Descriptors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from pallas_common.protocol.agent.settings import LoopKind


def run_to_the_end(run: Callable[[threading.Event], int]) -> NoReturn:
    """End the process with the exit status that `run` returns, and with `EXIT_FAILURE` if it raises.

    By `os._exit`, because threads that somebody's libraries left behind must not hold it.

    Args:
        run: is given what it sets when the supervisor is gone: nobody is left then to end what the process has left in
            its group, which ends with it.
    """
    status = EXIT_FAILURE
    orphaned = threading.Event()
    try:
        status = run(orphaned)
    except BaseException:  # noqa: BLE001 - nothing above this reports it
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        if orphaned.is_set():
            os.killpg(0, signal.SIGKILL)
        os._exit(status)


def taken_descriptors(argument: str) -> Descriptors:
    """The descriptors that a process was executed with, from its command line; that of its output is 1 and 2 already.

    Raises:
        TypeError, ValueError: the text names none.
    """
    descriptors = Descriptors(*(int(number) for number in argument.split(",")))
    if descriptors.output > 2:
        os.close(descriptors.output)
    return descriptors


def taken_spec(descriptor: int) -> bytes:
    """All that is in the memory file of the specification, which is closed: nobody inherits it."""
    try:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def become(*, title: str, thread_title: str, environment: Mapping[str, str], directory: str) -> None:
    """Take on the process's identity: environment, directory, title, randomness, signals.

    Args:
        thread_title: of the main thread, of which the kernel keeps 15 characters.
        environment: the whole of it.
        directory: the working directory.
    """
    # Before the environment moves: the title is written over where the kernel put arguments and environment.
    setproctitle.setproctitle(title)
    setproctitle.setthreadtitle(thread_title[:15])
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()  # this and the directory for temporary files are remembered from the zygote's environment
    tempfile.tempdir = None
    os.chdir(directory)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # what is printed shall be in the log at once
    random.seed()
    gc.enable()
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    outlive_ordinary_signals()
    threading.current_thread().name = "main"


def join_group(cgroup: str | None) -> OSError | None:
    """Enter the control group before anything else runs; what kept the process from it, if anything."""
    try:
        if cgroup is not None:
            Path(cgroup, "cgroup.procs").write_text("0")
    except OSError as error:
        return error
    return None


def memory_limit(limit: int | None, cgroup: str | None, report: int) -> MemoryLimit | None:
    """The limit, in force for the start.

    Args:
        limit: bytes; None for no limit.
        cgroup: path of the process's control group, if it has one.
        report: the descriptor that the process reports on.
    """
    if limit is None:
        return None
    by_group = cgroup is not None and Path(cgroup, "memory.max").exists()
    made = MemoryLimit(limit, report, by_group=by_group)
    made.count_from_here()
    return made


def loop_factory(kind: LoopKind = "uvloop") -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes uvloop's loops, which fast-agent brings along on most systems; else None, for asyncio's own."""
    if kind == "asyncio":
        return None
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory
