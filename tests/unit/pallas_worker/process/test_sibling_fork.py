"""A process that is forked as a sibling: whose child it is, and that Python and the C library work in it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap

import pytest

from pallas_worker.process import sibling_fork

PARENT = """
import json, os, subprocess, sys
forking = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
pid, random = json.loads(forking.stdout.readline())
told = json.loads(forking.stdout.readline())
forking.wait()
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({**told, "forked": pid, "parent": os.getpid(), "status": status, "same": told["random"] == random}))
"""

FORKING = """
import asyncio, ctypes, json, os, random, signal, subprocess, threading
from pallas_worker.process.sibling_fork import fork_sibling

seen = []
os.register_at_fork(after_in_child=lambda: seen.append("hook"))

def run():
    os.close(speaking)
    os.read(spoken, 1)  # ends with the process that forked, which has spoken by then
    signal.signal(signal.SIGUSR1, lambda *_: seen.append("signal"))
    signal.raise_signal(signal.SIGUSR1)
    lock = threading.RLock()
    with lock, lock:
        thread = threading.Thread(target=seen.append, args=("thread",))
        thread.start()
        thread.join()
    asyncio.run(asyncio.to_thread(seen.append, "loop"))
    subprocess.run(["true"], check=True)
    print(json.dumps({
        "pid": os.getpid(), "ppid": os.getppid(), "session": os.getsid(0), "seen": seen, "random": random.random(),
        "thread": threading.get_native_id(), "known": ctypes.CDLL(None).gettid(),
    }), flush=True)
    os._exit(7)

random.seed(1)
state = random.getstate()
spoken, speaking = os.pipe()
pid = fork_sibling(run)
random.setstate(state)
print(json.dumps([pid, random.random()]), flush=True)
"""


def test_it_is_the_parents_child_and_works() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARENT, textwrap.dedent(FORKING)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    told = json.loads(done.stdout)
    assert done.stderr == ""
    assert told["forked"] == told["pid"] == told["session"] == told["thread"] == told["known"]
    assert (told["ppid"], told["status"]) == (told["parent"], 7)
    assert told["seen"] == ["hook", "signal", "thread", "loop"]
    assert not told["same"]  # its random numbers are its own


def test_without_the_system_call_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sibling_fork, "_CLONE3", 9999)

    def never() -> None:
        os._exit(1)

    assert sibling_fork.fork_sibling(never) is None  # type: ignore[arg-type]


def test_what_has_run_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sibling_fork, "_NOT_HERE", frozenset())
    monkeypatch.setattr(sibling_fork, "_CLONE3", 9999)
    with pytest.raises(OSError, match="not implemented") as raised:
        sibling_fork.fork_sibling(lambda: os._exit(1))
    assert raised.value.errno == errno.ENOSYS


def test_with_modules_of_a_users_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sibling_fork, "_unsafe", False)
    sibling_fork.use_no_more()
    assert sibling_fork.fork_sibling(lambda: os._exit(1)) is None
