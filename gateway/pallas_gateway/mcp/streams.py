"""Streams that stay open: `subscriptions/listen` of 2026-07-28, and the GET of a session.

Knows subscribers and how a change is said in either era. Each stream is one task that sends what is pending and then
waits; one whose client takes nothing waits for that client alone, and is given up in the end.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from pallas_gateway.directory.events.subscriptions import Change, TooManySubscriptionsError
from pallas_gateway.identity.principal import EXPIRED, end_of_stream
from pallas_gateway.mcp import wire
from pallas_gateway.mcp.errors import INVALID_PARAMS, LIMIT_EXCEEDED
from pallas_gateway.mcp.methods import LONGEST_URI, stateless_result
from pallas_gateway.mcp.reply import KEEP_ALIVE
from pallas_gateway.mcp.surface import McpError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_gateway.directory.events.subscriptions import Subscriber, Subscriptions
    from pallas_gateway.mcp.reply import Reply
    from pallas_gateway.mcp.sessions import Session
    from pallas_gateway.mcp.surface import ClientRequest, Json, ListKind, Surface

META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

FLAGS: dict[str, ListKind] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
"""Member of the filter of `subscriptions/listen` → the list that it is about."""


def said(change: Change, meta: Json) -> bytes:
    """A change as an event of a stream."""
    params: Json = {"_meta": meta} if meta else {}
    if change.kind == "resource":
        return wire.event(wire.notification("notifications/resources/updated", {"uri": change.uri, **params}))
    return wire.event(wire.notification(f"notifications/{change.kind}/list_changed", params))


def may_be_told(surface: Surface) -> Callable[[Change], bool]:
    """Whether a principal may hear of a change of what the surface serves."""

    def may(change: Change) -> bool:
        if change.kind == "resource":
            assert change.uri is not None
            return surface.may_subscribe(change.uri)
        return change.kind in surface.lists

    return may


def subscribe_to_lists(subscriptions: Subscriptions, subscriber: Subscriber, surface: Surface) -> None:
    """What every session is told without having asked."""
    for kind in sorted(surface.lists):
        subscriptions.subscribe(subscriber, Change(kind), surface.list_topic(kind))


def subscribe_to_resource(
    subscriptions: Subscriptions, subscriber: Subscriber, surface: Surface, uri: str
) -> None:
    """Tell a subscriber of a resource.

    Raises:
        McpError: the principal may not hear of it, or is subscribed to too many.
    """
    if not surface.may_subscribe(uri):
        raise McpError(INVALID_PARAMS, "no such resource", {"uri": uri})
    try:
        subscriptions.subscribe(subscriber, Change("resource", uri), *surface.topics(uri))
    except TooManySubscriptionsError as error:
        raise too_many(error) from None


async def listen(
    request: ClientRequest, surface: Surface, subscriptions: Subscriptions, reply: Reply
) -> None:
    """Serve `subscriptions/listen` until the subscription ends: first what is honoured, then each change.

    Raises:
        McpError: it is refused; nothing has been sent.
    """
    kinds, uris = _read_filter(request.params)
    try:
        subscriber = subscriptions.subscriber(request.principal.id, may_be_told(surface))
    except TooManySubscriptionsError as error:
        raise too_many(error) from None
    meta: Json = {META_SUBSCRIPTION: request.id}
    ended = wire.answer(request.id, stateless_result(request.method, {"_meta": meta}, surface))
    try:
        honoured: Json = {}
        for flag, kind in kinds.items():
            if kind in surface.lists:
                subscriptions.subscribe(subscriber, Change(kind), surface.list_topic(kind))
                honoured[flag] = True
        if "resources" in surface.lists:
            heard = [uri for uri in uris if surface.may_subscribe(uri)]
            for uri in heard:
                subscribe_to_resource(subscriptions, subscriber, surface, uri)
            if heard:
                honoured["resourceSubscriptions"] = heard
        acknowledged = wire.notification(
            "notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta}
        )
        await reply.events(wire.event(acknowledged))
        until = end_of_stream(request.principal)
        while (left := _left(until)) > 0:
            if changes := subscriber.take():
                await reply.events(b"".join(said(change, meta) for change in changes))
            elif subscriber.ended:
                break
            else:
                await _wait(subscriber, reply, left)
        await _say_expired(until, reply)
        await reply.message(ended)
    except asyncio.CancelledError:
        # A revoked token ends its requests at once; that this was meant can still be said.
        if subscriber.ended == "revoked" and reply.started:
            await reply.message(ended)
        raise
    finally:
        subscriber.end("left")


async def follow(session: Session, reply: Reply, until: float | None) -> None:
    """Serve a GET of a session until the session or the stream ends, or that time has come.

    Of several streams of a session the newest is told; the next newest takes over when it closes. One that is the
    oldest of too many ends.
    """
    subscriber = session.subscriber
    outlet = session.enter()
    changes: list[Change] = []
    try:
        await reply.ping()
        while (left := _left(until)) > 0 and not subscriber.ended and outlet in session.outlets:
            if session.outlets[-1] is not outlet:
                await _wait_for_turn(outlet, reply, left)
            elif changes := subscriber.take():
                await reply.events(b"".join(said(change, {}) for change in changes))
                changes = []
            else:
                await _wait(subscriber, reply, left)
        await _say_expired(until, reply)
        await reply.events(b"", last=True)
    finally:
        # What could not be told is for the stream that comes next.
        subscriber.put_back(changes)
        session.leave(outlet)


def too_many(error: TooManySubscriptionsError) -> McpError:
    """The error for one subscription too many."""
    return McpError(LIMIT_EXCEEDED, str(error), {"type": "limit_exceeded"}, status=429)


async def _wait(subscriber: Subscriber, reply: Reply, left: float) -> None:
    began = time.monotonic()
    patience = min(KEEP_ALIVE, left)
    await subscriber.wait(patience)
    if time.monotonic() - began >= patience:
        await reply.ping()


async def _wait_for_turn(outlet: asyncio.Event, reply: Reply, left: float) -> None:
    try:
        async with asyncio.timeout(min(KEEP_ALIVE, left)):
            await outlet.wait()
    except TimeoutError:
        await reply.ping()


async def _say_expired(until: float | None, reply: Reply) -> None:
    if _left(until) <= 0:
        await reply.events(f": {EXPIRED}\n\n".encode())


def _left(until: float | None) -> float:
    return KEEP_ALIVE if until is None else until - time.time()


def _read_filter(params: Mapping[str, Any]) -> tuple[dict[str, ListKind], list[str]]:
    found = params.get("notifications")
    if not isinstance(found, dict):
        raise McpError(INVALID_PARAMS, "params.notifications: has to be an object")
    for flag in FLAGS:
        if not isinstance(found.get(flag, False), bool | None):
            raise McpError(INVALID_PARAMS, f"params.notifications.{flag}: has to be true or false")
    uris = found.get("resourceSubscriptions")
    uris = [] if uris is None else uris
    if not isinstance(uris, list) or not all(isinstance(it, str) and len(it) <= LONGEST_URI for it in uris):
        raise McpError(
            INVALID_PARAMS,
            "params.notifications.resourceSubscriptions: has to be a list of strings of at most"
            f" {LONGEST_URI} characters",
        )
    return {flag: kind for flag, kind in FLAGS.items() if found.get(flag)}, list(dict.fromkeys(uris))
