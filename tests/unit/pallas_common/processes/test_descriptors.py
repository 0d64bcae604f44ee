"""What programs and forks of a process have open: what is meant for them, whatever the process was started with."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from pallas_common.processes.descriptors import inheritable, receive
from pallas_common.processes.spawning import execute

LOOK = """
import os
numbers = os.listdir("/proc/self/fd")
print(*sorted(int(number) for number in numbers if os.path.exists(f"/proc/self/fd/{number}")))
"""
"""Prints the descriptors of a program, without those by which it looks."""


def test_a_program_gets_what_is_meant_for_it_and_no_other_that_could_be_inherited() -> None:
    meant, other = os.memfd_create("meant"), os.memfd_create("other")
    output = os.memfd_create("output")
    try:
        for descriptor in (meant, other):
            os.set_inheritable(descriptor, True)
        pid = execute([sys.executable, "-ISc", LOOK], {}, [meant], output)
        os.waitpid(pid, 0)
        seen = os.pread(output, 1000, 0).split()
    finally:
        for descriptor in (meant, other, output):
            os.close(descriptor)
    assert seen == [b"0", b"1", b"2", str(meant).encode()]


def test_descriptors_that_are_received_are_not_inherited() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(ours, [b"two"], [0, 1])
        data, received, _ = receive(theirs, 16, 2)
        assert (data, len(received)) == (b"two", 2)
        assert set(inheritable()).isdisjoint(received)
        for descriptor in received:
            os.close(descriptor)
        ours.send(b"none")
        assert receive(theirs, 16, 2)[:2] == (b"none", [])


WITHHOLD = """
import os, subprocess, sys
from pallas_common.processes.descriptors import withhold_all
withhold_all()
subprocess.run([sys.executable, "-ISc", sys.argv[1]], close_fds=False)
"""


def test_what_a_process_was_started_with_goes_no_further() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-c", WITHHOLD, LOOK]
        done = subprocess.run(
            command, pass_fds=[listener.fileno()], stdout=subprocess.PIPE, text=True, check=True, timeout=60
        )
    assert done.stdout.split() == ["0", "1", "2"]


FORK = """
import asyncio, json, multiprocessing, os, socket, sys
if sys.argv[1] == "uvloop":
    from uvloop import new_event_loop
else:
    new_event_loop = asyncio.new_event_loop
from pallas_common.processes.descriptors import withhold_from_forks


def links():
    found = {}
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
            if found[number].startswith("socket:"):
                found[number] = socket.socket(fileno=os.dup(number)).family.name
        except OSError:
            continue
    return found


async def main():
    private, own = os.pipe()
    listener = socket.create_server(("127.0.0.1", 0))
    withhold_from_forks([private, listener.fileno()])
    held = []
    server = await asyncio.start_server(lambda *pair: held.append(pair), sock=listener)
    clients = [await asyncio.open_connection(*listener.getsockname()) for _ in range(2)]
    while len(held) < 2:
        await asyncio.sleep(0)
    held[0][1].transport.pause_reading()  # so that the loop does not watch it
    reading, writing = multiprocessing.get_context("fork").Pipe(duplex=False)
    def child():
        writing.send(links())
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    seen = reading.recv()
    process.join()
    for (_, writer), (reader, _) in zip(held, clients):  # ours are as they were, in whichever order
        writer.write(b"still here")
        await writer.drain()
        assert await reader.read(10) == b"still here"
    ours = links()
    meant = [writing.fileno(), reading.fileno(), own]
    print(json.dumps([[seen[n] for n in seen if n > 2 and n not in meant], ours[private], seen[private]]))


asyncio.Runner(loop_factory=new_event_loop).run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_fork_has_no_listener_and_no_connection_of_the_loop_and_the_parent_keeps_them(loop: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, loop], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    in_fork, private, private_in_fork = json.loads(done.stdout)
    assert private.startswith("pipe:")
    assert private_in_fork == os.devnull
    # What else is left is the loop's own, and leads nowhere, or multiprocessing's.
    left = {link for link in in_fork if not link.startswith("pipe:")}
    assert left - {os.devnull, "AF_UNIX", "anon_inode:[eventfd]"} == set()


def test_a_fork_where_there_is_nothing_to_take_out_keeps_what_it_has() -> None:
    program = (
        "import os\n"
        "from pallas_common.processes.descriptors import withhold_from_forks\n"
        "withhold_from_forks([os.memfd_create('private')])\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0: os.write(w, b'here'); os._exit(0)\n"
        "print(os.read(r, 9).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    assert done.stdout == "here\n"
