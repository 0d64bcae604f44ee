"""Requests and answers over one pipe of messages, as stdio and the older HTTP+SSE transport have it.

Ids and progress tokens are everybody's on the one pipe, so that each call gets one of its own; what comes before an
answer makes an event stream of it. What comes is hostile: what is kept of it is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger
from pallas_common.problems import shortened
from pallas_common.processes.stray_lines import StrayLines
from pallas_common.terminal_text import terminal_line
from pallas_gateway.relay.http.errors import (
    BusyError,
    LateError,
    LostError,
    RelayError,
    WrongAnswerError,
)
from pallas_gateway.relay.messages import adapting, answers
from pallas_gateway.relay.messages.model import OPENED, SESSIONS_VERSION, Answer, Opened, ServerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pallas_gateway.relay.messages.model import Call, Heard, Json

MOST_CALLS = 256
"""At a time, to one server."""
MOST_PROGRESS = 100
"""Notifications of progress of one call that nobody has taken yet; of more the oldest are dropped."""
LONGEST_PROGRESS = 64 * 1024
"""Bytes of one; a longer one is dropped."""
OPEN_TIMEOUT = 30.0
CANCEL_TIMEOUT = 10.0
"""Seconds in which a server takes the word that nobody waits any more."""
_METHOD_NOT_FOUND = -32601

_log = get_logger("pallas.gateway.relay")


class Duplex:
    """One conversation with a server, from the opening of the pipe to its end.

    Args:
        name: of the server, for messages.
        send: writes a message; raises RelayError where that cannot be.
    """

    def __init__(self, name: str, send: Callable[[Json], Awaitable[None]]) -> None:
        self._name = name
        self._send = send
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._progress: dict[int, _Progress] = {}
        self._heard: Heard | None = None
        self._strays = StrayLines(name, _log.warning, _shown)
        self._ended = asyncio.Event()
        self._reason = "the server has ended"
        self._cancelling: set[asyncio.Task[None]] = set()

    async def shake_hands(self) -> Opened:
        """Agree on a version.

        Raises:
            RelayError, ServerError: that cannot be.
        """
        params = {"protocolVersion": SESSIONS_VERSION, "capabilities": {}, "clientInfo": adapting.CLIENT}
        result = await self.request("initialize", params, timeout=OPEN_TIMEOUT)
        version = result.get("protocolVersion")
        if not isinstance(version, str):
            raise WrongAnswerError("it says no version of MCP")
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return adapting.opened("sessions", version[:20], result)

    async def request(self, method: str, params: Json, *, timeout: float) -> Json:
        """The result of a request of our own; raises as `shake_hands` does."""
        return adapting.result_of(await self._ask(next(self._ids), method, params, timeout))

    async def relay(self, call: Call) -> Answer:
        """The answer to a client's request: a stream where progress comes first, of a client that asks for it.

        Raises:
            RelayError: there is none.
        """
        id_ = next(self._ids)
        params = adapting.outgoing(call, "sessions", SESSIONS_VERSION)
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or not isinstance(token, str | int):
            return answers.answer(call, await self._answered(call, id_, params), None, 200)
        params["_meta"] = meta | {"progressToken": id_}
        progress = self._progress[id_] = _Progress(token)
        asking = asyncio.ensure_future(self._answered(call, id_, params))
        asking.add_done_callback(lambda _: progress.woken.set())
        try:
            await progress.woken.wait()
        except BaseException:
            self._progress.pop(id_, None)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            raise
        if not progress.messages:
            self._progress.pop(id_, None)
            return answers.answer(call, await asking, None, 200)
        body = self._stream(call, id_, progress, asking)
        return Answer(status=200, content_type="text/event-stream", body=body)

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        """Hear of changes until the end.

        Raises:
            LostError: it has come.
        """
        self._heard = heard
        await self.resubscribe(frozenset(), uris)
        heard(OPENED, {})
        await self._ended.wait()
        raise LostError(self._reason)

    async def resubscribe(self, before: frozenset[str], after: frozenset[str]) -> bool:
        """Have the server tell of other resources."""
        for method, uris in (("subscribe", after - before), ("unsubscribe", before - after)):
            for uri in sorted(uris):
                with contextlib.suppress(ServerError):
                    await self.request(f"resources/{method}", {"uri": uri}, timeout=OPEN_TIMEOUT)
        return True

    async def take(self, data: bytes) -> None:
        """A message has come.

        Raises:
            RelayError: the server asks something, and cannot be answered.
        """
        try:
            message = adapting.parse(data)
        except WrongAnswerError:
            self._strays.add(data)
            return
        id_, method = message.get("id"), message.get("method")
        if adapting.is_response(message):
            waiting = self._waiting.get(id_) if type(id_) is int else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif isinstance(method, str) and id_ is not None:
            outcome: Json = {"error": {"code": _METHOD_NOT_FOUND, "message": "Method not found"}}
            if method == "ping":
                outcome = {"result": {}}
            await self._send({"jsonrpc": "2.0", "id": id_, **outcome})
        elif isinstance(method, str):
            params: Any = message.get("params")
            params = params if isinstance(params, dict) else {}
            if method == "notifications/progress":
                self._take_progress(params, len(data))
            elif self._heard is not None:
                self._heard(method, params)

    def end(self, reason: str) -> None:
        """The pipe has ended: all that waits fails."""
        self._reason = reason
        self._ended.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(LostError(reason))

    def _take_progress(self, params: Json, size: int) -> None:
        token = params.get("progressToken")
        progress = self._progress.get(token) if type(token) is int else None
        if progress is not None and size <= LONGEST_PROGRESS:
            said = {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": params | {"progressToken": progress.token},
            }
            progress.messages.append(answers.event(adapting.dumped(said)))
            progress.woken.set()

    async def _stream(
        self, call: Call, id_: int, progress: _Progress, asking: asyncio.Future[Json]
    ) -> AsyncIterator[bytes]:
        try:
            while True:
                progress.woken.clear()
                while progress.messages:
                    yield progress.messages.popleft()
                if asking.done():
                    break
                await progress.woken.wait()
            try:
                message = await asking
            except RelayError as error:
                message = answers.failed(call, error)
            yield answers.event(adapting.dumped(message))
        finally:
            self._progress.pop(id_, None)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _answered(self, call: Call, id_: int, params: Json) -> Json:
        """The response for the client; where nobody waits for it any more, the server is told."""
        try:
            message = await self._ask(id_, call.method, params, call.timeout)
        except (asyncio.CancelledError, LateError):
            task = asyncio.get_running_loop().create_task(self._say_cancelled(id_))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)
            raise
        return adapting.answered(message, call, id_, "sessions")[0]

    async def _say_cancelled(self, id_: int) -> None:
        params = {"requestId": id_, "reason": "the caller has gone"}
        with contextlib.suppress(RelayError, TimeoutError):
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def _ask(self, id_: int, method: str, params: Json, timeout: float | None) -> Json:
        if self._ended.is_set():
            raise LostError(self._reason)
        if len(self._waiting) >= MOST_CALLS:
            raise BusyError(f"{MOST_CALLS} calls wait for the server {self._name} already")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = answer
        try:
            async with asyncio.timeout(timeout):
                await self._send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
                return await answer
        except TimeoutError:
            raise LateError(f"no answer within {timeout:g} s") from None
        finally:
            self._waiting.pop(id_, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # nobody else asks for it


class _Progress:
    """What a server says of one call before it answers."""

    def __init__(self, token: str | int) -> None:
        self.token = token
        """The client's."""
        self.messages: deque[bytes] = deque(maxlen=MOST_PROGRESS)
        """As events."""
        self.woken = asyncio.Event()


def _shown(text: str, most: int) -> str:
    return shortened(terminal_line(" ".join(text.split())), most)
