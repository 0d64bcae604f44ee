"""The methods of MCP that ask the surface something, for both eras: method and parameters in, a result out.

Knows surfaces, the event log and the audit; not HTTP. Checks the types of parameters, because a surface is passed what
a client sent.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import re
import time
from typing import TYPE_CHECKING, Any

from pallas_gateway.mcp import headers
from pallas_gateway.mcp.admitted import AuditedCall, AuditUnavailableError
from pallas_gateway.mcp.errors import INTERNAL_ERROR, INVALID_PARAMS, LIMIT_EXCEEDED, METHOD_NOT_FOUND
from pallas_gateway.mcp.surface import InsufficientScopeError, McpError, Relayed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from pallas_gateway.directory.events.log import EventLog
    from pallas_gateway.mcp.admitted import Audit, Outcome
    from pallas_gateway.mcp.surface import ClientRequest, Json, ListKind, Surface

PAGE = 500
"""Entries of a list that are sent at a time."""
LONGEST_NAME = 512
LONGEST_URI = 2048

META_SERVER = "io.modelcontextprotocol/serverInfo"

FRESH = {
    "server/discover": 60_000,
    "tools/list": 5_000,
    "prompts/list": 5_000,
    "resources/list": 5_000,
    "resources/templates/list": 5_000,
    "resources/read": 0,
}
"""Method → milliseconds for which its result may be kept, where nobody says more (2026-07-28, Caching). Only by who
asked: what is listed and read differs by principal."""

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Methods:
    """What is answered to each method.

    Args:
        log: what is read is remembered there, so that a later subscription misses nothing.
        audit: each call of a tool is written down there before it is answered.
    """

    def __init__(self, log: EventLog, audit: Audit) -> None:
        self._log = log
        self._audit = audit
        self._by_name: Mapping[str, Callable[[ClientRequest, Surface], Awaitable[Json | Relayed]]] = {
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
            "completion/complete": self._complete,
        }

    async def result(self, request: ClientRequest, surface: Surface) -> Json | Relayed:
        """The result of a request.

        Raises:
            McpError: it has none.
            InsufficientScopeError: the principal may not ask for it.
        """
        method = self._by_name.get(request.method)
        if method is None or not _is_offered(request.method, surface):
            raise no_such_method(request.method)
        return await method(request, surface)

    async def _call_tool(self, request: ClientRequest, surface: Surface) -> Json | Relayed:
        name = text_parameter(request.params, "name", LONGEST_NAME)
        arguments = request.params.get("arguments")
        if arguments is None:
            arguments = {}
        elif not isinstance(arguments, dict):
            raise McpError(INVALID_PARAMS, "params.arguments: has to be an object")
        if request.era == "stateless" and (schema := await surface.header_schema(name)) is not None:
            headers.check_parameters(request.headers, schema, arguments)
        audited = _Audited(self._audit, request, surface.audited(name, arguments), arguments)
        try:
            result = await surface.call_tool(name, arguments, request)
        except McpError as error:
            audited.end(outcome_of(error), error.code)
            raise
        except InsufficientScopeError:
            audited.end("denied")
            raise
        except asyncio.CancelledError:
            # What was begun is written down, even if its client has gone.
            audited.end("cancelled")
            raise
        except Exception:
            audited.end("error", INTERNAL_ERROR)
            raise
        if not isinstance(result, Relayed):
            audited.end("failed" if result.get("isError") is True else "ok", None, result)
        elif isinstance(result.body, bytes):
            audited.end("failed" if result.is_error else "ok", None, result.body)
        else:
            return dataclasses.replace(result, body=audited.through(result.body))
        return result

    async def _list_tools(self, request: ClientRequest, surface: Surface) -> Json:
        return self._page(
            request, "tools", await self._seen(request, surface, "tools", surface.tools), "name"
        )

    async def _list_prompts(self, request: ClientRequest, surface: Surface) -> Json:
        found = await self._seen(request, surface, "prompts", surface.prompts)
        return self._page(request, "prompts", found, "name")

    async def _list_resources(self, request: ClientRequest, surface: Surface) -> Json:
        found = await self._seen(request, surface, "resources", surface.resources)
        return self._page(request, "resources", found, "uri")

    async def _list_templates(self, request: ClientRequest, surface: Surface) -> Json:
        return self._page(request, "resourceTemplates", await surface.templates(), "uriTemplate")

    async def _seen(
        self,
        request: ClientRequest,
        surface: Surface,
        kind: ListKind,
        read: Callable[[], Awaitable[list[Json]]],
    ) -> list[Json]:
        """The list; it is remembered that the principal has seen it as it was when this began."""
        before = self._log.sequence
        found = await read()
        self._log.was_read(request.principal.id, surface.list_topic(kind), before)
        return found

    @staticmethod
    def _page(request: ClientRequest, member: str, found: list[Json], key: str) -> Json:
        """What follows the entry that the cursor names, so that changes before it move nothing."""
        begin = 0
        cursor = request.params.get("cursor")
        if cursor is not None:
            last = _read_cursor(cursor)
            begin = next((place for place, entry in enumerate(found, 1) if entry.get(key) == last), 0)
            if not begin:
                raise McpError(INVALID_PARAMS, "cursor: no such place in the list; begin again without one")
        page = found[begin : begin + PAGE]
        result: Json = {member: page}
        if begin + PAGE < len(found):
            result["nextCursor"] = base64.urlsafe_b64encode(str(page[-1][key]).encode()).decode()
        return result

    async def _get_prompt(self, request: ClientRequest, surface: Surface) -> Json | Relayed:
        name = text_parameter(request.params, "name", LONGEST_NAME)
        arguments = request.params.get("arguments")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict) or not all(isinstance(it, str) for it in arguments.values()):
            raise McpError(INVALID_PARAMS, "params.arguments: has to be an object of strings")
        return await surface.get_prompt(name, arguments, request)

    async def _read(self, request: ClientRequest, surface: Surface) -> Json | Relayed:
        uri = text_parameter(request.params, "uri", LONGEST_URI)
        before = self._log.sequence
        result = await surface.read(uri, request)
        for topic in surface.topics(uri):
            self._log.was_read(request.principal.id, topic, before)
        return result

    async def _complete(self, request: ClientRequest, surface: Surface) -> Json | Relayed:
        ref, argument = request.params.get("ref"), request.params.get("argument")
        if not isinstance(ref, dict) or ref.get("type") not in ("ref/prompt", "ref/resource"):
            raise McpError(INVALID_PARAMS, "params.ref: has to be a ref/prompt or a ref/resource")
        text_parameter(ref, "name" if ref["type"] == "ref/prompt" else "uri", LONGEST_URI)
        if not isinstance(argument, dict):
            raise McpError(INVALID_PARAMS, "params.argument: has to be an object")
        text_parameter(argument, "name", LONGEST_NAME)
        if not isinstance(argument.get("value"), str):
            raise McpError(INVALID_PARAMS, "params.argument.value: has to be a string")
        return await surface.complete(ref, argument, request)


class _Audited:
    """One call of a tool that is written down once, before the client has its answer.

    Raises:
        McpError: it could not be written down, so that it is not made.
    """

    def __init__(self, audit: Audit, request: ClientRequest, what: str, arguments: Mapping[str, Any]) -> None:
        try:
            self._begun = audit.begin(request, what)
        except AuditUnavailableError as error:
            raise _unaudited(error) from None
        self._audit = audit
        self._request = request
        self._what = what
        self._arguments = arguments
        self._began = time.perf_counter()
        self._ended = False

    def end(self, outcome: Outcome, code: int | None = None, result: Json | bytes | None = None) -> None:
        """Write down how it ended, once.

        Raises:
            McpError: it cannot be written.
        """
        if self._ended:
            return
        self._ended = True
        call = AuditedCall(
            request=self._request,
            what=self._what,
            arguments=self._arguments,
            outcome=outcome,
            code=code,
            duration=time.perf_counter() - self._began,
            result=result,
            begun=self._begun,
        )
        try:
            self._audit.called(call)
        except AuditUnavailableError as error:
            raise _unaudited(error) from None

    async def through(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces of a stream; the call is written down before the first that may be its answer."""
        try:
            async for piece in pieces:
                if not self._ended and not _NO_ANSWER.match(piece):
                    self.end(outcome_in(piece))
                yield piece
            self.end("ok")
        except McpError as error:
            self.end(outcome_of(error), error.code)
            raise
        finally:
            try:
                self.end("cancelled")
            finally:
                close = getattr(pieces, "aclose", None)
                if close is not None:
                    await close()


_NO_ANSWER = re.compile(
    rb"\s*(?:(?::|event|id|retry)[^\n]*\n\s*)*"
    rb"(?:data: ?\{[^{}\[\]]{0,200}?\"method\"\s*:\s*\"notifications/|data:\s*\n|\Z)"
)
"""The beginning of a piece of an event stream that is a notification, or says nothing."""
_FAILED = re.compile(rb'"isError"\s*:\s*true')
_ERROR = re.compile(rb'data: ?\{(?:"(?:jsonrpc|id)"\s*+:\s*+[^,{}\[\]]*+,\s*+)*+"error"\s*+:')
"""Possessive: what a server writes must not be looked through again and again."""


def outcome_in(piece: bytes) -> Outcome:
    """How a call ended whose answer begins with that piece, as far as one can see without reading it."""
    if _ERROR.search(piece):
        return "error"
    return "failed" if _FAILED.search(piece) else "ok"


def capabilities(surface: Surface) -> Json:
    """What a surface offers, in the words that both eras share."""
    offered: Json = {kind: {"listChanged": True} for kind in ("tools", "prompts") if kind in surface.lists}
    if "resources" in surface.lists:
        offered["resources"] = {"subscribe": True, "listChanged": True}
    if surface.completes:
        offered["completions"] = {}
    return offered


def discovered(surface: Surface) -> Json:
    """The result of `server/discover`."""
    result: Json = {
        "supportedVersions": list(headers.STATELESS_VERSIONS),
        "capabilities": capabilities(surface),
    }
    if surface.instructions:
        result["instructions"] = surface.instructions
    return result


def stateless_result(method: str, result: Json, surface: Surface) -> Json:
    """A result with what 2026-07-28 wants in each: its type, who answered, and how long it may be kept."""
    meta = result.get("_meta")
    stamped = {
        "resultType": "complete",
        **result,
        "_meta": {META_SERVER: surface.info, **(meta if isinstance(meta, dict) else {})},
    }
    if method in FRESH and stamped["resultType"] == "complete":
        stamped.setdefault("ttlMs", FRESH[method])
        stamped.setdefault("cacheScope", "private")
    return stamped


def named(request: ClientRequest) -> str | None:
    """Which tool, prompt or resource a request names, as far as it is one."""
    key = NAMED_BY.get(request.method)
    found = request.params.get(key) if key is not None else None
    return found[:LONGEST_URI] if isinstance(found, str) else None


def text_parameter(params: Mapping[str, Any], key: str, longest: int) -> str:
    """A parameter that has to be there.

    Raises:
        McpError: it is missing, no string, or too long.
    """
    value = params.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise McpError(INVALID_PARAMS, f"{key}: has to be a string of at most {longest} characters")
    return value


def no_such_method(method: str) -> McpError:
    """The error for a method that is not offered here."""
    return McpError(METHOD_NOT_FOUND, f"no such method here: {method}")


def outcome_of(error: McpError) -> Outcome:
    """How a request ended that was answered by an error."""
    return "limited" if error.code == LIMIT_EXCEEDED else "error"


def _is_offered(method: str, surface: Surface) -> bool:
    if method == "completion/complete":
        return surface.completes
    return method.partition("/")[0] in surface.lists


def _read_cursor(cursor: object) -> str:
    if not isinstance(cursor, str) or len(cursor) > 4 * LONGEST_URI:
        raise McpError(INVALID_PARAMS, "cursor: is none that was given here")
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except ValueError:
        raise McpError(INVALID_PARAMS, "cursor: is none that was given here") from None


def _unaudited(error: AuditUnavailableError) -> McpError:
    return McpError(INTERNAL_ERROR, f"what would have to be audited is refused: {error}", status=503)
