"""Looking up tokens and sessions in the store by digest: many at a time, one query after the other.

However many unknown tokens come, there is one query under way, with all that have come meanwhile in the next one: a
flood costs little, and a right token in it waits for two queries at most.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pallas_gateway.identity.errors import AuthenticationUnavailableError, TooManyUnknownError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BATCH = 200
"""Digests in one query."""
MOST_WAITING = 5_000
"""Digests that wait to be looked up; one more is refused."""


class Stored[Found](Protocol):
    """What is stored, by digest."""

    async def find(self, digests: Sequence[str]) -> Mapping[str, Found]:
        """What there is of these; it raises whatever says that the store does not answer."""


class Lookups[Found]:
    """One query after the other.

    Args:
        pause: seconds before each query, for those who ask for too many that nobody has.
    """

    def __init__(self, stored: Stored[Found], pause: float = 0.0) -> None:
        self._stored = stored
        self._pause = pause
        self._waiting: dict[str, asyncio.Future[Found | None]] = {}
        self._worker: asyncio.Task[None] | None = None

    async def find(self, digest: str) -> Found | None:
        """What there is of that digest; None if there is nothing.

        Raises:
            AuthenticationUnavailableError: the store does not answer.
            TooManyUnknownError: too many wait.
        """
        future = self._waiting.get(digest)
        if future is None:
            if len(self._waiting) >= MOST_WAITING:
                raise TooManyUnknownError("too many unknown tokens are tried; try again in a moment")
            future = self._waiting[digest] = asyncio.get_running_loop().create_future()
            if self._worker is None:
                self._worker = asyncio.create_task(self._work(), name="look up tokens")
        return await asyncio.shield(future)

    async def _work(self) -> None:
        try:
            while self._waiting:
                if self._pause:
                    await asyncio.sleep(self._pause)
                batch = dict(list(self._waiting.items())[:BATCH])
                # Who asks from now on may mean what is stored from now on.
                for digest in batch:
                    del self._waiting[digest]
                await self._query(batch)
        finally:
            self._worker = None

    async def _query(self, batch: dict[str, asyncio.Future[Found | None]]) -> None:
        try:
            found = await self._stored.find(list(batch))
        except Exception as error:  # noqa: BLE001 - whatever the store raises, nobody waits for ever
            for future in batch.values():
                future.set_exception(_unavailable(error))
                future.exception()  # nobody may be left to read it
            return
        except asyncio.CancelledError:
            for future in batch.values():
                future.cancel()
            raise
        for digest, future in batch.items():
            future.set_result(found.get(digest))


def _unavailable(error: Exception) -> AuthenticationUnavailableError:
    said = AuthenticationUnavailableError("tokens cannot be looked up now, for the store does not answer")
    said.__cause__ = error
    return said
