"""`/api/v1/resources`: declared resources as the control API has them, for principals that may, written into the audit.

Bodies, answers, `ETag`, `If-Match` and `If-None-Match` are those of docs/control-api.md. A secret's values are in no
answer. What a principal may not view is not there for it.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from pallas_common.http.json_bounds import parse_bounded
from pallas_common.problems import quoted
from pallas_gateway.access.predicate import may
from pallas_gateway.access.reading import named_in, shown
from pallas_gateway.access.writing import asked_for, may_on, may_some_of, permissions_on
from pallas_gateway.http.api.declared import Declared, require
from pallas_gateway.http.errors import HEADERS, ApiError
from pallas_gateway.http.openapi.operations.resources import RESOURCES
from pallas_gateway.http.openapi.routes import routes_of
from pallas_gateway.http.places import NAME
from pallas_gateway.http.requests import admitted_of, read_body
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.model import KINDS, ResourceId

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.routing import Route

    from pallas_gateway.access.audit import Audit, Entry
    from pallas_gateway.identity.grants import Verb
    from pallas_gateway.identity.principal import Principal
    from pallas_registry.resources.model import Kind

type Json = dict[str, Any]

LONGEST_BODY = 16 * 1024 * 1024
"""Bytes, as on the control socket."""
MOST_FILES = 10_000
MOST_NAMED = 20
"""Resources in one line of the audit."""
DRY_RUN = " (dry run)"
"""Behind the action in the audit."""
_NAMED = re.compile(rf"[A-Za-z]{{1,20}}/{NAME.pattern}")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def resource_routes(declared: Declared, audit: Audit) -> list[Route]:
    """The routes, with their whole paths."""
    api = _Resources(declared, audit)
    return routes_of(
        RESOURCES,
        {
            "applyResources": api.apply,
            "listResources": api.list,
            "getResource": api.get,
            "putResource": api.put,
            "deleteResource": api.delete,
        },
    )


@dataclass(frozen=True, slots=True)
class _Resources:
    _declared: Declared
    _audit: Audit

    async def list(self, request: Request) -> Response:
        """All of a kind that the principal may view."""
        principal, kind = admitted_of(request).principal, _kind(request)
        if not may_some_of(principal, "view", kind):
            raise InsufficientScopeError(Permission("view", "resources", f"{kind}/*"))
        items = [
            shown(principal, each)
            for each in await self._declared.list(kind)
            if may_on(principal, "view", kind, each["metadata"]["name"])
        ]
        return _response(200, {"items": items})

    async def get(self, request: Request) -> Response:
        """One of them."""
        principal, kind = admitted_of(request).principal, _kind(request)
        answer = await self._declared.visible(principal, kind, request.path_params["name"], "view")
        return _response(200, shown(principal, answer.document), answer.etag)

    async def put(self, request: Request) -> Response:
        """Create or change one."""
        admitted, kind = admitted_of(request), _kind(request)
        principal, id_ = admitted.principal, ResourceId(kind, request.path_params["name"])
        query = {"dry_run": request.query_params["dry_run"]} if "dry_run" in request.query_params else None
        action = "resources/put"
        if request.query_params.get("dry_run") == "1":
            action += DRY_RUN
        with self._audit.doing(principal, action, str(id_), request_id=admitted.request_id):
            verb, headers = _condition(request, principal, id_)
            body = await read_body(request, LONGEST_BODY)
            answer = await self._declared.put(principal, verb, id_, body, query=query, headers=headers)
        document = answer.document
        if "metadata" in document:
            document = (
                shown(principal, document)
                if may_on(principal, "view", *id_)
                else {"kind": kind, "metadata": {"name": id_.name}}
            )
        return _response(answer.status, document, answer.etag)

    async def delete(self, request: Request) -> Response:
        """Delete one."""
        admitted, kind = admitted_of(request), _kind(request)
        principal = admitted.principal
        name = request.path_params["name"]
        headers = {"If-Match": request.headers["if-match"]} if "if-match" in request.headers else {}
        with self._audit.doing(
            principal, "resources/delete", f"{kind}/{name}", request_id=admitted.request_id, frees=True
        ) as entry:
            there = await self._declared.visible(principal, kind, name, "delete")
            name = there.document["metadata"]["name"]
            entry.target = f"{kind}/{name}"
            answer = await self._declared.delete(principal, ResourceId(kind, name), headers)
        return _response(200, answer.document)

    async def apply(self, request: Request) -> Response:
        """Apply files, or delete several; takes the rights to create and to edit all that they say."""
        admitted = admitted_of(request)
        principal = admitted.principal
        raw = await read_body(request, LONGEST_BODY)
        body = _object(raw)
        action = "resources/delete" if "delete" in body else "resources/apply"
        if body.get("dry_run") is True:
            action += DRY_RUN
        with self._audit.doing(
            principal, action, "nothing", request_id=admitted.request_id, frees="delete" in body
        ) as entry:
            if "delete" in body:
                named = _may_delete(principal, body["delete"], entry)
            else:
                named = await self._may_apply(principal, body, entry)
            teller = self._declared.teller(principal, named)
            answer = await self._declared.ask(
                "POST",
                "",
                content=raw,
                headers=asked_for(principal),
                content_type="application/json",
                teller=teller,
            )
        results = [
            _told(each, teller)
            for each in answer.document.get("results") or ()
            if _may_know(principal, each["resource"])
        ]
        return _response(200, {**_told(answer.document, teller), "results": results})

    async def _may_apply(self, principal: Principal, body: Json, entry: Entry) -> frozenset[ResourceId]:
        """Whether that may be applied; what it names."""
        files = body.get("files")
        if not isinstance(files, list) or len(files) > MOST_FILES:
            raise ApiError(
                422,
                "invalid",
                'the body is {"files": [{"file": name, "text": text}]} or {"delete": ["KIND/NAME"]}',
                field="files",
            )
        if body.get("prune"):  # of whatever is in no file
            for permission in (Permission("delete", "resources"), Permission("delete", "agents")):
                if not may(principal, permission):
                    raise InsufficientScopeError(permission)
        named: list[str] = []
        known: set[ResourceId] = set()
        for index, each in enumerate(files):
            text = each.get("text") if isinstance(each, dict) else None
            if not isinstance(text, str):
                raise ApiError(422, "invalid", "`file` and `text` are texts", field=f"files[{index}]")
            data = text.encode("utf-8", "surrogatepass")
            read = await asyncio.to_thread(read_resources, data, "the file")
            named += [str(resource.id) for resource in read.resources][: MOST_NAMED - len(named)]
            entry.target = ", ".join(named) or "nothing"
            for verb in ("create", "edit"):
                require(principal, verb, read.resources)
            known |= named_in(read.resources)
        return frozenset(known)


def _kind(request: Request) -> Kind:
    word = request.path_params["kind"].lower().removesuffix("s")
    for kind in KINDS:
        if kind == word:
            return kind
    raise ApiError(404, "not_found", f"there is no such kind; the kinds are {', '.join(KINDS)}")


def _condition(request: Request, principal: Principal, id_: ResourceId) -> tuple[Verb, dict[str, str]]:
    """Which of the two the request is, create or edit, as far as the principal may, and the header that holds it to it.

    Raises:
        InsufficientScopeError: the principal may do neither.
    """
    creates, edits = may_on(principal, "create", *id_), may_on(principal, "edit", *id_)
    match_, none_match = request.headers.get("if-match"), request.headers.get("if-none-match")
    if none_match == "*" or (creates and not edits and match_ is None):
        return "create", {"If-None-Match": "*"}
    if match_ is not None or (edits and not creates):
        return "edit", {"If-Match": match_ or "*"}
    if not creates:
        raise InsufficientScopeError(permissions_on("edit", *id_)[0])
    return "edit", {}


def _may_delete(principal: Principal, named: object, entry: Entry) -> frozenset[ResourceId]:
    """Whether that may be deleted; the audit's entry gets to know what it is. Returns what it names.

    By name alone: grants are for names, and the supervisor would take a uid that a grant's pattern covers.
    """
    if not isinstance(named, list) or len(named) > MOST_FILES:
        raise ApiError(422, "invalid", '`delete` is a list of "KIND/NAME"', field="delete")
    words = (each for each in named[:MOST_NAMED] if isinstance(each, str))
    # What is no name may look like several, or like another action: it is in quotes.
    entry.target = ", ".join(each if _NAMED.fullmatch(each) else quoted(each) for each in words) or "nothing"
    known: set[ResourceId] = set()
    for index, each in enumerate(named):
        word, _, name = each.partition("/") if isinstance(each, str) else ("", "", "")
        kind = word.lower().removesuffix("s")
        if kind not in KINDS or NAME.fullmatch(name) is None or _UID.fullmatch(name):
            message = f'is not "KIND/NAME", as agent/deployer, without uids; the kinds are {", ".join(KINDS)}'
            raise ApiError(422, "invalid", message, field=f"delete[{index}]")
        if not may_on(principal, "delete", kind, name):
            raise InsufficientScopeError(permissions_on("delete", kind, name)[0])
        known.add(ResourceId(kind, name))
    return frozenset(known)


def _told(document: Json, teller: Callable[[str], str]) -> Json:
    problems = document.get("problems")
    return {**document, "problems": [teller(str(each)) for each in problems]} if problems else document


def _may_know(principal: Principal, resource: str) -> bool:
    kind, _, name = resource.partition("/")
    return any(may_on(principal, verb, kind, name) for verb in ("view", "create", "edit", "delete"))


def _object(raw: bytes) -> Json:
    try:
        body = parse_bounded(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ApiError(400, "invalid", "the body is no JSON object")
    return body


def _response(status: int, document: Json, etag: str | None = None) -> Response:
    headers = {**HEADERS, **({} if etag is None else {"etag": etag})}
    return Response(json.dumps(document).encode(), status, headers, media_type="application/json")
