"""`POST /v1/gateway/<verb>` of the control API: the operator's verbs for the gateway.

Knows Starlette and the verbs; nothing of states or processes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from pallas_common.logs.setup import get_logger
from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.http.control.requests import (
    BadRequestError,
    parse_verb,
    read_body,
    take_choice,
    take_flag,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from pallas_supervisor.agents.gateway.status import GatewayStatus
    from pallas_supervisor.agents.verbs import Goal, OperatorVerbs

NONE = "this deployment has no gateway; add `gateway: {}` to agents.yaml and reload"

_log = get_logger("pallas.supervisor.control")


class GatewayVerbs:
    """Starts, stops, restarts, waits."""

    def __init__(self, operations: OperatorVerbs, status: GatewayStatus) -> None:
        self._operations = operations
        self._status = status

    async def post(self, request: Request) -> Response:
        """Do what the path says; answers `{"done", "gateway"}`, with `error` where the goal was not reached in time."""
        body = await read_body(request)
        asked = str(request.path_params["verb"])
        do, goal = self._verb(asked, body)
        verb = parse_verb(body)
        if verb.agents:
            raise BadRequestError("`agents` has no place here: the verb is for the gateway")
        if self._status.agent is None:
            raise RefusedError(NONE)
        if asked != "wait":
            _log.info(
                f"{asked} of the gateway, asked for by {getattr(request.state, 'peer', None) or 'somebody'}"
            )
        before = self._operations.newest() if asked == "restart" else None
        do(())
        done, status, error = False, 200, None
        if verb.wait:
            try:
                async with asyncio.timeout(verb.timeout):  # which, at 0, still sees what holds already
                    done = await self._operations.wait((), goal, beyond=before)
            except TimeoutError:
                status, error = 504, f"not {goal} within {round(verb.timeout, 1):g} s"
        answer: dict[str, Any] = {"done": done, "gateway": self._status.entry()}
        if error is not None:
            answer["error"] = error
        return JSONResponse(answer, status)

    def _verb(self, asked: str, body: dict[str, Any]) -> tuple[Callable[[tuple[str, ...]], object], Goal]:
        operations = self._operations
        match asked:
            case "start":
                return operations.start, "ready"
            case "stop":
                return operations.stop, "stopped"
            case "restart":
                return (operations.restart_now if take_flag(body, "now") else operations.restart), "ready"
            case "wait":
                goals: dict[str, Goal] = {"ready": "ready", "stopped": "stopped", "settled": "settled"}
                return operations.resolve, goals[take_choice(body, "for", tuple(goals))]
            case _:
                raise HTTPException(404, "the verbs of the gateway are start, stop, restart and wait")
