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
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route

from pallas_common.problems import quoted, shortened
from pallas_control.errors import ControlError
from pallas_gateway.access.predicate import may
from pallas_gateway.access.reading import shown
from pallas_gateway.access.writing import lacking, may_on, may_some_of, permissions_on
from pallas_gateway.http.app import API
from pallas_gateway.http.errors import HEADERS, ApiError
from pallas_gateway.http.places import NAME
from pallas_gateway.http.requests import admitted_of, read_body
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_gateway.mcp.wire import has_too_many_values
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.model import KINDS, ResourceId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

    from pallas_gateway.access.audit import Audit, Entry
    from pallas_gateway.directory.control import Answer, ControlClient
    from pallas_gateway.identity.grants import Verb
    from pallas_gateway.identity.principal import Principal
    from pallas_registry.resources.model import Kind, Resource

type Json = dict[str, Any]

LONGEST_BODY = 16 * 1024 * 1024
"""Bytes, as on the control socket."""
WRITE_TIMEOUT = 120.0
"""Seconds that taking over a change may take: an agent that is removed ends first."""
MOST_FILES = 10_000
MOST_NAMED = 20
"""Resources in one line of the audit."""
DRY_RUN = " (dry run)"
"""Behind the action in the audit."""
PATH = f"{API}/resources"
OWNER_HEADER = "Pallas-Owner"
_NOT_FOUND = 404
_NAMED = re.compile(rf"[A-Za-z]{{1,20}}/{NAME.pattern}")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TYPES = {
    404: "not_found",
    409: "conflict",
    413: "too_large",
    422: "invalid",
    504: "timed_out",
    507: "not_kept",
}


def resource_routes(control: ControlClient, audit: Audit) -> list[Route]:
    """The routes, with their whole paths."""
    api = _Resources(control, audit)
    return [
        Route(PATH, api.apply, methods=["POST"]),
        Route(f"{PATH}/{{kind}}", api.list, methods=["GET"]),
        Route(f"{PATH}/{{kind}}/{{name}}", api.get, methods=["GET"]),
        Route(f"{PATH}/{{kind}}/{{name}}", api.put, methods=["PUT"]),
        Route(f"{PATH}/{{kind}}/{{name}}", api.delete, methods=["DELETE"]),
    ]


@dataclass(frozen=True, slots=True)
class _Resources:
    _control: ControlClient
    _audit: Audit

    async def list(self, request: Request) -> Response:
        """All of a kind that the principal may view."""
        principal, kind = admitted_of(request).principal, _kind(request)
        if not may_some_of(principal, "view", kind):
            raise InsufficientScopeError(Permission("view", "resources", f"{kind}/*"))
        answer = await self._ask("GET", f"/{kind}")
        items = [
            _seen(principal, each)
            for each in answer.document["items"]
            if may_on(principal, "view", kind, each["metadata"]["name"])
        ]
        return _response(200, {"items": items})

    async def get(self, request: Request) -> Response:
        """One of them."""
        principal, kind = admitted_of(request).principal, _kind(request)
        answer = await self._visible(principal, kind, request.path_params["name"], "view")
        return _response(200, _seen(principal, answer.document), answer.etag)

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
            read = await asyncio.to_thread(read_resources, body, "the request")
            if read.problems:
                raise ApiError(422, "invalid", shortened(str(read.problems[0]), 2000))
            if [each.id for each in read.resources] != [id_]:
                raise ApiError(
                    422, "invalid", f"the body describes {id_} and nothing else", field="metadata.name"
                )
            _require(principal, verb, read.resources)
            answer = await self._ask(
                "PUT",
                f"/{kind}/{_quoted(id_.name)}",
                content=body,
                query=query,
                headers={**headers, **_owner(principal)},
                missing=ApiError(404, "not_found", f"there is no {id_}; without `If-Match` it is created"),
            )
        shown = answer.document
        if "metadata" in shown:
            shown = (
                _seen(principal, shown)
                if may_on(principal, "view", *id_)
                else {"kind": kind, "metadata": {"name": id_.name}}
            )
        return _response(answer.status, shown, answer.etag)

    async def delete(self, request: Request) -> Response:
        """Delete one."""
        admitted, kind = admitted_of(request), _kind(request)
        principal = admitted.principal
        name = request.path_params["name"]
        headers = {"If-Match": request.headers["if-match"]} if "if-match" in request.headers else {}
        with self._audit.doing(
            principal, "resources/delete", f"{kind}/{name}", request_id=admitted.request_id
        ) as entry:
            there = await self._visible(principal, kind, name, "delete")
            name = there.document["metadata"]["name"]
            entry.target = f"{kind}/{name}"
            answer = await self._ask(
                "DELETE",
                f"/{kind}/{_quoted(name)}",
                headers={**headers, **_owner(principal)},
                missing=ApiError(404, "not_found", f"there is no {kind} {name!r} any more"),
            )
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
        with self._audit.doing(principal, action, "nothing", request_id=admitted.request_id) as entry:
            if "delete" in body:
                _may_delete(principal, body["delete"], entry)
            else:
                await self._may_apply(principal, body, entry)
            answer = await self._ask(
                "POST", "", content=raw, headers=_owner(principal), content_type="application/json"
            )
        results = [
            each for each in answer.document.get("results") or () if _may_know(principal, each["resource"])
        ]
        return _response(200, {**answer.document, "results": results})

    async def _may_apply(self, principal: Principal, body: Json, entry: Entry) -> None:
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
        for index, each in enumerate(files):
            text = each.get("text") if isinstance(each, dict) else None
            if not isinstance(text, str):
                raise ApiError(422, "invalid", "`file` and `text` are texts", field=f"files[{index}]")
            data = text.encode("utf-8", "surrogatepass")
            read = await asyncio.to_thread(read_resources, data, "the file")
            named += [str(resource.id) for resource in read.resources][: MOST_NAMED - len(named)]
            entry.target = ", ".join(named) or "nothing"
            for verb in ("create", "edit"):
                _require(principal, verb, read.resources)

    async def _visible(self, principal: Principal, kind: str, name: str, verb: Verb) -> Answer:
        """A resource with which the principal may do that, by name or uid.

        Raises:
            ApiError: there is none, as far as the principal may know.
            InsufficientScopeError: the principal may view it, and no more.
        """
        nothing = ApiError(404, "not_found", f"there is no {kind} {shortened(name)!r}")
        if NAME.fullmatch(name) is None:
            raise nothing
        answer = await self._ask("GET", f"/{kind}/{_quoted(name)}", missing=nothing)
        found = answer.document["metadata"]["name"]
        if may_on(principal, verb, kind, found):
            return answer
        if may_on(principal, "view", kind, found):
            raise InsufficientScopeError(permissions_on(verb, kind, found)[0])
        raise nothing

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        missing: ApiError | None = None,
    ) -> Answer:
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
        message = "; ".join(problems[:20]) or str(answer.document.get("error"))
        word = _TYPES.get(answer.status, "refused")
        raise ApiError(answer.status if answer.status in _TYPES else 502, word, shortened(message, 4000))


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


def _require(principal: Principal, verb: Verb, resources: Iterable[Resource]) -> None:
    for resource in resources:
        if (permission := lacking(principal, verb, resource)) is not None:
            raise InsufficientScopeError(permission)


def _may_delete(principal: Principal, named: object, entry: Entry) -> None:
    """Whether that may be deleted; the audit's entry gets to know what it is.

    By name alone: grants are for names, and the supervisor would take a uid that a grant's pattern covers.
    """
    if not isinstance(named, list) or len(named) > MOST_FILES:
        raise ApiError(422, "invalid", '`delete` is a list of "KIND/NAME"', field="delete")
    words = (each for each in named[:MOST_NAMED] if isinstance(each, str))
    # What is no name may look like several, or like another action: it is in quotes.
    entry.target = ", ".join(each if _NAMED.fullmatch(each) else quoted(each) for each in words) or "nothing"
    for index, each in enumerate(named):
        word, _, name = each.partition("/") if isinstance(each, str) else ("", "", "")
        kind = word.lower().removesuffix("s")
        if kind not in KINDS or NAME.fullmatch(name) is None or _UID.fullmatch(name):
            message = f'is not "KIND/NAME", as agent/deployer, without uids; the kinds are {", ".join(KINDS)}'
            raise ApiError(422, "invalid", message, field=f"delete[{index}]")
        if not may_on(principal, "delete", kind, name):
            raise InsufficientScopeError(permissions_on("delete", kind, name)[0])


def _may_know(principal: Principal, resource: str) -> bool:
    kind, _, name = resource.partition("/")
    return any(may_on(principal, verb, kind, name) for verb in ("view", "create", "edit", "delete"))


def _seen(principal: Principal, document: Json) -> Json:
    """The document without the names of resources that the principal may not view, and values that it may not."""
    document = shown(principal, document)
    status = document.get("status")
    if not isinstance(status, dict) or "usedBy" not in status:
        return document
    used_by = [each for each in status["usedBy"] if may_on(principal, "view", *each.split("/", 1))]
    return {**document, "status": {**status, "usedBy": used_by}}


def _owner(principal: Principal) -> dict[str, str]:
    return {OWNER_HEADER: _quoted(principal.name)}


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _object(raw: bytes) -> Json:
    try:
        body = None if has_too_many_values(raw) else json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise ApiError(400, "invalid", "the body is no JSON object")
    return body


def _response(status: int, document: Json, etag: str | None = None) -> Response:
    headers = {**HEADERS, **({} if etag is None else {"etag": etag})}
    return Response(json.dumps(document).encode(), status, headers, media_type="application/json")
