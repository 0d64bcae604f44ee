"""`ask_agent`: one question to an agent, answered by its worker's chat completions.

It may take as long as the agent takes; its caller hears of progress meanwhile, and takes the turn with it on leaving.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
from opentelemetry import trace

from pallas_control.errors import ControlError
from pallas_gateway.mcp.errors import TENANT_NOT_FOUND
from pallas_gateway.mcp.surface import McpError
from pallas_gateway.servers.management.arguments import ToolError, for_clients
from pallas_gateway.servers.management.content.documents import parse_agent_uri
from pallas_gateway.servers.management.context import no_such_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pallas_common.protocol.gateway import AgentUpstream
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.servers.management.context import Call

type Json = dict[str, Any]

KEY_HEADER = "Pallas-Key"
PROGRESS_INTERVAL = 5.0
"""Seconds between two notifications of progress."""
CONNECT_TIMEOUT = 10.0
READY_TIMEOUT = 90.0
"""Seconds that an agent may take to start whose key is needed."""
_FORBIDDEN = 403
_WORD = re.compile(r"[a-z][a-z0-9_]{0,99}")


async def ask_agent(call: Call, arguments: Mapping[str, Any]) -> Json:
    """The answer of an agent: `status`, `response`, `trace_id`, `model`."""
    check_identity(call.principal, arguments)
    owner, name = parse_agent_uri(arguments.get("agent_uri") or arguments["name"])
    record = call.agent(name, "run")
    if owner is not None and owner != record.owner:
        raise no_such_agent(name)
    async with _progress(call):
        answer = await _asked(call, record, arguments)
    text = _text_of(answer)
    return {
        "status": "success",
        "response": _structured(text) if record.output_schema is not None else {"answer": text},
        "trace_id": trace_id(call),
        "model": _model_of(answer) or record.model or await _served_model(call, record),
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


async def _asked(call: Call, record: AgentRecord, arguments: Mapping[str, Any]) -> Json:
    body: Json = {
        "model": record.name,
        "messages": [{"role": "user", "content": arguments["prompt"]}],
    }
    if session := arguments.get("session_id"):
        body["metadata"] = {"conversation_id": session}
    if model := arguments.get("model"):
        body["model_override"] = model
    headers = {"X-Request-Id": call.request.request_id}
    upstream = await _upstream(call, record, with_key=bool(model))
    status, answer = await _complete(call, upstream, body, headers, with_key=bool(model))
    if status == _FORBIDDEN and model:
        upstream = await _upstream(call, record, with_key=True, anew=True)  # replaced meanwhile
        status, answer = await _complete(call, upstream, body, headers, with_key=True)
    if status != httpx.codes.OK:
        raise _failure(status, answer, call.context.project_directory)
    return answer


async def _complete(
    call: Call, upstream: AgentUpstream, body: Json, headers: Mapping[str, str], *, with_key: bool
) -> tuple[int, Json]:
    sent = dict(headers)
    if with_key and upstream.key is not None:
        sent[KEY_HEADER] = upstream.key
    return await call.context.workers.complete(upstream, body, sent)


async def _upstream(call: Call, record: AgentRecord, *, with_key: bool, anew: bool = False) -> AgentUpstream:
    """The way to the agent; with the key, for which there has to be a worker."""
    directory = call.directory
    if anew:
        await directory.refresh()
    upstream = await directory.upstream(record.name)
    if upstream is not None and with_key and upstream.key is None:
        try:
            await directory.client.post(
                "/v1/start",
                {"agents": [record.name], "timeout": READY_TIMEOUT},
                timeout=READY_TIMEOUT + CONNECT_TIMEOUT,
            )
        except ControlError as error:
            raise ToolError("agent_failed", f"the agent cannot be started: {error}") from None
        await directory.refresh()
        upstream = await directory.upstream(record.name)
    if upstream is None:
        raise ToolError(
            "agent_unreachable", directory.away or "the supervisor does not tell where the agent is called"
        )
    return upstream


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
