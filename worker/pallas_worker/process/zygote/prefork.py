"""The next worker, forked before it is needed: it waits, and becomes what the next command says.

Why: to fork a process that has imported fast-agent, and its first writes to pages that it shares, take longer than all
else in a start (measured from the command to readiness: 124 ms forked on demand, 78 ms forked ahead, 59 ms with
`warm_up`). Users' modules are not imported ahead: they belong to one process each, and threads that they start
make a fork unsafe. There is one such process, since each costs memory, forked while nothing else is asked. Where it
does not answer it is killed, and a worker is forked on demand.

Knows the hand-over between the zygote and that process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from typing import TYPE_CHECKING

import setproctitle

from pallas_common.processes.descriptors import receive
from pallas_common.protocol.link.lifeline import wake_on_parent_death
from pallas_common.protocol.link.process import loop_factory
from pallas_common.protocol.spec import Descriptors
from pallas_worker.process.run import run_worker
from pallas_worker.process.zygote.double_fork import fork_adopted
from pallas_worker.process.zygote.warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

TITLE = "pallas-spare"

PATIENCE = 1.0
"""Seconds that it may take to answer; it may be in `warm_up`, which takes a fraction of one."""


class PreforkedWorker:
    """The process that waits to become a worker, and ends with the zygote.

    Args:
        let_go: closes, in that process, what only the zygote may hold.

    Raises:
        OSError, RuntimeError: as `fork_adopted`.
    """

    def __init__(self, let_go: Callable[[], None]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:

            def wait() -> NoReturn:
                self._socket.close()
                let_go()
                _wait(theirs)

            try:
                self.pid = fork_adopted(wait)
                self._pidfd = os.pidfd_open(self.pid)
            except (OSError, RuntimeError):
                self._socket.close()
                raise

    def dismiss(self) -> None:
        """Let it end: it is not what is wanted any more."""
        self._socket.close()
        os.close(self._pidfd)

    def become(self, descriptors: Descriptors) -> bool:
        """Make it a worker with these descriptors; False if it is dead or does not answer, and then it is killed."""
        became = False
        with self._socket:
            try:
                socket.send_fds(self._socket, [b"become"], list(descriptors))
                self._socket.settimeout(PATIENCE)
                became = self._socket.recv(1) == b"!"
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except OSError:  # it has ended
                pass
        os.close(self._pidfd)
        return became


def become_worker(descriptors: Descriptors) -> NoReturn:
    """Serve an agent in this process, whose output goes where the descriptors say."""
    for target in (1, 2):
        os.dup2(descriptors.output, target)
    os.close(descriptors.output)
    run_worker(descriptors)


def _wait(zygote: socket.socket) -> NoReturn:
    setproctitle.setproctitle(TITLE)
    wake_on_parent_death()  # one that is stopped could not see the zygote's end
    if not select.select([zygote], [], [], 0)[0]:
        warm_up(loop_factory())
    command, descriptors, _ = receive(zygote, 64, len(Descriptors._fields))
    if not command:
        os._exit(0)
    given = Descriptors(*descriptors)
    zygote.send(b"!")
    zygote.close()
    become_worker(given)
