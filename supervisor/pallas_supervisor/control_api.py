"""The control API of `docs/control-api.md`: HTTP and JSON on the unix socket. Turns requests into operations.

Knows Starlette and the operations; nothing of states or processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pallas_registry import __version__
from pallas_registry.log_levels import LEVEL_NAMES, level_name, level_number
from pallas_registry.logs import get_logger
from pallas_registry.problems import ConfigurationError
from pallas_supervisor.hub import Follower
from pallas_supervisor.listeners import PortsTakenError
from pallas_supervisor.refusals import RefusedError, UnknownAgentError
from pallas_supervisor.view import timestamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from pallas_supervisor.fleet import Fleet
    from pallas_supervisor.operations import Goal, Operations
    from pallas_supervisor.reloading import Reloading

_log = get_logger("pallas.supervisor.control")

DEFAULT_TIMEOUT = 90.0
LONGEST_TIMEOUT = 86_400.0
DEFAULT_LINES = 100


class BadRequestError(Exception):
    """The request's body or query cannot be understood; the message says which part."""


@dataclass(frozen=True, slots=True)
class _Verb:
    agents: tuple[str, ...]
    wait: bool
    timeout: float


def control_api(fleet: Fleet, operations: Operations, reloading: Reloading, since: float) -> Starlette:
    """The application; `since` is the supervisor's start on the engine's clock."""
    api = _ControlApi(fleet, operations, reloading, since)
    return Starlette(
        routes=[
            Route("/v1/status", api.status),
            Route("/v1/health", api.health),
            Route("/v1/start", api.start, methods=["POST"]),
            Route("/v1/stop", api.stop, methods=["POST"]),
            Route("/v1/restart", api.restart, methods=["POST"]),
            Route("/v1/wait", api.wait, methods=["POST"]),
            Route("/v1/reload", api.reload, methods=["POST"]),
            Route("/v1/logs", api.logs),
        ],
        exception_handlers={
            BadRequestError: _failure(422),
            UnknownAgentError: _failure(404),
            RefusedError: _failure(409),
            PortsTakenError: _failure(409),
            ConfigurationError: _refused_configuration,
            HTTPException: _http_failure,
            Exception: _defect,
        },
    )


def _failure(status: int) -> Callable[[Request, Exception], Response]:
    return lambda _request, error: JSONResponse({"error": str(error)}, status)


def _http_failure(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _defect(_request: Request, error: Exception) -> Response:
    message = f"a defect of the supervisor ({type(error).__name__}: {error}); its log has the traceback"
    return JSONResponse({"error": message}, 500)


def _refused_configuration(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ConfigurationError)
    problems = [str(problem) for problem in error.problems]
    count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
    body = {"error": f"the configuration has {count}; nothing was changed", "problems": problems}
    return JSONResponse(body, 422)


class _ControlApi:
    def __init__(self, fleet: Fleet, operations: Operations, reloading: Reloading, since: float) -> None:
        self._fleet = fleet
        self._operations = operations
        self._reloading = reloading
        self._since = since

    async def status(self, _request: Request) -> Response:
        await self._fleet.provenance.look()
        age = self._fleet.engine.now() - self._since
        supervisor = {"pid": os.getpid(), "version": __version__, "since": timestamp(age)}
        document = {
            "deployment": self._fleet.deployment.name,
            "supervisor": supervisor,
            "configuration": self._fleet.provenance.document(),
            "agents": self._fleet.status(),
        }
        return JSONResponse(document)

    async def health(self, _request: Request) -> Response:
        return JSONResponse(self._fleet.health_document())

    async def start(self, request: Request) -> Response:
        verb = await _verb(request)
        targets = self._operations.start(verb.agents)
        return await self._reach(verb, targets, "ready")

    async def stop(self, request: Request) -> Response:
        body = await _body(request)
        cascade = _flag(body, "cascade")
        verb = _parse_verb(body)
        targets = self._operations.stop(verb.agents, cascade=cascade)
        return await self._reach(verb, targets, "stopped")

    async def restart(self, request: Request) -> Response:
        body = await _body(request)
        now = _flag(body, "now")
        verb = _parse_verb(body)
        before = self._operations.newest()
        restart = self._operations.restart_now if now else self._operations.restart
        return await self._reach(verb, restart(verb.agents), "ready", before)

    async def wait(self, request: Request) -> Response:
        body = await _body(request)
        goal = body.pop("for", "ready")
        if goal not in ("ready", "stopped", "settled"):
            raise BadRequestError(f"`for` is {goal!r}; say ready, stopped or settled")
        verb = _parse_verb(body)
        return await self._reach(verb, self._operations.resolve(verb.agents), goal)

    async def reload(self, request: Request) -> Response:
        body = await _body(request)
        dry_run = body.pop("dry_run", False)
        if not isinstance(dry_run, bool) or body:
            raise BadRequestError('the body is {"dry_run": true or false}')
        # Shielded: a client that goes away must not leave a reload half done.
        plan = await asyncio.shield(self._reloading.reload(dry_run=dry_run))
        return JSONResponse(plan.to_json(dry_run=dry_run))

    async def logs(self, request: Request) -> Response:
        query = request.query_params
        names = query.getlist("agent")
        agents = self._operations.resolve(names) if names else ()
        count = _count(query.get("n"), everything="since" in query)
        since = _since(query.get("since"))
        level = _level(query.get("level"))
        if query.get("follow") == "1":
            return StreamingResponse(
                self._follow(agents, count, since, level), media_type="application/x-ndjson"
            )
        lines = self._fleet.hub.newest(agents, count, since, level)
        return Response(b"".join(line + b"\n" for line in lines), media_type="application/x-ndjson")

    async def _follow(
        self, agents: tuple[str, ...], count: int, since: str, level: int
    ) -> AsyncIterator[bytes]:
        follower = Follower(agents, level)  # only here: a client that has gone already never gets so far
        self._fleet.hub.followers.add(follower)
        try:
            # Whoever chooses among the lines has to know where the old ones end: an empty line says it.
            lines = [*self._fleet.hub.newest(agents, count, since, level), b""]
            yield b"".join(line + b"\n" for line in lines)
            while True:
                yield await follower.next() + b"\n"
        finally:
            self._fleet.hub.followers.discard(follower)

    async def _reach(
        self, verb: _Verb, targets: tuple[str, ...], goal: Goal, beyond: dict[str, int] | None = None
    ) -> Response:
        done, status, error = False, 200, None
        if verb.wait:
            try:
                async with asyncio.timeout(verb.timeout):  # which, at 0, still sees what holds already
                    done = await self._operations.wait(targets, goal, beyond=beyond)
            except TimeoutError:
                status, error = 504, f"not {goal} within {verb.timeout:g} s"
        agents = self._fleet.status(name for name in targets if name in self._fleet.agents)
        body: dict[str, Any] = {"done": done, "agents": agents}
        if error is not None:
            body["error"] = error
        return JSONResponse(body, status)


async def _body(request: Request) -> dict[str, Any]:
    """The request's JSON object; who asks for what goes into the log."""
    raw = await request.body()
    try:
        body = json.loads(raw) if raw else {}
    except ValueError as error:
        raise BadRequestError(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequestError("the body is no JSON object")
    verb = request.url.path.rpartition("/")[2]
    if verb != "wait":
        of = (
            ""
            if verb == "reload"
            else f" of {' '.join(map(str, body.get('agents') or ['all agents']))[:200]}"
        )
        _log.info("%s%s, asked for by %s", verb, of, getattr(request.state, "peer", None) or "somebody")
    return body


def _flag(body: dict[str, Any], name: str) -> bool:
    """A field that is true or false, false unless it is there; taken out of the body."""
    value = body.pop(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"`{name}` is true or false")
    return value


async def _verb(request: Request) -> _Verb:
    return _parse_verb(await _body(request))


def _parse_verb(body: dict[str, Any]) -> _Verb:
    agents = body.pop("agents", [])
    wait = body.pop("wait", True)
    timeout = body.pop("timeout", DEFAULT_TIMEOUT)
    if body:
        raise BadRequestError(
            f"unknown fields: {', '.join(sorted(body))}; there are agents, wait and timeout"
        )
    if not (isinstance(agents, list) and all(isinstance(name, str) for name in agents)):
        raise BadRequestError("`agents` is a list of names")
    if not isinstance(wait, bool):
        raise BadRequestError("`wait` is true or false")
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not 0 <= timeout <= LONGEST_TIMEOUT
    ):
        raise BadRequestError(f"`timeout` is a number of seconds from 0 to {LONGEST_TIMEOUT:g}")
    return _Verb(tuple(agents), wait, float(timeout))


def _count(text: str | None, *, everything: bool) -> int:
    """How many lines are wanted; without a number the newest ones, or all of those that `since` leaves."""
    if text is None:
        return sys.maxsize if everything else DEFAULT_LINES
    with contextlib.suppress(ValueError):
        if (count := int(text)) >= 0:
            return count
    raise BadRequestError(f"`n` is {text!r}; it is a number of lines, 0 or more")


def _level(text: str | None) -> int:
    """The number of the least level that is wanted."""
    if text is None:
        return logging.NOTSET
    if level_name(text) is None:
        raise BadRequestError(f"`level` is {text!r}; it is one of {', '.join(LEVEL_NAMES)}")
    return level_number(text)


def _since(text: str | None) -> str:
    """An RFC 3339 UTC time that compares with those of the log lines."""
    if not text:
        return ""
    try:
        moment = datetime.now(UTC) - timedelta(seconds=float(text))
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise BadRequestError(f"`since` is {text!r}; give seconds back or an ISO 8601 time") from None
        moment = (moment if moment.tzinfo else moment.astimezone()).astimezone(UTC)
    except OverflowError:
        return ""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
