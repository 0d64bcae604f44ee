"""The control API of `docs/control-api.md`, HTTP and JSON on the unix socket: its routes, and what becomes of errors.

Knows Starlette and the operator's verbs; nothing of states or processes. `/v1/logs` is in `logs`,
`/v1/events` in `events`, `/v1/resources` in `resources`.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pallas_common import __version__
from pallas_common.logs.setup import get_logger
from pallas_common.problems import ConfigurationError, shortened
from pallas_common.times import ago
from pallas_registry.catalogue.entries import page_url
from pallas_supervisor.agents.description.resources import UnknownResourceError
from pallas_supervisor.agents.errors import NotKeptError, RefusedError, UnknownAgentError
from pallas_supervisor.http.control.describe import DescribeRoutes
from pallas_supervisor.http.control.events import EventRoute
from pallas_supervisor.http.control.guard import Guard
from pallas_supervisor.http.control.logs import LogRoute
from pallas_supervisor.http.control.requests import (
    BadRequestError,
    TooLargeError,
    parse_verb,
    read_body,
    shown,
    take_choice,
    take_flag,
)
from pallas_supervisor.http.control.top import TopRoute
from pallas_supervisor.sockets.listeners import PortsTakenError
from pallas_supervisor.telemetry.process_metrics import Processes

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from pallas_supervisor.agents.changes.reload import Reloading
    from pallas_supervisor.agents.description.agent import Descriptions
    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.agents.verbs import Goal, OperatorVerbs
    from pallas_supervisor.events.log import EventLog
    from pallas_supervisor.http.control.gateway import GatewayVerbs
    from pallas_supervisor.http.control.guard import GatewayRoutes
    from pallas_supervisor.http.control.requests import Verb
    from pallas_supervisor.http.control.resources import ResourceRoutes
    from pallas_supervisor.http.page.data.feed import Feed
    from pallas_supervisor.logs.router import LogRouter
    from pallas_supervisor.reload.drift import Drift

_log = get_logger("pallas.supervisor.control")

LONGEST_ERROR = 4000
"""Characters of an answer's error, which may repeat what was asked."""


def control_api(
    status: StatusView,
    drift: Drift,
    log_router: LogRouter,
    events: EventLog,
    operations: OperatorVerbs,
    reloading: Reloading,
    age: Callable[[], float],
    descriptions: Descriptions,
    feed: Feed,
    resources: ResourceRoutes,
    gateway: GatewayRoutes,
    gateway_verbs: GatewayVerbs,
) -> Starlette:
    """The application; `age` says how many seconds ago the supervisor was started."""
    api = _ControlApi(status, drift, events, operations, reloading, age)
    logs = LogRoute(
        operations, log_router, lambda: status.gateway is not None and status.gateway.entry() is not None
    )
    describe = DescribeRoutes(descriptions)
    top = TopRoute(feed, age, Processes())
    return Starlette(
        routes=[
            Route("/v1/status", api.status),
            Route("/v1/health", api.health),
            Route("/v1/start", api.start, methods=["POST"]),
            Route("/v1/stop", api.stop, methods=["POST"]),
            Route("/v1/restart", api.restart, methods=["POST"]),
            Route("/v1/wait", api.wait, methods=["POST"]),
            Route("/v1/reload", api.reload, methods=["POST"]),
            Route("/v1/upstreams", gateway.upstreams),
            Route("/v1/siblings-key", gateway.siblings_key, methods=["POST"]),
            Route("/v1/operator-token", gateway.operator_token, methods=["POST"]),
            Route("/v1/gateway/{verb}", gateway_verbs.post, methods=["POST"]),
            Route("/v1/logs", logs.get),
            Route("/v1/agents/{name}", describe.agent),
            Route("/v1/configuration", describe.configuration),
            Route("/v1/events", EventRoute(events).get),
            Route("/v1/top", top.get),
            Route("/v1/resources", resources.apply, methods=["POST"]),
            Route("/v1/resources/{kind}", resources.list),
            Route("/v1/resources/{kind}/{name}", resources.get),
            Route("/v1/resources/{kind}/{name}", resources.put, methods=["PUT"]),
            Route("/v1/resources/{kind}/{name}", resources.delete, methods=["DELETE"]),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={
            BadRequestError: _failure(422),
            TooLargeError: _failure(413),
            UnknownAgentError: _failure(404),
            UnknownResourceError: _failure(404),
            NotKeptError: _failure(507),
            RefusedError: _failure(409),
            PortsTakenError: _failure(409),
            ConfigurationError: _refused_configuration,
            HTTPException: _http_failure,
            Exception: _defect,
        },
    )


def _failure(status: int) -> Callable[[Request, Exception], Response]:
    return lambda _request, error: _refusal(str(error), status)


def _refusal(message: str, status: int) -> Response:
    # It may quote the request, half a surrogate pair included, for which UTF-8 has no bytes.
    text = shortened(message, LONGEST_ERROR).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status)


def _http_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = error.detail
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        said = f"{request.method[:20]} is not for this path, which takes {allowed}"
    return JSONResponse({"error": said}, error.status_code, error.headers)


def _defect(_request: Request, error: Exception) -> Response:
    message = f"a defect of the supervisor ({type(error).__name__}: {error}); its log has the traceback"
    return _refusal(message, 500)


def _refused_configuration(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ConfigurationError)
    problems = [str(problem) for problem in error.problems]
    count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
    body = {"error": f"the configuration has {count}; nothing was changed", "problems": problems}
    return JSONResponse(body, 422)


@dataclass(frozen=True, slots=True)
class _ControlApi:
    _status: StatusView
    _drift: Drift
    _events: EventLog
    _operations: OperatorVerbs
    _reloading: Reloading
    _age: Callable[[], float]

    async def status(self, request: Request) -> Response:
        # All of them are looked up at once, so that an unknown one is refused before anything is said.
        named = request.query_params.getlist("agent")
        if unknown := set(request.query_params) - {"agent"}:
            raise BadRequestError(f"unknown parameter {shown(min(unknown))}; there is agent")
        names = self._operations.resolve(named) if named else None
        await self._drift.look()
        state = self._drift.taken.state_directory
        supervisor = {
            "pid": os.getpid(),
            "version": __version__,
            "since": ago(self._age()),
            "state_directory": None if state is None else str(state),
        }
        document = {
            "deployment": self._status.deployment.name,
            "file": str(self._drift.source.path),
            "directory": str(self._drift.source.directory),
            "url": None if self._drift.source.only else page_url(self._status.deployment),
            "supervisor": supervisor,
            "configuration": self._drift.document(),
            "agents": self._status.entries(names),
            "gateway": None if self._status.gateway is None else self._status.gateway.entry(),
            "events": self._events.position._asdict(),
        }
        return JSONResponse(document)

    async def health(self, _request: Request) -> Response:
        return JSONResponse(self._status.health_document())

    async def start(self, request: Request) -> Response:
        verb = self._verb(request, await read_body(request))
        targets = self._operations.start(verb.agents)
        return await self._reach(verb, targets, "ready")

    async def stop(self, request: Request) -> Response:
        body = await read_body(request)
        cascade = take_flag(body, "cascade")
        verb = self._verb(request, body)
        targets = self._operations.stop(verb.agents, cascade=cascade)
        return await self._reach(verb, targets, "stopped")

    async def restart(self, request: Request) -> Response:
        body = await read_body(request)
        now = take_flag(body, "now")
        verb = self._verb(request, body)
        before = self._operations.newest()
        restart = self._operations.restart_now if now else self._operations.restart
        return await self._reach(verb, restart(verb.agents), "ready", before)

    async def wait(self, request: Request) -> Response:
        body = await read_body(request)
        goal = take_choice(body, "for", ("ready", "stopped", "settled"))
        verb = parse_verb(body)
        return await self._reach(verb, self._operations.resolve(verb.agents), cast("Goal", goal))

    async def reload(self, request: Request) -> Response:
        body = await read_body(request)
        dry_run = body.pop("dry_run", False)
        if not isinstance(dry_run, bool) or body:
            raise BadRequestError('the body is {"dry_run": true or false}')
        _note(request)
        # Shielded: a client that goes away must not leave a reload half done.
        plan = await asyncio.shield(self._reloading.reload(dry_run=dry_run))
        return JSONResponse(plan.to_json(dry_run=dry_run))

    def _verb(self, request: Request, body: dict[str, Any]) -> Verb:
        """The verb body, of agents that are deployed; logs the request."""
        verb = parse_verb(body)
        self._operations.resolve(verb.agents)
        _note(request, verb.agents)
        return verb

    async def _reach(
        self, verb: Verb, targets: tuple[str, ...], goal: Goal, beyond: dict[str, int] | None = None
    ) -> Response:
        done, status, error = False, 200, None
        if verb.wait:
            try:
                async with asyncio.timeout(verb.timeout):  # which, at 0, still sees what holds already
                    done = await self._operations.wait(targets, goal, beyond=beyond)
            except TimeoutError:
                status, error = 504, f"not {goal} within {round(verb.timeout, 1):g} s"
        agents = self._status.entries(name for name in targets if name in self._status.agents)
        body: dict[str, Any] = {"done": done, "agents": agents}
        if error is not None:
            body["error"] = error
        return JSONResponse(body, status)


def _note(request: Request, agents: tuple[str, ...] | None = None) -> None:
    """Log which process asks for what, and for which agents: all of them, if none is named."""
    verb = request.url.path.rpartition("/")[2]
    of = "" if agents is None else f" of {shortened(' '.join(agents), 200) or 'all agents'}"
    _log.info(f"{verb}{of}, asked for by {getattr(request.state, 'peer', None) or 'somebody'}")
