"""One process of the supervisor's own beside the workers, and our end of the channel on which it takes commands.

The keeper and the zygote are started so. Both end at the end of their channel, whatever becomes of the supervisor, and
both take descriptors with a command (SCM_RIGHTS). How they are asked, and what follows when they die, is different: the
keeper answers within the loop's turn, and its death hands its children to us; the zygote is awaited for seconds.
"""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

from pallas_supervisor.processes.linux.process_tree import pidfd_of, send_signal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pallas_supervisor.processes.linux.process_tree import ProcessParent


class HelperProcess:
    """The process, its pidfd, and our end of a SEQPACKET socket, whose packets are commands and answers.

    Args:
        command: what is executed; the number of its end of the channel, and `inherited`, become its last arguments.

    Raises:
        OSError: it cannot be started; nothing is left open.
    """

    def __init__(
        self,
        parent: ProcessParent,
        command: Sequence[str],
        environment: Mapping[str, str],
        inherited: Sequence[int] = (),
    ) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                numbers = [theirs.fileno(), *inherited]
                self.pid = parent.execute([*command, *map(str, numbers)], environment, numbers, None)
            self.pidfd = pidfd_of(self.pid)
        except OSError:
            self.channel.close()
            raise

    def kill(self) -> None:
        """Kill it; nothing if it has ended. Only before its pidfd is closed."""
        send_signal(self.pidfd, signal.SIGKILL)
