"""`/api/v1/agents` and `/api/v1/projects/P/agents`: agents as the reference has them, whatever they are made from.

The same resources as `/api/v1/resources/agent`, in other words. One of agents.yaml is listed as well; changing it is
refused with the place where it is written.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from pallas_common.problems import kind_of, quoted, shortened
from pallas_gateway.access.predicate import may, may_see_agent, may_some
from pallas_gateway.access.reading import shown
from pallas_gateway.access.writing import may_on, permissions_on
from pallas_gateway.http.api.agent_documents import (
    agent_document,
    in_our_words,
    invalid,
    source_of,
    wanted,
)
from pallas_gateway.http.api.paging import page, read_page
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.openapi.operations.agents import AGENTS
from pallas_gateway.http.openapi.routes import routes_of
from pallas_gateway.http.requests import admitted_of, read_json
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_gateway.servers.management.arguments import for_clients
from pallas_registry.reading.rules import agent_name
from pallas_registry.resources.model import ResourceId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.requests import Request
    from starlette.routing import Route

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.directory.control import Answer
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.http.api.declared import Declared
    from pallas_gateway.identity.principal import Principal

type Json = dict[str, Any]

MOST_TRIES = 5
"""Times that a change is made anew because another one came between."""


def agent_routes(directory: Directory, declared: Declared, audit: Audit) -> list[Route]:
    """The routes, with their whole paths."""
    api = _Agents(directory, declared, audit)
    return routes_of(
        AGENTS,
        {
            "listAgents": api.list,
            "createAgent": api.create,
            "getAgent": api.get,
            "updateAgent": api.update,
            "deleteAgent": api.delete,
            "listProjectAgents": api.list_of_project,
        },
    )


class _Agents:
    def __init__(self, directory: Directory, declared: Declared, audit: Audit) -> None:
        self._directory = directory
        self._declared = declared
        self._audit = audit

    async def list(self, request: Request) -> Response:
        """All that the principal may view."""
        principal = admitted_of(request).principal
        if not may_some(principal, "view", "agents"):
            raise InsufficientScopeError(Permission("view", "agents"))
        return await self._page(request, lambda found: may_see_agent(principal, found["metadata"]["name"]))

    async def list_of_project(self, request: Request) -> Response:
        """All of a project, which the principal may view."""
        principal, said = admitted_of(request).principal, request.path_params["project"]
        if not may_some(principal, "view", "projects"):
            raise InsufficientScopeError(Permission("view", "projects", said))
        known = self._directory.projects
        name = next((each.name for each in known.values() if said in (each.name, each.uid)), None)
        if name is None or not may(principal, Permission("view", "projects", name)):
            raise ApiError(404, "not_found", f"there is no project {quoted(said)}")
        return await self._page(request, lambda found: (found.get("spec") or {}).get("project") == name)

    async def get(self, request: Request) -> Response:
        """One of them."""
        principal = admitted_of(request).principal
        found = await self._declared.visible(principal, "agent", request.path_params["agent"], "view")
        return self._answer(200, principal, found)

    async def create(self, request: Request) -> Response:
        """A new one; it can be asked when this is answered."""
        admitted = admitted_of(request)
        principal = admitted.principal
        with self._audit.doing(principal, "agents/create", "agent", request_id=admitted.request_id) as entry:
            body = await read_json(request)
            name = body.get("name")
            if not isinstance(name, str):
                raise invalid("name", f"is required, as text, not {kind_of(name)}")
            if (complaint := agent_name(name)) is not None:
                raise invalid("name", f"{quoted(name)} {complaint.message}; {complaint.remedy}")
            entry.target = f"agent/{name}"
            if not may_on(principal, "create", "agent", name):
                raise InsufficientScopeError(permissions_on("create", "agent", name)[0])
            spec = wanted(body, None, self._named).spec
            with self._in_our_words():
                made = await self._declared.put(
                    principal,
                    "create",
                    ResourceId("agent", name),
                    _resource(name, spec),
                    headers={"If-None-Match": "*"},
                )
            await self._known(made)
        return self._answer(201, principal, made)

    async def update(self, request: Request) -> Response:
        """Change what the body says; the rest stays."""
        admitted = admitted_of(request)
        principal, said = admitted.principal, request.path_params["agent"]
        match = request.headers.get("if-match")
        with self._audit.doing(
            principal, "agents/update", f"agent/{said}", request_id=admitted.request_id
        ) as entry:
            there = await self._declared.visible(principal, "agent", said, "edit")
            name = there.document["metadata"]["name"]
            entry.target = f"agent/{name}"
            self._refuse_written(there)
            body = await read_json(request)
            for last in range(MOST_TRIES):
                before = {**self._document(principal, there.document), "spec": there.document.get("spec")}
                asked = wanted(body, before, self._named)
                if asked.version is not None and asked.version != before["version"]:
                    message = f"version: the agent has version {before['version']} by now; read it again"
                    raise ApiError(409, "conflict", message, field="version")
                try:
                    with self._in_our_words():
                        done = await self._declared.put(
                            principal,
                            "edit",
                            ResourceId("agent", name),
                            _resource(name, asked.spec),
                            headers={"If-Match": match or there.etag or "*"},
                        )
                    break
                except ApiError as error:
                    now = await self._declared.visible(principal, "agent", name, "edit")
                    if error.status != 409 or match or now.etag == there.etag or last == MOST_TRIES - 1:
                        raise
                    there = now  # somebody else has changed it meanwhile: what is asked still is
            await self._known(done)
        return self._answer(200, principal, done)

    async def delete(self, request: Request) -> Response:
        """One less, and its threads."""
        admitted = admitted_of(request)
        principal, said = admitted.principal, request.path_params["agent"]
        match = request.headers.get("if-match")
        with self._audit.doing(
            principal, "agents/delete", f"agent/{said}", request_id=admitted.request_id, frees=True
        ) as entry:
            there = await self._declared.visible(principal, "agent", said, "delete")
            name = there.document["metadata"]["name"]
            entry.target = f"agent/{name}"
            self._refuse_written(there)
            with self._in_our_words():
                await self._declared.delete(
                    principal, ResourceId("agent", name), {} if match is None else {"If-Match": match}
                )
            await self._directory.until(lambda: name not in self._directory.agents)
        return _response(200, {"deleted": name})

    async def _page(self, request: Request, belongs: Callable[[Json], bool]) -> Response:
        principal, asked = admitted_of(request).principal, read_page(request)
        found = [each for each in await self._declared.list("agent") if belongs(each)]
        found.sort(key=_name)
        if asked.cursor is not None:
            after = asked.text()
            found = [each for each in found if _name(each) > after]
        part = found[: asked.limit]
        last = _name(part[-1]) if len(part) < len(found) else None
        return _response(200, page([self._document(principal, each) for each in part], last))

    def _document(self, principal: Principal, resource: Json) -> Json:
        llm = self._directory.resources("llm").get((resource.get("spec") or {}).get("llm") or "")
        directory = self._directory.supervisor.get("directory")
        model = None if llm is None else llm.model
        return agent_document(shown(principal, resource), model, directory)

    def _answer(self, status: int, principal: Principal, answer: Answer) -> Response:
        resource = answer.document
        name = _name(resource)
        if not may_on(principal, "view", "agent", name):
            return _response(status, {"id": resource["metadata"].get("uid") or name, "name": name})
        return _response(status, self._document(principal, resource), answer.etag)

    def _named(self, field: str, kind: str, value: object) -> str:
        """The name that a reference means."""
        if isinstance(value, dict):
            inner = [value[key] for key in ("name", "id") if key in value]
            if len(inner) != 1 or len(value) != 1:
                raise invalid(field, "is a name, or an object with `name` or `id` and nothing else")
            value = inner[0]
        if not isinstance(value, str):
            raise invalid(field, f"is a name, or `{{name: …}}`, not {kind_of(value)}")
        known = self._directory.resources(kind)
        return next((each.name for each in known.values() if each.uid == value), value)

    def _refuse_written(self, there: Answer) -> None:
        """Refuse to change what is in agents.yaml."""
        source = source_of(there.document, self._directory.supervisor.get("directory"))
        if source["kind"] != "resource":
            name = _name(there.document)
            message = (
                f"the agent {name} is declared in {source['file']}, line {source['line']}: edit it there, and run "
                "`pallasctl reload`"
            )
            raise ApiError(409, "declared_in_file", message)

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """What the supervisor says about a resource is said about the request."""
        try:
            yield
        except ApiError as error:
            directory = self._directory.supervisor.get("directory")
            field, said = in_our_words(str(error))
            message = for_clients(said, directory, {})
            status = 400 if error.status == 422 else error.status
            raise ApiError(status, error.type, shortened(message, 4000), field=field) from None

    async def _known(self, done: Answer) -> None:
        """Wait until what was done is known here as well, so that the next request finds it."""
        metadata = done.document["metadata"]
        name, uid, version = metadata["name"], metadata.get("uid"), metadata.get("version")

        def is_known() -> bool:
            record = self._directory.agents.get(name)
            return record is not None and record.uid == uid and (record.version or 0) >= (version or 0)

        await self._directory.until(is_known)


def _name(resource: Mapping[str, Any]) -> str:
    name: str = resource["metadata"]["name"]
    return name


def _resource(name: str, spec: Json) -> bytes:
    """The resource, as it is applied."""
    document = {"apiVersion": "pallas/v1", "kind": "agent", "metadata": {"name": name}, "spec": spec}
    return json.dumps(document).encode()


def _response(status: int, document: Json, etag: str | None = None) -> Response:
    headers = {} if etag is None else {"etag": etag}
    return Response(json.dumps(document).encode(), status, headers, media_type="application/json")
