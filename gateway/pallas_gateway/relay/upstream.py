"""One server of MCP as the gateway knows it: its state, its lists, and that both stay true while it is used."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger
from pallas_common.problems import shortened
from pallas_common.protocol.mcp.lists import LISTS, ListError, read_list
from pallas_common.times import timestamp
from pallas_gateway.relay.callers import Callers
from pallas_gateway.relay.http.errors import (
    LostError,
    NoConnectionError,
    RelayError,
    WrongAnswerError,
)
from pallas_gateway.relay.messages.model import OPENED, ServerError
from pallas_gateway.relay.own_secrets import OwnSecrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_common.protocol.mcp.lists import ListName
    from pallas_gateway.relay.messages.model import Answer, Call, Json, Link, Opened, State

_log = get_logger("pallas.gateway.relay")

FIRST_PAUSE = 0.1
"""Seconds before a server that has been lost is tried again."""
SHORTEST_PAUSE = 1.0
"""Seconds before the try after that; each pause is twice the one before."""
LONGEST_PAUSE = 60.0
READ_INTERVAL = 1.0
"""Seconds between two times that lists are read: a server may tell of changes without end, and reading large ones takes
the loop."""
LOOK_INTERVAL = 60.0
"""Seconds between two looks at the lists of a server that does not tell when they change."""
HEARING_TIMEOUT = 20.0
"""Seconds after which a server that does not say that it tells of changes is taken to do so."""
LIST_TIMEOUT = 30.0
"""Seconds for each page of a list."""
_METHOD_NOT_FOUND = -32601
_LONGEST_REASON = 500

type Changed = Callable[[Upstream, ListName | str], None]
"""Told which list, `state`, or the URI of which resource has changed."""


class Upstream:
    """A server behind a link, opened and watched from `start` to `close`.

    Args:
        name: for messages.
        changed: called at each change, in the loop.
        settings: the credentials in them are struck from what is said of errors.
    """

    def __init__(
        self, name: str, link: Link, changed: Changed, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.name = name
        self._secrets = OwnSecrets(settings)
        self.state: State = "initializing"
        self.since = time.time()
        self.reason: str | None = None
        self.opened: Opened | None = None
        self.used = time.monotonic()
        self.waited_for = False
        self.is_closed = False
        self._link = link
        self._callers = Callers(link)
        self._changed = changed
        self._lists: dict[ListName, list[Json]] = {name: [] for name in LISTS}
        self._notes: dict[ListName, str] = {}
        """What is not in a list, where something is not."""
        self._mirroring: frozenset[str] = frozenset()
        self._settled = asyncio.Event()
        self._again = asyncio.Event()
        self._stale: set[ListName] = set()
        self._uris: dict[str, set[str]] = {}
        """Of resources that are followed, and by whom."""
        self._read_at = float("-inf")
        self._calls = 0
        """Under way."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is known what it is, or has been waited for once."""
        return self.waited_for or self._settled.is_set()

    @property
    def transport(self) -> str:
        """`http`, `stdio`, `sse`."""
        return self._link.transport

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._link.connections + self._callers.connections

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return self._calls > 0

    @property
    def completes(self) -> bool:
        """Whether it says of arguments what they may be."""
        return self.opened is not None and "completions" in self.opened.capabilities

    def start(self) -> None:
        """Begin to connect. Harmless when it was called before."""
        self.used = time.monotonic()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"upstream {self.name}")

    def listed(self, name: ListName) -> list[Json]:
        """What is known of a list: the last that was seen, none before the first time, and of a failed server."""
        return self._lists[name] if self.state != "failed" else []

    def mirrors(self, tool: str) -> bool:
        """Whether some argument of that tool may go in a header, too: whether `x-mcp-header` is in its schema."""
        return tool in self._mirroring

    async def settled(self) -> None:
        """Wait until it is known whether the server is there."""
        self.start()
        await self._settled.wait()

    async def relay(self, call: Call) -> Answer:
        """The answer to a call of a client; of a server that is being opened, after that.

        Raises:
            RelayError, ServerError: there is none.
        """
        self.start()
        if not self._settled.is_set():
            async with asyncio.timeout(call.timeout):
                await self._settled.wait()
        if self.state == "failed":
            self._again.set()
            raise NoConnectionError(f"the server {self.name} cannot be used: {self.reason}")
        self._calls += 1
        self._idle.clear()
        try:
            return self._secrets.strike_answer(await self._callers.relay(call))
        except NoConnectionError as error:
            self._again.set()
            raise self._secrets.strike_error(error) from None
        except (RelayError, ServerError) as error:
            raise self._secrets.strike_error(error) from None
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()
            self.used = time.monotonic()

    def follow(self, uri: str, who: str, most: int) -> None:
        """Hear of changes of a resource from now on; of the first `most` that are asked for."""
        self.start()
        if uri in self._uris:
            self._uris[uri].add(who)
        elif len(self._uris) < most:
            self._uris[uri] = {who}
            self._again.set()

    def unfollow(self, uri: str, who: str) -> None:
        """They want to know no more; harmless where they did not."""
        followers = self._uris.get(uri, set())
        followers.discard(who)
        if not followers and self._uris.pop(uri, None) is not None:
            self._again.set()

    @property
    def following(self) -> frozenset[str]:
        """The resources that somebody has subscribed to."""
        return frozenset(self._uris)

    async def sweep(self, before: float) -> None:
        """End sessions of callers that were last used before that moment of the monotonic clock."""
        await self._callers.sweep(before)

    async def close(self) -> None:
        """End it, for good."""
        self.is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._settled.set()
        await self._callers.close()
        await self._link.close()

    async def retire(self) -> None:
        """End it, for good, as soon as no call is under way."""
        self.is_closed = True
        await self._idle.wait()
        await self.close()

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            begun = time.monotonic()
            try:
                await self._open()
                await self._watch()
            except (RelayError, ServerError, ValueError, OSError) as error:
                # A stream that ends is no failure yet: whether the server is there the next try tells.
                if not (isinstance(error, LostError) and self.state == "running"):
                    self._say("failed", str(error))
            except Exception as error:  # noqa: BLE001 - one that is not understood ends no other
                _log.exception(f"the server {self.name} cannot be followed")
                self._say("failed", f"it is not understood ({type(error).__name__})")
            self._settled.set()
            if time.monotonic() - begun > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            await self._rest(pause)
            pause = min(max(pause * 2, SHORTEST_PAUSE), LONGEST_PAUSE)

    async def _rest(self, pause: float) -> None:
        """Wait before the next try: one that somebody waits for comes sooner, but not at once each time."""
        pause *= random.uniform(0.75, 1.25)  # noqa: S311 - no secret
        await asyncio.sleep(min(pause, SHORTEST_PAUSE))
        self._again.clear()
        if pause > SHORTEST_PAUSE:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause - SHORTEST_PAUSE):
                    await self._again.wait()

    async def _open(self) -> None:
        self.opened = await self._link.open()
        for name in LISTS:
            await self._read(name)
        self._say("running", None)
        self._settled.set()

    async def _watch(self) -> None:
        """Follow the server until it is lost."""
        uris = frozenset(self._uris)
        watching = await self._watching(uris)
        try:
            self._changed_unseen(uris)
            while True:
                await self._news(watching)
                if self._stale or watching.done():
                    await self._pace()
                kinds = set(self._stale)
                if watching.done():
                    watching.result()
                    kinds = set(LISTS)  # it does not tell
                self._stale.clear()
                for name in LISTS:
                    if name in kinds:
                        await self._read(name)
                wanted = frozenset(self._uris)
                if wanted == uris or watching.done():
                    continue
                if not await self._link.resubscribe(uris, wanted):
                    before, watching = watching, await self._watching(wanted)
                    await _end(before)  # the new one hears already
                self._changed_unseen(wanted - uris)
                uris = wanted
        finally:
            await _end(watching)

    async def _watching(self, uris: frozenset[str]) -> asyncio.Future[None]:
        """A new watch, as soon as it hears of changes, or has ended."""
        hears = asyncio.Event()

        def hear(method: str, params: Json) -> None:
            hears.set()  # also of one that does not say first that it does
            if method != OPENED:
                self._hear(method, params)

        watching = asyncio.ensure_future(self._link.watch(uris, hear))
        watching.add_done_callback(lambda _: hears.set())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARING_TIMEOUT):
                    await hears.wait()
        except BaseException:
            await _end(watching)
            raise
        return watching

    async def _pace(self) -> None:
        """Wait until lists may be read again."""
        now = time.monotonic()
        await asyncio.sleep(max(0.0, self._read_at + READ_INTERVAL - now))
        self._read_at = time.monotonic()

    def _changed_unseen(self, uris: frozenset[str]) -> None:
        """They are heard of from now on: what has changed between a reader's look and now nobody knows."""
        for uri in sorted(uris):
            self._changed(self, uri)

    async def _news(self, watching: asyncio.Future[None]) -> None:
        """Wait until something has changed, or the lists of one that does not tell are old."""
        waking = asyncio.ensure_future(self._again.wait())
        waiting: set[asyncio.Future[Any]] = {waking} if watching.done() else {waking, watching}
        try:
            timeout = LOOK_INTERVAL if watching.done() else None
            await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
        self._again.clear()

    def _hear(self, method: str, params: Json) -> None:
        """Take a notification of the server."""
        if method == "notifications/resources/updated":
            uri = params.get("uri")
            if isinstance(uri, str) and any(uri.startswith(followed) for followed in self._uris):
                self._changed(self, uri)
            return
        for name, one in LISTS.items():
            if method == one.changed:
                self._stale.add(name)
                self._again.set()

    async def _read(self, name: ListName) -> None:
        assert self.opened is not None
        if LISTS[name].capability not in self.opened.capabilities:
            return
        found = await self._ask_for(name)
        if found != self._lists[name]:
            self._lists[name] = found
            if name == "tools":  # looked for here, not at each call: schemas are long
                self._mirroring = frozenset(
                    tool["name"] for tool in found if "x-mcp-header" in str(tool["inputSchema"])
                )
            if self.state == "running":
                self._changed(self, name)

    async def _ask_for(self, name: ListName) -> list[Json]:
        """All entries of one list that can be used; what cannot is told once.

        Raises:
            RelayError, ServerError: it cannot be read.
        """

        async def ask(cursor: str | None) -> Json:
            params: Json = {} if cursor is None else {"cursor": cursor}
            try:
                return await self._link.request(LISTS[name].method, params, timeout=LIST_TIMEOUT)
            except ServerError as error:
                if cursor is None and error.code == _METHOD_NOT_FOUND:  # it has resources, and no templates
                    return {LISTS[name].field: []}
                raise

        try:
            listing = await read_list(name, ask)
        except ListError as error:
            raise WrongAnswerError(str(error)) from None
        note = self._secrets.strike(listing.note)
        if note and note != self._notes.get(name):
            _log.warning(f"the server {self.name}: {note}")
        if note:
            self._notes[name] = note
        else:
            self._notes.pop(name, None)
        return listing.entries

    def _say(self, state: State, reason: str | None) -> None:
        reason = None if reason is None else shortened(self._secrets.strike(reason), _LONGEST_REASON)
        if (state, reason) == (self.state, self.reason):
            return
        if state == "failed":
            _log.warning(f"the server {self.name} cannot be used: {reason}")
        elif self.state == "failed":
            _log.info(f"the server {self.name} is there again")
        if state != self.state:
            self.since = time.time()
        self.state, self.reason = state, reason
        self._changed(self, "state")

    def describe(self) -> dict[str, Any]:
        """The server's record, for the resources that tell of it."""
        return {
            "state": self.state,
            "since": timestamp(self.since),
            "error": self.reason,
            "transport": self.transport,
            "era": self.opened.version if self.opened is not None else None,
            "tools": len(self.listed("tools")),
            "incomplete": "; ".join(self._notes.values()) or None,
        }


async def _end(watching: asyncio.Future[None]) -> None:
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
