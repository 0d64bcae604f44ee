"""`ask_agent`: one question to an agent, by itself or in the thread that a session names.

It may take as long as the agent takes; its caller hears of progress meanwhile, and takes the turn with it on leaving.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import httpx
from opentelemetry import trace

from pallas_common.protocol.agent.incomplete import SENTENCES, read_reason
from pallas_control.errors import ControlError
from pallas_gateway.conversations.errors import BusyError, NoSuchThreadError, RequestError, TurnFailedError
from pallas_gateway.conversations.worker import dumped, way_to
from pallas_gateway.mcp.errors import TENANT_NOT_FOUND
from pallas_gateway.mcp.surface import McpError
from pallas_gateway.relay.http.errors import RelayError
from pallas_gateway.servers.management.arguments import ToolError, for_clients
from pallas_gateway.servers.management.content.documents import parse_agent_uri
from pallas_gateway.servers.management.context import no_such_agent
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pallas_common.protocol.agent.incomplete import Reason
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.servers.management.context import Call

type Json = dict[str, Any]

PROGRESS_INTERVAL = 5.0
"""Seconds between two notifications of progress."""
_FORBIDDEN = 403
_ARGUMENTS = {"message": "prompt", "modelOverride": "model"}
"""Field of the REST API → argument here."""
_WORD = re.compile(r"[a-z][a-z0-9_]{0,99}")


class _Answer(NamedTuple):
    text: str
    model: str | None
    """That had the last word, as far as the worker tells."""
    reason: Reason | None
    """Why it is not a whole one; None where it is."""


async def ask_agent(call: Call, arguments: Mapping[str, Any]) -> Json:
    """The answer of an agent: `status`, `response`, `trace_id`, `model`."""
    check_identity(call.principal, arguments)
    owner, name = parse_agent_uri(arguments.get("agent_uri") or arguments["name"])
    record = call.agent(name, "run")
    if owner is not None and owner != record.owner:
        raise no_such_agent(name)
    if arguments.get("session_id"):
        answer = await _asked_in_session(call, record, arguments)
    else:
        async with _progress(call):
            answer = await _asked(call, record, arguments)
    ending = {"status": "success"}
    if answer.reason is not None:
        ending = {"status": "incomplete", "reason": answer.reason, "message": SENTENCES[answer.reason]}
    structures = record.output_schema is not None and answer.reason is None
    return {
        **ending,
        "response": _structured(answer.text) if structures else {"answer": answer.text},
        "trace_id": trace_id(call),
        "model": answer.model or record.model or await _served_model(call, record),
    }


def check_identity(principal: Principal, arguments: Mapping[str, Any]) -> None:
    """Whether `tenant_id` and `user_id`, where they are given, are the token's.

    Raises:
        McpError: the tenant is another one.
        ToolError: the user is.
    """
    tenant, user = arguments.get("tenant_id"), arguments.get("user_id")
    if tenant is not None and tenant != principal.tenant:
        raise McpError(
            TENANT_NOT_FOUND,
            "`tenant_id`: is not the tenant of this token; leave it out",
            {"type": "tenant_not_found", "field": "tenant_id"},
        )
    if user is not None and user not in (principal.name, principal.id):
        raise ToolError(
            "invalid_argument", "`user_id`: is not the user of this token; leave it out", field="user_id"
        )


def trace_id(call: Call) -> str:
    """By which log and traces have the call."""
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else call.request.request_id


async def _asked(call: Call, record: AgentRecord, arguments: Mapping[str, Any]) -> _Answer:
    """By itself: the agent remembers nothing."""
    body: Json = {
        "model": record.name,
        "messages": [{"role": "user", "content": arguments["prompt"]}],
    }
    if model := arguments.get("model"):
        body["model_override"] = model
    status, answer = await _complete(call, record, body, with_key=bool(model))
    if status == _FORBIDDEN and model:  # replaced meanwhile
        status, answer = await _complete(call, record, body, with_key=True, anew=True)
    if status != httpx.codes.OK:
        raise _failure(status, answer, call.context.project_directory)
    told = answer.get("pallas")
    reason = read_reason(told.get("reason")) if isinstance(told, dict) else None
    return _Answer(_text_of(answer), _model_of(answer), reason)


async def _complete(
    call: Call, record: AgentRecord, body: Json, *, with_key: bool, anew: bool = False
) -> tuple[int, Json]:
    """Status and JSON of a chat completion. Whoever is cancelled here ends the turn."""
    headers = {"X-Request-Id": call.request.request_id}
    try:
        upstream = await way_to(call.directory, record.name, with_key=with_key, anew=anew)
        response = await call.context.chats.post(upstream, dumped(body), headers, with_key=with_key)
    except TurnFailedError as error:
        raise ToolError(error.type, str(error)) from None
    except RelayError as error:
        raise ToolError("agent_unreachable", f"the agent cannot be reached: {error}") from None
    try:
        found = json.loads(response.body or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ToolError("agent_failed", f"the agent answered no JSON object (HTTP status {response.status})")
    return response.status, found


async def _asked_in_session(call: Call, record: AgentRecord, arguments: Mapping[str, Any]) -> _Answer:
    """In the caller's thread of that name, which the first call makes."""
    session = arguments["session_id"]
    body = {"message": arguments["prompt"], "onBusy": "wait", "modelOverride": arguments.get("model")}
    threads = call.context.threads
    try:
        thread = await threads.of_session(call.principal, record, session)
        _, result = await threads.run(call.request, record, body, thread, session=session)
    except RequestError as error:
        field = _ARGUMENTS.get(error.field, error.field)
        raise ToolError("invalid_argument", str(error).replace(error.field, field, 1), field=field) from None
    except (BusyError, NoSuchThreadError) as error:
        raise ToolError("thread_busy", str(error)) from None
    except TurnFailedError as error:
        raise ToolError(error.type, for_clients(str(error), call.context.project_directory, {})) from None
    except StoreError as error:
        raise ToolError(error.type, str(error)) from None
    return _Answer(result.content, result.model, result.reason)


@contextlib.asynccontextmanager
async def _progress(call: Call) -> AsyncIterator[None]:
    """Tells the caller every now and then that the agent works, if the caller wants to know."""
    meta = call.request.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if not isinstance(token, str | int) or isinstance(token, bool):
        yield
        return

    async def tell() -> None:
        seconds = 0.0
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            seconds += PROGRESS_INTERVAL
            params = {"progressToken": token, "progress": seconds, "message": "the agent works"}
            await call.request.notify(
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            )

    task = asyncio.create_task(tell(), name="progress")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _text_of(answer: Json) -> str:
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        content = None
    if content is not None and not isinstance(content, str):
        raise ToolError("agent_failed", "the agent's answer has no text")
    return content or ""


def _structured(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ToolError(
            "agent_failed", "the agent's answer is not the JSON that its schema asks for"
        ) from None


def _model_of(answer: Json) -> str | None:
    """The model that had the last word, as far as the worker tells."""
    told = answer.get("pallas")
    usage = told.get("usage") if isinstance(told, dict) else None
    if isinstance(usage, list) and usage and isinstance(usage[-1], dict):
        model = usage[-1].get("model")
        return model if isinstance(model, str) else None
    return None


async def _served_model(call: Call, record: AgentRecord) -> str | None:
    """The model of an agent's module or card, as the supervisor has heard it from the worker; None where it has not."""
    try:
        description = await call.context.control.get(f"/v1/agents/{quote(record.name, safe='')}")
    except ControlError:
        return None
    model = (description.get("served") or {}).get("model")
    return model if isinstance(model, str) else None


def _failure(status: int, answer: Json, directory: str | None) -> ToolError:
    """Why a worker, or the supervisor in the place of one that is not there, gives no answer."""
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    word = error.get("code") if isinstance(error, dict) else None
    if not isinstance(word, str) or _WORD.fullmatch(word) is None:  # the supervisor's is a number of JSON-RPC
        word = "agent_unavailable" if status == httpx.codes.SERVICE_UNAVAILABLE else "agent_failed"
    said = str(message or f"the agent answered with HTTP status {status}")[:2000]
    return ToolError(word, for_clients(said, directory, {}))
