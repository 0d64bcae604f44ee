"""The parts of the gateway, made and connected: who asks whom, and who is told of what.

Wiring only: each part is passed what it uses, and none is passed the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.http.hosts import HostGuard
from pallas_gateway.access.audit import Audit, AuditUnavailableError
from pallas_gateway.access.limits import Limiter
from pallas_gateway.conversations.keeping.journal import Journals
from pallas_gateway.conversations.keeping.processes import Processes
from pallas_gateway.conversations.turns import Turns
from pallas_gateway.conversations.worker import WorkerChats
from pallas_gateway.directory import topics
from pallas_gateway.directory.control import ControlClient
from pallas_gateway.directory.directory import Directory
from pallas_gateway.directory.events.log import EventLog
from pallas_gateway.http.api.agents import agent_routes
from pallas_gateway.http.api.audit import audit_routes
from pallas_gateway.http.api.conversations.access import Conversations
from pallas_gateway.http.api.conversations.asking import Asking
from pallas_gateway.http.api.conversations.changes import ThreadChanges
from pallas_gateway.http.api.conversations.routes import conversation_routes
from pallas_gateway.http.api.conversations.stream import Followers
from pallas_gateway.http.api.declared import Declared
from pallas_gateway.http.api.resources import resource_routes
from pallas_gateway.http.api.tokens import TokenRoutes
from pallas_gateway.http.app import GatewayApp
from pallas_gateway.http.completions.routes import completion_routes
from pallas_gateway.http.hooks import CallAudit, Observer
from pallas_gateway.http.openapi.served import document_routes
from pallas_gateway.http.pages.chat.routes import chat_routes
from pallas_gateway.http.pages.files import static_route
from pallas_gateway.http.pages.gate import Gate
from pallas_gateway.http.pages.login import Login, is_secure
from pallas_gateway.http.pages.oidc import LoginByIssuer
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principal import TENANT
from pallas_gateway.identity.principals import Principals
from pallas_gateway.identity.sessions import Sessions
from pallas_gateway.mcp.endpoint import Endpoint
from pallas_gateway.process.health import Health
from pallas_gateway.process.ownership import keep_ownership
from pallas_gateway.process.store_opening import claimant_of
from pallas_gateway.process.surfaces import AllSurfaces
from pallas_gateway.process.upkeep.agent_threads import AgentThreads
from pallas_gateway.process.upkeep.deleted_agents import follow_deletions
from pallas_gateway.process.upkeep.left_deeds import tell_left
from pallas_gateway.process.upkeep.old_threads import forget_old_threads
from pallas_gateway.servers.chat.turns import ThreadTurns
from pallas_gateway.servers.compositor.mounts import Mounts
from pallas_gateway.servers.management.context import Context
from pallas_gateway.servers.management.resources import PRESETS
from pallas_gateway.store.errors import StoreError
from pallas_gateway.store.principals import TokenRecords
from pallas_gateway.store.revisions import count_change
from pallas_gateway.store.sessions import SessionRecords
from pallas_gateway.store.usage import Room
from pallas_gateway.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from sqlalchemy import Connection
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from pallas_common.http.hosts import Hosts
    from pallas_common.protocol.gateway import GatewaySettings, GatewaySpec
    from pallas_common.secrets.values import KnownSecrets
    from pallas_gateway.identity.issuer.oidc import OidcIssuer
    from pallas_gateway.store.conversations.records import Thread
    from pallas_gateway.store.conversations.retention import Deleted
    from pallas_gateway.store.database import Store

MEASURE_INTERVAL = 5.0

WRITE_AGAIN = 5.0
"""Seconds between two tries to write into a store that did not take the last thing."""

KNOWN_WITHIN = 5.0
"""Seconds that a start waits for what the supervisor knows."""

WRITTEN_WITHIN = 2.0
"""Seconds that an end waits for the last write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """What the process moves."""

    app: ASGIApp
    health: Health
    known: Callable[[], Awaitable[None]]
    """Returns when what the supervisor knows is known here, too, or has not come within a bound."""
    finish: Callable[[], Awaitable[None]]
    """Writes what is still to be written, when nobody asks any more; within a bound."""
    drain: Callable[[], None]
    """Ends what would not end by itself."""
    finish_turns: Callable[[float], Awaitable[None]]
    """Waits so many seconds for turns that go on without a request, then ends them."""
    background: dict[str, Coroutine[None, None, None]] = field(default_factory=dict)
    """What works beside requests, by name, until it is cancelled."""


async def open_parts(
    spec: GatewaySpec, store: Store, hosts: Hosts, known: KnownSecrets, stack: contextlib.AsyncExitStack
) -> GatewayParts:
    """Make the parts; `stack` closes them.

    Args:
        store: stays open until `stack` has closed the others.
        hosts: the names by which the gateway is reached.
    """
    settings = spec.settings
    metrics.open_metrics(spec.metrics_directory, spec.metrics_slot)
    tracing.open_tracing(spec, known)
    stack.callback(tracing.close_tracing)
    store.on_failure = metrics.count_store_error
    records = TokenRecords(store)
    processes = Processes(spec.state_directory)
    stack.callback(processes.close)
    left = processes.left()
    audit = Audit(
        spec.state_directory,
        content=settings.audit_content,
        process=processes.own,
        written=metrics.count_audit_line,
    )
    stack.callback(audit.close)
    log = EventLog()
    control = ControlClient(spec.control_socket)
    stack.push_async_callback(control.close)
    directory = Directory(control, log.publish)
    in_flight = InFlight()
    issuer = _issuer(settings)
    principals = Principals(
        records,
        directory.workers,
        in_flight,
        issuer=issuer,
        anybody=settings.auth == "none",
    )
    sessions = Sessions(SessionRecords(store), principals, in_flight, groups=issuer)
    endpoint = Endpoint(
        log,
        most_subscriptions=settings.limits.subscriptions,
        audit=CallAudit(audit),
        observe=Observer(),
    )
    principals.on_revoked(endpoint.revoke)
    limiter = Limiter(settings.limits)
    login = Login(settings, sessions, limiter, audit)

    def changed(thread: Thread | Deleted) -> None:
        """Tell those who follow their threads."""
        log.publish(
            topics.threads_with(thread.agent, thread.owner, thread.tenant),
            topics.threads_of(thread.owner, thread.tenant),
        )

    room = Room(owner=settings.limits.storage, tenant=settings.limits.tenant_storage)
    chats = WorkerChats(tracing.outbound_headers)
    turns = Turns(
        store,
        chats,
        directory,
        processes,
        Journals(spec.state_directory),
        in_flight,
        audit,
        hold=limiter.hold,
        room=room,
        changed=changed,
        observe=metrics.observe_turn,
    )
    thread_turns = ThreadTurns(store, turns, tracing.trace_id)
    health = Health([lambda: _away(directory), lambda: store.problem, audit.problem])
    token_routes = TokenRoutes(
        store,
        audit,
        changed=principals.recheck,
        find_agent=directory.find_agent_key,
        directory=Path(spec.state_directory),
    )
    mounts = Mounts(
        log.publish,
        settings.limits.tool_timeout,
        thread_turns,
        metrics.observe_relay,
        tracing.outbound_headers,
        known,
    )
    context = Context(directory=directory, chats=chats, threads=thread_turns, composed=mounts.describe)
    endpoint.subscriptions.observe(mounts.observe)
    directory.observe_servers(mounts.upstreams.keep)
    declared = Declared(control, lambda: directory.agents)
    conversations = Conversations(store, directory, room, changed)
    asking = Asking(conversations, turns, audit)
    changes = ThreadChanges(conversations, turns, audit)
    followers = Followers()
    gate = Gate(
        sessions,
        routes=[
            *login.routes(),
            *chat_routes(conversations, directory, turns, audit, asking, changes, followers),
        ],
        open_routes=[
            *login.open_routes(),
            *_login_by_issuer(settings, issuer, sessions, login),
            static_route(),
        ],
        anybody=settings.auth == "none",
        secure=is_secure(settings),
        authority=urlsplit(settings.public_url).netloc,
    )
    app = GatewayApp(
        settings,
        principals,
        limiter,
        in_flight,
        endpoint=endpoint,
        surfaces=AllSurfaces(context, mounts),
        health=health.status,
        routes=[
            *agent_routes(directory, declared, audit),
            *resource_routes(declared, audit),
            *token_routes.routes(),
            *audit_routes(audit.path),
            *conversation_routes(conversations, asking, changes, turns, audit, followers),
            *completion_routes(directory, chats, audit),
            *document_routes(),
        ],
        pages=gate,
    )
    return GatewayParts(
        app=HostGuard(app, lambda: hosts),
        health=health,
        known=lambda: _known(directory),
        finish=lambda: _finish(principals, sessions),
        drain=endpoint.drain,
        finish_turns=turns.drain,
        background={
            "directory": directory.run(),
            "tokens": principals.watch(),
            "sessions": sessions.watch(),
            "store": _mend(store, audit),
            "owner of the store": keep_ownership(store, claimant_of(spec)),
            "presets": context.watch_presets(log.publish, PRESETS, topics.AGENTS),
            "deleted agents": follow_deletions(
                directory,
                principals,
                AgentThreads(store, turns, changed, partial(metrics.count_deleted_threads, "agent")),
                audit,
            ),
            "old threads": forget_old_threads(
                store,
                audit,
                settings.threads.seconds,
                changed=changed,
                count=partial(metrics.count_deleted_threads, "age"),
            ),
            "measures": _measure(
                endpoint,
                turns,
                lambda: mounts.upstreams.connections + chats.connections,
            ),
            "servers": mounts.upstreams.run(),
            "workers": chats.run(),
            "turns": turns.recover(),
            "audit": tell_left(audit, left),
        },
    )


def _issuer(settings: GatewaySettings) -> OidcIssuer | None:
    """Whose signed tokens count; loaded only where they do: cryptography takes 10 MiB."""
    if settings.oidc is None:
        return None
    from pallas_gateway.identity.issuer.oidc import OidcIssuer

    return OidcIssuer(settings.oidc)


def _login_by_issuer(
    settings: GatewaySettings, issuer: OidcIssuer | None, sessions: Sessions, login: Login
) -> list[BaseRoute]:
    """Where people log in by the issuer, if they can."""
    if issuer is None or settings.oidc is None or settings.oidc.client_id is None or settings.auth == "none":
        return []
    from pallas_gateway.identity.issuer.code_flow import CodeFlow

    flow = CodeFlow(issuer, settings.oidc, f"{settings.public_url}/chat/callback")
    return LoginByIssuer(flow, sessions, login, secure=is_secure(settings)).open_routes()


async def _known(directory: Directory) -> None:
    """Wait for the directory: before it is filled, no agent would be there. Not for a supervisor that is away."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KNOWN_WITHIN):
            await directory.filled()


async def _finish(principals: Principals, sessions: Sessions) -> None:
    """Note which tokens and sessions were used; a store that does not answer keeps nobody up."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WRITTEN_WITHIN):
            await principals.touch()
            await sessions.touch()


def _away(directory: Directory) -> str | None:
    """Why what is known of agents may be old."""
    why = directory.away
    return (
        None if why is None else f"the supervisor is not followed, so agents may be other than shown: {why}"
    )


async def _mend(store: Store, audit: Audit) -> None:
    """Try to write again where that has failed: nobody else may, and its health would stay what it was."""

    def write(connection: Connection) -> None:
        count_change(connection, TENANT, "health")

    while True:
        if store.cannot_write:
            with contextlib.suppress(StoreError):
                await store.write(write)
        else:
            await store.keep_reserve()
        with contextlib.suppress(AuditUnavailableError):
            audit.tell_folded()
        await asyncio.sleep(WRITE_AGAIN)


async def _measure(endpoint: Endpoint, turns: Turns, connections: Callable[[], int]) -> None:
    """Keep the figures that nobody tells of."""
    while True:
        metrics.set_subscribers(endpoint.subscriptions.subscribers)
        metrics.set_turns(turns.under_way)
        metrics.set_upstream_connections(connections())
        metrics.look_after_files()
        await asyncio.sleep(MEASURE_INTERVAL)
