"""`GET /v1/agents/<name>` and `GET /v1/configuration` of the control API.

Knows Starlette; what the documents say is gathered in `agents.description`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from starlette.requests import Request

    from pallas_supervisor.agents.description.agent import Descriptions


@dataclass(frozen=True, slots=True)
class DescribeRoutes:
    """Answers with documents for people who look closely."""

    _descriptions: Descriptions

    async def agent(self, request: Request) -> Response:
        """One agent; an unknown one is an error of the API."""
        return JSONResponse(await self._descriptions.agent(request.path_params["name"]))

    async def configuration(self, _request: Request) -> Response:
        """The configuration in effect."""
        return JSONResponse(await self._descriptions.configuration())
