"""One process of the gateway, from its parts to its last answer.

The drain at the end: streams of subscribers end first, as the protocol wants it, for they would never end by
themselves; then the port is left and requests get `stop_timeout`, as in a worker (`HttpServer.drain`).

At the start the store may be away, as a database that comes up later than Pallas: then the process serves all the same,
says that it cannot answer, and goes on by itself when the store is there.

Knows the order of things; must not know the process: its signals, descriptors, logging and exit.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_common.http.hosts import HostGuard, Hosts
from pallas_common.http.server import HttpServer
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.link.heartbeat import beat
from pallas_common.protocol.reports import HealthReport, Heartbeat, ReadyReport, StageReport
from pallas_common.times import ago
from pallas_gateway.http.unavailable import Unavailable
from pallas_gateway.process.errors import GatewayError
from pallas_gateway.process.parts import open_parts
from pallas_gateway.process.store_opening import awaited_store, opened_store
from pallas_gateway.store.errors import StoreUnavailableError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pallas_common.protocol.gateway import GatewaySpec
    from pallas_common.protocol.reports import Report
    from pallas_common.secrets.values import KnownSecrets
    from pallas_gateway.store.database import Store

MOST_CONNECTIONS = 16_384

_log = get_logger("pallas.gateway")


async def serve(
    spec: GatewaySpec,
    listener: socket.socket,
    report: Callable[[Report], None],
    known: KnownSecrets,
    stopping: asyncio.Event,
) -> None:
    """Serve on `listener` until `stopping` is set, then drain and return.

    Raises:
        GatewayError: the gateway cannot serve.
    """
    report(StageReport(stage="creating"))
    hosts = Hosts([*spec.allowed_hosts, urlsplit(spec.settings.public_url).hostname or ""])
    entrance = _Entrance(HostGuard(Unavailable(), lambda: hosts))
    limit = share_of_descriptors(3 / 4, MOST_CONNECTIONS)
    http = HttpServer(entrance, listener, Connections("port of the gateway", limit))
    heart = Heartbeat(interval=spec.settings.liveness_interval)
    serves = False
    try:
        store: Store | None = await opened_store(spec)
    except StoreUnavailableError as error:
        if not spec.waits_for_store:
            raise GatewayError(str(error), permanent=False) from error
        serves = True
        store = await _wait(spec, error, http, heart, report, stopping)
    if store is None:
        http.stop_accepting()
        await http.drain(spec.settings.stop_timeout)
        return
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        stack.enter_context(_first_reason())
        parts = await open_parts(spec, store, hosts, known, stack)
        report(StageReport(stage="serving"))
        async with asyncio.TaskGroup() as background:
            tasks = [background.create_task(each, name=name) for name, each in parts.background.items()]
            # A process that waited for the store is judged by them already, and what comes now may take seconds.
            beating = background.create_task(beat(heart, report), name="heartbeats")
            await parts.known()
            entrance.app = parts.app
            if not serves:
                _begin(http, heart, report)
            tasks.append(background.create_task(parts.health.run(report), name="health"))
            await stopping.wait()
            http.stop_accepting()
            beating.cancel()  # the time of the drain is bounded by itself
            _log.info(f"draining, for {spec.settings.stop_timeout:g} s at most")
            parts.drain()
            stop_timeout = spec.settings.stop_timeout
            await asyncio.gather(http.drain(stop_timeout), parts.finish_turns(stop_timeout))
            await parts.finish()
            for task in tasks:
                task.cancel()


def _begin(http: HttpServer, heart: Heartbeat, report: Callable[[Report], None]) -> None:
    """Take connections, and say so."""
    http.start()
    report(heart)
    report(ReadyReport(model=None, capabilities=None))


@contextlib.contextmanager
def _first_reason() -> Iterator[None]:
    """Say why the gateway cannot go on, where a task has found that out: not that a group of tasks has failed."""
    try:
        yield
    except BaseExceptionGroup as group:
        reason: BaseException | None = group.subgroup(GatewayError)
        if reason is None:
            raise
        while isinstance(reason, BaseExceptionGroup):
            reason = reason.exceptions[0]
        raise reason from group


class _Entrance:
    """What the port serves now."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


async def _wait(
    spec: GatewaySpec,
    why: StoreUnavailableError,
    http: HttpServer,
    heart: Heartbeat,
    report: Callable[[Report], None],
    stopping: asyncio.Event,
) -> Store | None:
    """Say that nothing can be answered, and do so on the port, until the store is there; None if asked to stop."""

    def tell(message: str) -> None:
        message += "; it is tried again until it is there"
        report(HealthReport(status="error", timestamp=ago(), message=message))

    tell(str(why))  # before it is ready, so that nobody takes it for sound
    _begin(http, heart, report)
    beating = asyncio.create_task(beat(heart, report), name="heartbeats")
    try:
        return await awaited_store(spec, why, stopping, tell)
    finally:
        beating.cancel()
