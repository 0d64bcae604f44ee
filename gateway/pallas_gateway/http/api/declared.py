"""Declared resources as the control API has them, for principals: what each may see and write of them.

Knows grants and the control API's documents; nothing of paths and requests.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pallas_common.problems import shortened
from pallas_control.errors import ControlError
from pallas_gateway.access.reading import named_in, told
from pallas_gateway.access.writing import asked_for, lacking, may_on, permissions_on
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.places import NAME
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_registry.resources.documents import read_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pallas_gateway.directory.control import Answer, ControlClient
    from pallas_gateway.identity.grants import Verb
    from pallas_gateway.identity.principal import Principal
    from pallas_registry.resources.model import Resource, ResourceId

type Json = dict[str, Any]

WRITE_TIMEOUT = 120.0
"""Seconds that taking over a change may take: an agent that is removed ends first."""
_NOT_FOUND = 404
_TYPES = {
    404: "not_found",
    409: "conflict",
    413: "too_large",
    422: "invalid",
    504: "timed_out",
    507: "not_kept",
}


class Declared:
    """The resources.

    Args:
        agents: the names of all agents.
    """

    def __init__(self, control: ControlClient, agents: Callable[[], Iterable[str]]) -> None:
        self._control = control
        self._agents = agents

    async def list(self, kind: str) -> list[Json]:
        """All of a kind."""
        items: list[Json] = (await self.ask("GET", f"/{kind}")).document["items"]
        return items

    async def visible(self, principal: Principal, kind: str, name: str, verb: Verb) -> Answer:
        """A resource with which the principal may do that, by name or uid.

        Raises:
            ApiError: there is none, as far as the principal may know.
            InsufficientScopeError: the principal may view it, and no more.
        """
        nothing = ApiError(404, "not_found", f"there is no {kind} {shortened(name)!r}")
        if NAME.fullmatch(name) is None:
            raise nothing
        answer = await self.ask("GET", f"/{kind}/{quoted_path(name)}", missing=nothing)
        found = answer.document["metadata"]["name"]
        if may_on(principal, verb, kind, found):
            return answer
        if may_on(principal, "view", kind, found):
            raise InsufficientScopeError(permissions_on(verb, kind, found)[0])
        raise nothing

    async def put(
        self,
        principal: Principal,
        verb: Verb,
        id_: ResourceId,
        body: bytes,
        *,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Create or change one, as its principal may.

        Args:
            verb: what is asked for of the two, as `headers` say it to the control API.

        Raises:
            ApiError: it is refused.
            InsufficientScopeError: the principal may not.
        """
        read = await asyncio.to_thread(read_resources, body, "the request")
        if read.problems:
            raise ApiError(422, "invalid", shortened(str(read.problems[0]), 2000))
        if [each.id for each in read.resources] != [id_]:
            raise ApiError(
                422, "invalid", f"the body describes {id_} and nothing else", field="metadata.name"
            )
        require(principal, verb, read.resources)
        return await self.ask(
            "PUT",
            f"/{id_.kind}/{quoted_path(id_.name)}",
            content=body,
            query=query,
            headers={**headers, **asked_for(principal)},
            missing=ApiError(404, "not_found", f"there is no {id_}; without `If-Match` it is created"),
            teller=self.teller(principal, named_in(read.resources)),
        )

    async def delete(self, principal: Principal, id_: ResourceId, headers: Mapping[str, str]) -> Answer:
        """Delete one.

        Raises:
            ApiError: it is refused.
        """
        return await self.ask(
            "DELETE",
            f"/{id_.kind}/{quoted_path(id_.name)}",
            headers={**headers, **asked_for(principal)},
            missing=ApiError(404, "not_found", f"there is no {id_.kind} {id_.name!r} any more"),
            teller=self.teller(principal, {id_}),
        )

    def teller(self, principal: Principal, named: Collection[ResourceId]) -> Callable[[str], str]:
        """Makes what the supervisor says into what the principal may be told.

        Args:
            named: what it has named itself.
        """
        return lambda text: told(principal, text, self._agents(), named)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        missing: ApiError | None = None,
        teller: Callable[[str], str] = str,
    ) -> Answer:
        """What the control API answers below `/v1/resources`.

        Args:
            teller: of `teller`, where others may be named in a refusal.

        Raises:
            ApiError: it refuses, or cannot be asked; `missing` where there is no such thing.
        """
        try:
            # Shielded: the change is not half done, and is in the audit with what became of it.
            answer = await asyncio.shield(
                self._control.ask(
                    method,
                    f"/v1/resources{path}",
                    content=content,
                    query=query,
                    headers=headers,
                    content_type=content_type,
                    timeout=WRITE_TIMEOUT,
                )
            )
        except ControlError as error:
            raise ApiError(503, "unavailable", str(error)) from None
        if answer.status in (200, 201):
            return answer
        if answer.status == _NOT_FOUND and missing is not None:
            raise missing
        problems = [str(each) for each in answer.document.get("problems") or ()]
        message = teller("; ".join(problems[:20]) or str(answer.document.get("error")))
        word = _TYPES.get(answer.status, "refused")
        raise ApiError(answer.status if answer.status in _TYPES else 502, word, shortened(message, 4000))


def require(principal: Principal, verb: Verb, resources: Iterable[Resource]) -> None:
    """Refuse what the principal may not write as it is.

    Raises:
        InsufficientScopeError: a grant is missing.
    """
    for resource in resources:
        if (permission := lacking(principal, verb, resource)) is not None:
            raise InsufficientScopeError(permission)


def quoted_path(name: str) -> str:
    """As a part of a path."""
    return quote(name, safe="")
