"""A SIGINT ends the command, or the prompt, even where Python does not come to look by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from pallasctl.failures import EXIT_INTERRUPTED
from pallasctl.interrupts import ending_on_interrupt
from support.fleet.terminal import terminal

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


LOST = """
import os, signal
from pallasctl.interrupts import ending_on_interrupt

class Interrupted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

reader, _writer = os.pipe()
with ending_on_interrupt():
    Interrupted()
    os.read(reader, 1)
"""


def test_one_that_comes_in_a_destructor_ends_it_and_prints_nothing() -> None:
    command = [sys.executable, "-c", LOST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (EXIT_INTERRUPTED, "")


PROMPT = """
import signal, threading
from pallasctl.verbs.talk.terminal.input_history import InputHistory
from pallasctl.verbs.talk.terminal.line_input import typed_messages

threading.Thread(target=threading.Event().wait, daemon=True).start()  # takes the signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
try:
    typed_messages(lambda _before, _word: [], InputHistory(None))()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_prompt_that_waits_already_is_left() -> None:
    """As if the signal had come between Python's last look and readline's wait: another thread takes it."""
    with terminal([sys.executable, "-c", PROMPT]) as prompt:
        prompt.until(lambda picture: picture.lines == [">"])
        prompt.type("begun")
        prompt.until(lambda picture: picture.lines == ["> begun"])
        prompt.type("\x03")
        prompt.until(lambda picture: any("interrupted" in line for line in picture.lines))
        assert prompt.end() == 0


def test_nothing_of_it_is_left_afterwards() -> None:
    threads = threading.active_count()
    with ending_on_interrupt():
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(-1) == -1
