"""A SIGINT ends the command even if the program never gets to raise KeyboardInterrupt."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from pallasctl.failures import EXIT_INTERRUPTED
from pallasctl.interrupts import ending_on_interrupt

BLOCKED = """
import os, signal
from pallasctl.interrupts import ending_on_interrupt

signal.signal(signal.SIGINT, lambda *_: None)  # as if the interpreter never came to look
reader, _writer = os.pipe()
with ending_on_interrupt():
    print("ready", flush=True)
    os.read(reader, 1)
"""


def test_a_read_that_never_returns_does_not_keep_it() -> None:
    command = [sys.executable, "-c", BLOCKED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == EXIT_INTERRUPTED


def test_nothing_of_it_is_left_afterwards() -> None:
    threads = threading.active_count()
    with ending_on_interrupt():
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(-1) == -1
