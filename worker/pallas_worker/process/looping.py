"""The loop of a worker, which nothing that an agent leaves in it can end.

Knows asyncio; nothing of agents. A callback or a background task that raises SystemExit or KeyboardInterrupt, or calls
`loop.stop()`, stops the loop of a program that has nothing else to do. A worker has: its calls.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_worker.raised import said

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_log = get_logger("pallas.worker.loop")


def run_in_loop[T](
    work: Coroutine[None, None, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> T:
    """What `work` returns, in a loop of its own that turns until `work` has ended. For the main thread.

    What it leaves running is cancelled. It is the caller's to handle signals.
    """
    runner = asyncio.Runner(loop_factory=loop_factory)
    try:
        loop = runner.get_loop()
        task = loop.create_task(work)
        task.add_done_callback(lambda _: loop.stop())
        while not task.done():
            _turn(loop, task)
        return task.result()
    finally:
        _close(runner)


def _turn(loop: asyncio.AbstractEventLoop, task: asyncio.Task[object]) -> None:
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt) as error:
        if not task.done():
            _log.error(
                f"code of the agent that runs beside its calls raised {said(error)}, which ends nothing",
                exc_info=error,
            )
    else:
        if not task.done():
            _log.error("code of the agent has stopped the event loop, which goes on")


def _close(runner: asyncio.Runner) -> None:
    while True:
        try:
            runner.close()
        except (SystemExit, KeyboardInterrupt) as error:  # of a task at its cancellation
            _log.warning(f"code of the agent raised {said(error)} at the end")
        else:
            return
