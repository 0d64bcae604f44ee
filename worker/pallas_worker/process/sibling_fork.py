"""Forking a process that is not our child but our parent's, in one system call: clone3(2) with CLONE_PARENT.

Why: forking twice copies the page tables of a process with thousands of modules twice, and tears one copy down again,
while the new process waits for that (27 ms from the command to its answer; 13 ms so). No function of the C library does
it, so what its fork(2) does beside the system call has to be needless here: one thread runs, and no library of this
process has registered a handler for forks (pthread_atfork(3)). Those that a zygote imports for its workers have none,
those of all LLM providers included; uvloop has, once a loop was made; what modules of a user's bring along nobody knows
(`use_no_more`). What Python itself does at a fork is done.

Knows system calls, nothing of workers.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_CLONE3 = 435
"""The number of the system call, the same on all architectures."""

_CLONE_PARENT = 0x8000
_CLONE_CHILD_CLEARTID = 0x200000
_CLONE_CHILD_SETTID = 0x1000000
_PR_GET_TID_ADDRESS = 40

_NOT_HERE = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL})
"""The kernel has no such call, or a filter for system calls lets nobody have it."""


_unsafe = False


def use_no_more() -> None:
    """Have `fork_sibling` do nothing from now on: something is there whose handlers for forks are not known."""
    global _unsafe
    _unsafe = True


class _CloneArgs(ctypes.Structure):
    """The first version of `struct clone_args`, which every kernel with the call knows."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls")
    )


def fork_sibling(run: Callable[[], NoReturn]) -> int | None:
    """Fork a process that does `run` in a session of its own; its process ID, or None where that cannot be had.

    For a process of one thread. The new one's end is told to our parent, as ours would be.

    Raises:
        OSError: there can be no further process.
    """
    if _unsafe or (libc := _libc()) is None or (address := _thread_id_address(libc)) is None:
        return None
    # The C library remembers the thread's number, and the kernel writes the new one there, as it does for fork(2).
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
    arguments = _CloneArgs(flags=flags, child_tid=address)
    size = ctypes.c_size_t(ctypes.sizeof(arguments))
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = int(libc.syscall(ctypes.c_long(_CLONE3), ctypes.byref(arguments), size))
    if pid == 0:
        python.PyOS_AfterFork_Child()
        try:
            os.setsid()
            run()
        finally:
            os._exit(70)
    failure = ctypes.get_errno()
    python.PyOS_AfterFork_Parent()
    if pid > 0:
        return pid
    if failure in _NOT_HERE:
        return None
    raise OSError(failure, os.strerror(failure))


@functools.cache
def _libc() -> ctypes.PyDLL | None:
    """The C library, called without letting another thread run; None where it is not the one this was written for."""
    libc = ctypes.PyDLL(None, use_errno=True)
    if not hasattr(libc, "gnu_get_libc_version"):
        return None
    libc.syscall.restype = ctypes.c_long
    return libc


def _thread_id_address(libc: ctypes.PyDLL) -> int | None:
    """Where the C library keeps this thread's number; None if the kernel does not say it."""
    address = ctypes.c_void_p()
    zero = ctypes.c_ulong(0)
    return None if libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), zero, zero, zero) else address.value
