"""`/v1/resources` of the control API: what is declared, shown and changed.

Knows Starlette, and bodies of JSON and YAML; what they mean is computed in `agents.changes`, documents are made in
`agents.description`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from starlette.responses import JSONResponse, Response

from pallas_common.http.json_bounds import parse_json
from pallas_common.logs.setup import get_logger
from pallas_common.problems import counted, shortened
from pallas_registry.resources.changes import ABSENT, AppliedFile
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.model import KINDS, NETWORKS, Kind, Network, ResourceId
from pallas_supervisor.agents.description.resources import UnknownResourceError, kind_of
from pallas_supervisor.http.control.requests import BadRequestError, parse_switch, read_bytes, take_flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from pallas_common.problems import Problem
    from pallas_common.secrets.values import KnownSecrets
    from pallas_registry.resources.changes import Outcome
    from pallas_supervisor.agents.changes.apply import Applying
    from pallas_supervisor.agents.description.resources import ResourceDescriptions
    from pallas_supervisor.reload.drift import Drift

MAX_APPLY = 16 * 1024 * 1024
"""Bytes of the body of an apply."""
MOST_FILES = 10_000
MOST_DELETED = 10_000
"""Resources that one request deletes."""
LONGEST_NAME = 4096
"""Characters of a file's name, which people are told."""

OWNER_HEADER = "Pallas-Owner"
"""For whom a change is asked for, percent-encoded; whose a new resource is."""
LONGEST_OWNER = 200
NETWORK_HEADER = "Pallas-Network"
"""Beside that, whether they may say that something leads to this machine: `open` or `closed`."""

_BODY = (
    '{"files": [{"file": name, "text": text}], "dry_run": true or false, "prune": true or false}, '
    'or {"delete": ["KIND/NAME"], "dry_run": true or false}'
)
_THE_BODY = "the request"
"""What the one document of a request is called in problems."""

_log = get_logger("pallas.supervisor.control")


@dataclass(frozen=True, slots=True)
class ResourceRoutes:
    """Answers with resources, and changes them."""

    _applying: Applying
    _descriptions: ResourceDescriptions
    _drift: Drift
    _secrets: KnownSecrets
    """What no problem may quote: a value that somebody has written where none belongs."""

    async def list(self, request: Request) -> Response:
        """All resources of a kind."""
        kind = _kind(request)
        await self._drift.look()
        return JSONResponse({"items": self._descriptions.all(kind)})

    async def get(self, request: Request) -> Response:
        """One resource."""
        resource = self._named(request)
        await self._drift.look()
        return self._document(resource)

    async def apply(self, request: Request) -> Response:
        """Apply files, or delete several resources."""
        raw = await read_bytes(request, MAX_APPLY)
        body = await asyncio.to_thread(_parse_apply, raw)
        if body.delete is not None:
            return await self._delete_all(request, body.delete, dry_run=body.dry_run)
        _note(
            request,
            f"apply of {counted(len(body.files), 'file')}" + (" as a dry run" if body.dry_run else ""),
        )
        # Shielded: a client that goes away must not leave the change half done.
        changes = await asyncio.shield(
            self._applying.apply(
                body.files,
                _owner(request),
                network=_network(request),
                dry_run=body.dry_run,
                prune=body.prune,
            )
        )
        return JSONResponse(
            {
                "dry_run": body.dry_run,
                "results": [self._outcome(each) for each in changes.outcomes],
                "problems": self._said(changes.problems),
            }
        )

    async def put(self, request: Request) -> Response:
        """Create or change one resource."""
        resource = ResourceId(_kind(request), request.path_params["name"])
        dry_run = _dry_run(request)
        raw = await read_bytes(request, MAX_APPLY)
        file = await asyncio.to_thread(_read, _THE_BODY, raw)
        if file.problems:
            return self._refused(f"{resource} is refused", file.problems, 422)
        if [each.id for each in file.resources] != [resource]:
            given = ", ".join(str(each.id) for each in file.resources[:5]) or "nothing"
            raise BadRequestError(f"the body describes {given}; describe {resource} and nothing else")
        if request.headers.get("if-match", "").strip() == "*":
            self._named(request)  # `*` is for what is there
        if (version := _wanted_version(request)) is not None:
            file = AppliedFile(
                name=file.name, resources=file.resources, versions={resource: version}, is_conditional=True
            )
        _note(request, f"put of {resource}")
        changes = await asyncio.shield(
            self._applying.apply([file], _owner(request), network=_network(request), dry_run=dry_run)
        )
        [outcome] = changes.outcomes
        if outcome.word == "refused":
            return self._refusal(outcome)
        if dry_run:
            return JSONResponse({"dry_run": True, "results": [self._outcome(outcome)], "problems": []})
        return self._document(resource, 201 if outcome.word == "created" else 200)

    async def delete(self, request: Request) -> Response:
        """Delete one resource."""
        resource = self._named(request)
        _note(request, f"delete of {resource}")
        version = _wanted_version(request)
        versions = {} if version is None else {resource: version}
        changes = await asyncio.shield(self._applying.delete([resource], _owner(request), versions))
        if changes.outcomes[0].word == "missing":  # meanwhile
            raise UnknownResourceError(f"there is no {resource.kind} {resource.name!r} any more")
        if changes.outcomes[0].word == "refused":
            return self._refusal(changes.outcomes[0])
        return JSONResponse({"results": [self._outcome(each) for each in changes.outcomes], "problems": []})

    async def _delete_all(
        self, request: Request, resources: Sequence[ResourceId], *, dry_run: bool
    ) -> Response:
        what = f"delete of {counted(len(resources), 'resource')}"
        _note(request, what + (" as a dry run" if dry_run else ""))
        changes = await asyncio.shield(
            self._applying.delete(self._descriptions.named(resources), _owner(request), dry_run=dry_run)
        )
        results = [self._outcome(each) for each in changes.outcomes]
        return JSONResponse({"dry_run": dry_run, "results": results, "problems": []})

    def _named(self, request: Request) -> ResourceId:
        return self._descriptions.resolve(_kind(request), request.path_params["name"])

    def _document(self, resource: ResourceId, status: int = 200) -> Response:
        document = self._descriptions.one(resource)
        version = self._descriptions.version(resource)
        return JSONResponse(document, status, {} if version is None else {"ETag": f'"{version}"'})

    def _outcome(self, outcome: Outcome) -> Mapping[str, Any]:
        return {
            "resource": str(outcome.resource),
            "outcome": outcome.word,
            "file": outcome.file,
            "problems": self._said(outcome.problems),
            **({"note": outcome.note} if outcome.note else {}),
        }

    def _refusal(self, outcome: Outcome) -> Response:
        status = 409 if outcome.reason == "conflict" else 422
        return self._refused(f"{outcome.resource} is refused", outcome.problems, status)

    def _refused(self, message: str, problems: Sequence[Problem], status: int) -> Response:
        said = self._said(problems)
        error = said[0] if len(said) == 1 else f"{message}: {len(said)} problems; nothing was changed"
        return JSONResponse({"error": error, "problems": said}, status)

    def _said(self, problems: Sequence[Problem]) -> Sequence[str]:
        return [self._secrets.strike(str(problem)) for problem in problems]


_TAG = re.compile(r'(?:W/)?"?([0-9a-f]{16})"?')


@dataclass(frozen=True, slots=True)
class _ApplyBody:
    files: Sequence[AppliedFile]
    dry_run: bool
    prune: bool
    delete: Sequence[ResourceId] | None = None
    """Resources to delete, in place of files to apply."""


def _parse_apply(raw: bytes) -> _ApplyBody:
    """The body of an apply, its files read; or of a deletion of several resources."""
    try:
        body = parse_json(raw) if raw else None
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is no JSON: {shortened(str(error), 200)}") from None
    if not isinstance(body, dict):
        raise BadRequestError(f"the body is {_BODY}")
    dry_run = take_flag(body, "dry_run")
    if isinstance(body.get("delete"), list) and len(body) == 1:
        return _ApplyBody((), dry_run, prune=False, delete=_to_delete(body["delete"]))
    prune = take_flag(body, "prune")
    files = body.pop("files", None)
    if body or not isinstance(files, list):
        raise BadRequestError(f"the body is {_BODY}")
    if len(files) > MOST_FILES:
        raise BadRequestError(f"`files` has {len(files)} entries, {MOST_FILES} are allowed")
    return _ApplyBody([_file(index, entry) for index, entry in enumerate(files)], dry_run, prune)


def _to_delete(entries: Sequence[object]) -> list[ResourceId]:
    if len(entries) > MOST_DELETED:
        raise BadRequestError(f"`delete` has {len(entries)} entries, {MOST_DELETED} are allowed")
    found = []
    for index, entry in enumerate(entries):
        kind, _, name = entry.partition("/") if isinstance(entry, str) else ("", "", "")
        known = kind_of(kind)
        if known is None or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            kinds = ", ".join(KINDS)
            raise BadRequestError(
                f"`delete[{index}]` is not KIND/NAME, such as agent/deployer; kinds are {kinds}"
            )
        found.append(ResourceId(known, name))
    return found


def _file(index: int, entry: object) -> AppliedFile:
    if not isinstance(entry, dict) or entry.keys() != {"file", "text"}:
        raise BadRequestError(f'`files[{index}]` is not {{"file": name, "text": text}}')
    name, text = entry["file"], entry["text"]
    if not isinstance(name, str) or not isinstance(text, str):
        raise BadRequestError(f"`files[{index}]`: `file` and `text` are texts")
    if not 0 < len(name) <= LONGEST_NAME:
        raise BadRequestError(f"`files[{index}]`: `file` has 1 to {LONGEST_NAME} characters")
    return _read(name, text.encode("utf-8", "surrogatepass"))


def _read(name: str, data: bytes) -> AppliedFile:
    read = read_resources(data, name)
    return AppliedFile(name=name, resources=read.resources, problems=read.problems, versions=read.versions)


def _kind(request: Request) -> Kind:
    word = request.path_params["kind"]
    if (kind := kind_of(word)) is None:
        raise UnknownResourceError(f"there is no kind {shortened(word)!r}; the kinds are {', '.join(KINDS)}")
    return kind


def _wanted_version(request: Request) -> str | None:
    """The `resourceVersion` of `If-Match`; `If-None-Match: *` is for what is not there (RFC 9110, section 13.1).

    Raises:
        BadRequestError: it is none.
    """
    if request.headers.get("if-none-match") == "*":
        return ABSENT
    given = request.headers.get("if-match", "*").strip()
    if given == "*":
        return None
    if (tag := _TAG.fullmatch(given)) is None:
        raise BadRequestError('If-Match: has to be `*` or one resourceVersion, as in "0123456789abcdef"')
    return tag[1]


def _dry_run(request: Request) -> bool:
    return parse_switch("dry_run", request.query_params.get("dry_run", "0"))


def _owner(request: Request) -> str:
    """Who applies it: the peer's user, or somebody for whom this asks, as the gateway does for those it knows.

    Raises:
        BadRequestError: nobody can be called so.
    """
    if (owner := request.headers.get(OWNER_HEADER)) is not None:
        owner = unquote(owner)
        if not 0 < len(owner) <= LONGEST_OWNER or not owner.isprintable():
            raise BadRequestError(f"{OWNER_HEADER}: has 1 to {LONGEST_OWNER} printable characters")
        return owner
    peer = getattr(request.state, "peer", None)
    return "nobody" if peer is None else peer.user


def _network(request: Request) -> Network:
    """What the peer itself asks for is open; what it asks for somebody else is so only where it says so.

    Raises:
        BadRequestError: it is neither.
    """
    said = request.headers.get(NETWORK_HEADER, "closed" if OWNER_HEADER in request.headers else "open")
    for network in NETWORKS:
        if said == network:
            return network
    raise BadRequestError(f"{NETWORK_HEADER}: is one of {', '.join(NETWORKS)}")


def _note(request: Request, what: str) -> None:
    _log.info(f"{shortened(what, 200)}, asked for by {getattr(request.state, 'peer', None) or 'somebody'}")
