"""One process of the gateway, from its parts to its last answer.

The drain at the end: streams of subscribers end first, as the protocol wants it, for they would never end by
themselves; then the port is left and requests get `stop_timeout`, as in a worker (`HttpServer.drain`).

Knows the order of things; must not know the process: its signals, descriptors, logging and exit.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_common.http.server import HttpServer
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.link.heartbeat import beat
from pallas_common.protocol.reports import Heartbeat, ReadyReport, StageReport
from pallas_gateway.process.parts import open_parts

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from pallas_common.protocol.gateway import GatewaySpec
    from pallas_common.protocol.reports import Report
    from pallas_common.secrets.values import KnownSecrets

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
    async with contextlib.AsyncExitStack() as stack:
        parts = await open_parts(spec, known, stack)
        report(StageReport(stage="serving"))
        limit = share_of_descriptors(3 / 4, MOST_CONNECTIONS)
        http = HttpServer(parts.app, listener, Connections("port of the gateway", limit))
        async with asyncio.TaskGroup() as background:
            tasks = [background.create_task(each, name=name) for name, each in parts.background.items()]
            await parts.known()
            http.start()
            heart = Heartbeat(interval=spec.settings.liveness_interval)
            report(heart)
            report(ReadyReport(model=None, capabilities=None))
            tasks.append(background.create_task(parts.health.run(report), name="health"))
            tasks.append(background.create_task(beat(heart, report), name="heartbeats"))
            await stopping.wait()
            http.stop_accepting()
            tasks.pop().cancel()  # the time of the drain is bounded by itself
            _log.info(f"draining, for {spec.settings.stop_timeout:g} s at most")
            parts.drain()
            await http.drain(spec.settings.stop_timeout)
            for task in tasks:
                task.cancel()
