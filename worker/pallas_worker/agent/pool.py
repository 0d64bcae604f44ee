"""Things that are made ahead, one task to own each, and never handed out twice.

Knows tasks and time; must not know what it keeps. A thing is a context manager's value: its owner task enters the
context and leaves it, which is what task groups inside it ask for, and what lets a caller go on while it is left.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_worker.raised import RaisedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

MAX_AGE = 60.0
"""Seconds after which what was made ahead is not handed out any more, and disposed of."""
RETRY = 5.0
"""Seconds without making ahead after something could not be made, or was of no use."""
MAX_LEAVING = 32
"""Disposals under way beyond which the next user waits for one, so that they cannot pile up."""

_log = get_logger("pallas.worker.pool")


class Owned[T]:
    """One value, and the task that enters and leaves its context."""

    def __init__(self, manager: AbstractAsyncContextManager[T], context: contextvars.Context) -> None:
        """`context` belongs to this one alone: the owner task runs in it."""
        self._ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self.made = time.monotonic()
        """When its making began, on the monotonic clock."""
        self.task = asyncio.create_task(self._own(manager), context=context)
        """The owner; it ends once the context is left, and never raises."""

    async def value(self) -> T:
        """The value, once it is made; a caller that is cancelled here gives it up.

        Raises:
            Exception: what entering the context raised.
        """
        try:
            return await self.ready()
        except asyncio.CancelledError:
            self.release()
            raise

    @property
    def made_value(self) -> T:
        """The value; it has been made."""
        return self._ready.result()

    def retire(self) -> None:
        """Let the owner leave the context as soon as it has entered it; the value is not used."""
        self._over.set()

    async def ready(self) -> T:
        """The value, once it is made; a caller that is cancelled here changes nothing."""
        return await asyncio.shield(self._ready)

    def release(self) -> None:
        """Let the owner leave the context, also while it is still entering it; returns at once."""
        if self._ready.done():
            self._over.set()
        else:
            self.task.cancel()

    async def _own(self, manager: AbstractAsyncContextManager[T]) -> None:
        try:
            async with manager as value:
                self._ready.set_result(value)
                await self._over.wait()
        except BaseException as error:  # noqa: BLE001 - the waiting caller gets it, if there is one
            if not self._ready.done():
                self._ready.set_exception(_for_caller(error))
                self._ready.exception()  # retrieved, since there may be no caller waiting any more
            elif not isinstance(error, asyncio.CancelledError):
                # As an argument: an exception whose text cannot be had is no reason to fail here.
                _log.warning("an instance could not be disposed of properly: %r", error)


def _for_caller(error: BaseException) -> Exception:
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError("given up before it was made")
    return error if isinstance(error, Exception) else RaisedError(error)


class Pool[T]:
    """Hands out values that were made ahead, each to one user; owns also those that are made on demand."""

    def __init__(
        self,
        make: Callable[[], AbstractAsyncContextManager[T]],
        usable: Callable[[T], bool],
        *,
        size: int,
        max_age: float = MAX_AGE,
        retry: float = RETRY,
    ) -> None:
        """Nothing is made ahead until `keep` runs.

        Args:
            make: a fresh value's context manager.
            usable: whether a value that has waited can still be handed out.
            size: how many wait at most; until the first is asked for, it is one.
            max_age: seconds after which one is not handed out.
            retry: seconds without making ahead after a failure.
        """
        self._make = make
        self._usable = usable
        self._size = size
        self._max_age = max_age
        self._retry = retry
        self._waiting: deque[Owned[T]] = deque()
        self._owners: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._asked = time.monotonic()
        self._called = False
        """Whether anybody has asked; until then one is enough, and a start leaves the processor to other starts."""
        self._nudged = False
        # Of this moment, and not of the call that happens to wake `keep`: a call's context carries its bearer.
        self._context = contextvars.copy_context()

    @property
    def waiting(self) -> int:
        """How many values wait."""
        return len(self._waiting)

    @property
    def owned(self) -> int:
        """How many there are: those that wait, are used, or are being disposed of."""
        return len(self._owners)

    def take(self) -> Owned[T] | None:
        """One that was made ahead, from now on the caller's alone; None if there is none."""
        self._asked, self._called = time.monotonic(), True
        self._changed.set()
        while self._waiting:
            owned = self._waiting.popleft()
            if self._is_fresh(owned):
                return owned
            self.give_up(owned)
        return None

    def offer(self, owned: Owned[T]) -> bool:
        """Have one that is there, and that nobody uses, wait with those made ahead; whether it can be of use."""
        if not self._is_fresh(owned):
            return False
        self._waiting.append(owned)
        return True

    def nudge(self) -> None:
        """Try once to make one ahead, even after a long time without calls."""
        self._nudged = True
        self._changed.set()

    def open(self, manager: AbstractAsyncContextManager[T]) -> Owned[T]:
        """Have `manager` owned by a task in the caller's context."""
        return self._own(manager, contextvars.copy_context())

    def give_up(self, owned: Owned[T]) -> None:
        """Dispose of it, off the caller's path."""
        owned.release()
        if not owned.task.done():
            self._leaving.add(owned.task)
            owned.task.add_done_callback(self._leaving.discard)

    async def settle(self) -> None:
        """Wait while too many disposals are under way."""
        while len(self._leaving) > MAX_LEAVING:
            await asyncio.wait(tuple(self._leaving), return_when=asyncio.FIRST_COMPLETED)

    async def keep(self) -> None:
        """Make values ahead until cancelled, as long as they are asked for; then give up all that wait."""
        try:
            while True:
                self._changed.clear()
                self._drop_stale()
                wanted = time.monotonic() - self._asked < self._max_age
                if (wanted or self._nudged) and len(self._waiting) < (self._size if self._called else 1):
                    self._nudged = False
                    if not await self._add() and wanted:
                        await asyncio.sleep(self._retry)
                else:
                    await self._until_changed()
        finally:
            self._give_up_waiting()

    async def close(self, timeout: float) -> None:
        """Wait until every owner has left its context, and abandon after `timeout` seconds those that have not."""
        self._give_up_waiting()
        if self._owners:
            _, late = await asyncio.wait(tuple(self._owners), timeout=timeout)
            for task in late:
                task.cancel()
            if late:
                _log.warning(f"{len(late)} instances were not disposed of within {timeout:g} s")
                await asyncio.wait(late, timeout=timeout)

    def _give_up_waiting(self) -> None:
        while self._waiting:
            self.give_up(self._waiting.popleft())

    async def _add(self) -> bool:
        """Make one more; whether it is of use."""
        owned = self._own(self._make(), self._context.copy())
        try:
            useful = self._usable(await owned.ready())
        except asyncio.CancelledError:
            owned.retire()  # a handshake that is cut short leaves a session behind, on the other side
            raise
        except Exception as error:  # noqa: BLE001 - the next call makes one itself and says what is wrong
            _log.debug("nothing can be made ahead: %r", error)
            return False
        if useful:
            self._waiting.append(owned)
        else:
            self.give_up(owned)
        return useful

    def _own(self, manager: AbstractAsyncContextManager[T], context: contextvars.Context) -> Owned[T]:
        owned = Owned(manager, context)
        self._owners.add(owned.task)
        owned.task.add_done_callback(self._owners.discard)
        return owned

    def _is_fresh(self, owned: Owned[T]) -> bool:
        young = time.monotonic() - owned.made < self._max_age
        return young and not owned.task.done() and self._usable(owned.made_value)

    def _drop_stale(self) -> None:
        for owned in [owned for owned in self._waiting if not self._is_fresh(owned)]:
            self._waiting.remove(owned)
            self.give_up(owned)

    async def _until_changed(self) -> None:
        oldest = min((owned.made for owned in self._waiting), default=None)
        seconds = None if oldest is None else max(0.0, oldest + self._max_age - time.monotonic())
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
