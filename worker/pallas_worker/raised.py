"""What an agent's own code raises: said in one line, and kept from ending more than what it was raised in.

Code that runs under `python agent.py` alone may end the process: a library calls `sys.exit`, a tool raises
KeyboardInterrupt or a CancelledError of its own. `except Exception` does not see that, a task group ends with it, and
asyncio gives it up the stack through its loop. In a worker all calls would be lost, so it becomes a `RaisedError`
where the agent's code ends.

All rooms use it, so that it is in none. Knows exceptions and tasks; nothing of agents.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from pallas_common.problems import shortened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

MAX_MESSAGE = 500
"""Characters of an exception's own text."""


class OwnSignal(BaseException):
    """The base of what is raised by Pallas through an agent's code on purpose, and passes here."""


class RaisedError(Exception):
    """Stands for what an agent's code has raised, which is its cause, and may be treated as any other error.

    Its text is that of `said`, so that it can always be had.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(said(cause))
        self.__cause__ = cause


def said(error: BaseException) -> str:
    """The exception's type and text in one line, as at the end of a traceback."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        text = " ".join(str(text)[: 4 * MAX_MESSAGE].split())
    except Exception:  # noqa: BLE001 - a foreign __str__
        text = "(its text cannot be had)"
    text = shortened(text, MAX_MESSAGE)
    name = type(error).__name__[:100]
    return f"{name}: {text}" if text else name


@contextmanager
def contained() -> Iterator[None]:
    """Let out of the block only what an `except Exception` sees, a cancellation of this task, and signals of ours.

    Raises:
        RaisedError: in place of all else, and of an exception whose text cannot be had.
    """
    try:
        yield
    except OwnSignal:
        raise
    except Exception as error:
        if _has_text(error):
            raise
        raise RaisedError(error) from error
    except BaseException as error:
        if (signal := _own_signal(error)) is not None:
            raise signal from None
        if _is_cancelled() and _is_cancellation(error):
            raise
        raise RaisedError(error) from error


async def run_contained[T](work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns, which has a task of its own: it may cancel that one as well, and this one goes on.

    A cancellation of this task reaches `work`, and is waited for.

    Raises:
        RaisedError: as `contained`, and where `work` was cancelled although this task was not.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    async def run() -> None:
        try:
            with contained():
                results.append(await work())
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised below: a task group would wrap it
            errors.append(error)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
    except BaseExceptionGroup:
        # A GeneratorExit that a coroutine waits for closes it, and then is thrown into the task below it.
        if not errors:
            raise
    if errors:
        raise errors[0]
    if not results:
        raise RaisedError(asyncio.CancelledError())
    return results[0]


def _has_text(error: Exception) -> bool:
    try:
        str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__
        return False
    return True


def _own_signal(error: BaseException) -> OwnSignal | None:
    """The signal of ours in a group, if there is one."""
    if isinstance(error, OwnSignal):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for each in inner if (found := _own_signal(each)) is not None), None)


def _is_cancellation(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_cancellation, error.exceptions))
    return isinstance(error, asyncio.CancelledError)


def _is_cancelled() -> bool:
    """Whether somebody has asked the current task to end."""
    task = asyncio.current_task()
    return task is not None and (task.cancelling() > 0 or anyio.current_effective_deadline() < 0)
