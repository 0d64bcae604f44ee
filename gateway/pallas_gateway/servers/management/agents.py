"""Tools that list, make, change, start and stop agents, each by the control API and within the principal's rights."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pallas_common.problems import did_you_mean, quoted
from pallas_control.errors import ControlError
from pallas_gateway.access.predicate import may, may_see_agent
from pallas_gateway.access.reading import named_in, shown, told
from pallas_gateway.access.writing import asked_for, lacking, may_on, permissions_on
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_gateway.servers.management.arguments import ToolError, field_in, for_clients
from pallas_gateway.servers.management.asking import check_identity
from pallas_gateway.servers.management.content.documents import (
    URI,
    agent_info,
    agent_record,
    agent_state,
)
from pallas_gateway.servers.management.context import no_such_agent
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.model import ResourceId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.grants import Verb
    from pallas_gateway.servers.management.context import Call

type Json = dict[str, Any]

WRITE_TIMEOUT = 120.0
"""Seconds that taking over a change may take: an agent that is removed ends first."""
VERB_TIMEOUT = 90.0
"""Seconds until an agent has to be what was asked for."""
LONGEST_DESCRIPTION = 100
MOST_PROBLEMS = 50
_OK = (200, 201)
_NAMED: Mapping[str, str] = {"metadata.name": "name"}
"""Fields of an agent's resource → arguments of the tools that are called otherwise."""
_NAMED_AT_CREATION: Mapping[str, str] = {
    "metadata.name": "agent_name",
    "spec.systemPrompt": "description",
    "spec.outputSchema": "output_schema",
    "spec.tools": "tools",
}
"""Likewise, of `create_agent`."""


async def agents_list(call: Call, _arguments: Mapping[str, Any]) -> Json:
    """All agents that the principal may view."""
    return {"agents": [agent_record(each) for each in call.visible_agents()]}


async def agents_create(call: Call, arguments: Mapping[str, Any]) -> Json:
    """A new agent."""
    await _put(call, arguments["name"], arguments["spec"], "create", {"If-None-Match": "*"})
    await _known(call, arguments["name"])
    return await _shown(call, arguments["name"])


async def agents_update(call: Call, arguments: Mapping[str, Any]) -> Json:
    """Another spec for an agent that is there."""
    record = call.agent(arguments["name"], "edit")
    version = arguments.get("resource_version")
    await _put(call, record.name, arguments["spec"], "edit", {"If-Match": f'"{version}"' if version else "*"})
    return await _shown(call, record.name)


async def agents_delete(call: Call, arguments: Mapping[str, Any]) -> Json:
    """An agent less."""
    record = call.agent(arguments["name"], "delete")
    _refuse_needed(call, record, "delete")
    await _write(call, "DELETE", record.name, None, {})
    await call.directory.until(lambda: record.name not in call.directory.agents)
    return {"status": "success", "deleted": record.name}


async def agents_start(call: Call, arguments: Mapping[str, Any]) -> Json:
    """An agent that runs, with what it depends on."""
    record = call.agent(arguments["name"], "edit")
    return await _verb(call, "start", [record.name], {})


async def agents_stop(call: Call, arguments: Mapping[str, Any]) -> Json:
    """An agent that does not run until it is started; with `cascade` those that need it first."""
    record = call.agent(arguments["name"], "edit")
    names = [record.name]
    if arguments.get("cascade"):
        needed = dependents(call.directory, record.name)
        if not all(_sees(call, name) for name in needed):
            raise ToolError("needed", "it is needed by an agent that you may not view: it is not stopped")
        # All are named, so that one that comes to need it meanwhile is not stopped unasked.
        names += [call.agent(name, "edit").name for name in needed]
    else:
        _refuse_needed(call, record, "stop")
    return await _verb(call, "stop", names, {})


async def agents_restart(call: Call, arguments: Mapping[str, Any]) -> Json:
    """A new worker in place of an agent's; with `now` the old one ends first."""
    record = call.agent(arguments["name"], "edit")
    return await _verb(call, "restart", [record.name], {"now": bool(arguments.get("now"))})


async def create_agent(call: Call, arguments: Mapping[str, Any]) -> Json:
    """A new agent from a system prompt and the schema of its answers."""
    check_identity(call.principal, arguments)
    name = arguments["agent_name"]
    prompt = arguments["description"]
    spec: Json = {"systemPrompt": prompt, "outputSchema": arguments["output_schema"]}
    if line := _first_line(prompt):
        spec["description"] = line
    if (tools := arguments.get("tools")) is not None:
        spec["tools"] = tools
        if servers := _servers_of(call, tools):
            spec["servers"] = servers
    await _put(call, name, spec, "create", {"If-None-Match": "*"}, _NAMED_AT_CREATION)
    await _known(call, name)
    return {
        "status": "success",
        "agent_uri": f"{URI}user/{quote(call.principal.name, safe='')}/{name}",
        "message": "Agent created successfully",
    }


def _servers_of(call: Call, tools: Sequence[str]) -> list[str]:
    """The servers that the tools of a new agent are of.

    Raises:
        ToolError: a tool is of no server: the agent would go without it, and nobody would know why.
    """

    def permission(server: str) -> Permission:
        return Permission("run", "resources", f"server/{server}")

    there = [name for name in call.directory.resources("server") if may(call.principal, permission(name))]
    found: dict[str, None] = {}
    for index, tool in enumerate(tools):
        server, named, _ = tool.partition("__")
        is_pattern = any(mark in server for mark in "*?[")
        # Asked before it is known whether there is one: the answer must not say so.
        if named and not is_pattern and not may(call.principal, permission(server)):
            raise InsufficientScopeError(permission(server))
        matching = [name for name in there if fnmatchcase(name, server)] if named or tool == "*" else []
        if not matching:
            near = did_you_mean(server, there)
            remedy = (
                f"did you mean {near}__…?" if near else "write server__tool, with a server that you may run"
            )
            message = f"`tools[{index}]`: {quoted(tool)} is a tool of no server that there is; {remedy}"
            raise ToolError("invalid_argument", message, field=f"tools.{index}")
        found |= dict.fromkeys(matching)
    return list(found)


async def _known(call: Call, name: str) -> None:
    """Wait until what has been created can be asked."""

    def is_known() -> bool:
        record = call.directory.agents.get(name)
        return record is not None and record.uid is not None

    await call.directory.until(is_known)


def _first_line(prompt: str) -> str | None:
    """The beginning of a prompt as one line."""
    text = "".join(each if each.isprintable() else " " for each in prompt.strip().partition("\n")[0])
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_DESCRIPTION else f"{line[: LONGEST_DESCRIPTION - 1].rstrip()}…"


async def _put(
    call: Call,
    name: str,
    spec: Json,
    verb: Verb,
    headers: Mapping[str, str],
    named: Mapping[str, str] = _NAMED,
) -> None:
    if not may_on(call.principal, verb, "agent", name):  # before anything is read that takes time
        raise InsufficientScopeError(permissions_on(verb, "agent", name)[0])
    document = {"apiVersion": "pallas/v1", "kind": "agent", "metadata": {"name": name}, "spec": spec}
    text = json.dumps(document).encode()
    read = await asyncio.to_thread(read_resources, text, "spec")
    if read.problems or len(read.resources) != 1:
        # It is a document of ours, on one line: there is no place in a file to name.
        said = [str(replace(each, file="", line=None)) for each in read.problems] or ["it cannot be used"]
        field = named.get(field_in(said[0], named) or "", "spec")
        problems = _said(call, said, named)
        raise ToolError("invalid_spec", problems[0], field=field, details=problems)
    if (permission := lacking(call.principal, verb, read.resources[0])) is not None:
        raise InsufficientScopeError(permission)
    await _write(call, "PUT", name, text, headers, named, named_in(read.resources))


async def _write(
    call: Call,
    method: str,
    name: str,
    content: bytes | None,
    headers: Mapping[str, str],
    named: Mapping[str, str] = _NAMED,
    known: Collection[ResourceId] = (),
) -> None:
    """Have the supervisor change the resource of an agent.

    Args:
        known: what the principal has named itself, besides.

    Raises:
        ToolError: it will not, or cannot be asked.
    """
    sent = {**headers, **asked_for(call.principal)}
    path = f"/v1/resources/agent/{quote(name, safe='')}"
    try:
        answer = await call.context.control.ask(
            method,
            path,
            content=content,
            headers=sent,
            content_type=None if content is None else "application/json",
            timeout=WRITE_TIMEOUT,
        )
    except ControlError as error:
        raise ToolError("supervisor_away", str(error)) from None
    if answer.status == 404:
        raise no_such_agent(name)
    if answer.status not in _OK:
        said = answer.document.get("error") or f"refused with HTTP status {answer.status}"
        known = {*known, ResourceId("agent", name)}
        [message] = _said(call, [_told(call, said, known)], named)
        found = [_told(call, each, known) for each in answer.document.get("problems") or ()]
        problems = _said(call, found, named)
        word = {409: "conflict", 422: "invalid_spec", 507: "not_kept"}
        raise ToolError(word.get(answer.status, "refused"), message, details=problems)


def _told(call: Call, said: object, known: Collection[ResourceId]) -> str:
    return told(call.principal, str(said), call.directory.agents, known)


def _said(call: Call, problems: Iterable[object], named: Mapping[str, str]) -> tuple[str, ...]:
    directory = call.context.project_directory
    return tuple(for_clients(str(each)[:1000], directory, named) for each in islice(problems, MOST_PROBLEMS))


async def _shown(call: Call, name: str) -> Json:
    """The agent as it is now; what the principal may not view is left out."""
    if not may_see_agent(call.principal, name):
        return {"status": "success", "agent": {"name": name}}
    try:
        resource = await call.context.control.get(f"/v1/resources/agent/{quote(name, safe='')}")
    except ControlError:
        return {"status": "success", "agent": {"name": name}}
    record = call.directory.record_of(name, resource)
    return {"status": "success", "agent": agent_info(record, shown(call.principal, resource))}


async def _verb(call: Call, verb: str, names: list[str], more: Json) -> Json:
    body = {"agents": names, "wait": True, "timeout": VERB_TIMEOUT, **more}
    try:
        answer = await call.context.control.ask(
            "POST",
            f"/v1/{verb}",
            content=json.dumps(body).encode(),
            content_type="application/json",
            timeout=VERB_TIMEOUT + 10.0,
        )
    except ControlError as error:
        raise ToolError("supervisor_away", str(error)) from None
    agents = [
        agent_state(call.directory.record_of(entry["name"], {"status": entry}))
        for entry in answer.document.get("agents") or ()
        if _sees(call, entry["name"])
    ]
    if answer.status in _OK and answer.document.get("done"):
        return {"status": "success", "agents": agents}
    said = answer.document.get("error") or "; ".join(
        f"{each['agent']} is {each['status']}: {each['message']}" for each in agents
    )
    known = {ResourceId("agent", name) for name in names}
    text = _told(call, said or f"{verb} was not done", known)
    message = for_clients(text[:2000], call.context.project_directory, {})
    raise ToolError("timed_out" if answer.status == 504 else "refused", message)


def _sees(call: Call, name: str) -> bool:
    return may_see_agent(call.principal, name) or may(call.principal, Permission("edit", "agents", name))


def dependents(directory: Directory, name: str) -> list[str]:
    """All agents that need this one, also by others."""
    agents = directory.agents
    found: dict[str, None] = {}
    new = [name]
    while new:
        need = new.pop()
        for other in agents.values():
            if need in other.depends_on and other.name not in found and other.name != name:
                found[other.name] = None
                new.append(other.name)
    return list(found)


def _refuse_needed(call: Call, record: AgentRecord, verb: str) -> None:
    """Refuse to take away what others need, without naming what the principal may not view."""
    running = [
        name
        for name in dependents(call.directory, record.name)
        if verb == "delete" or call.directory.agents[name].state != "stopped"
    ]
    if not running:
        return
    seen = [name for name in running if may_see_agent(call.principal, name)]
    who = ", ".join(seen[:5]) if seen else "an agent that you may not view"
    way = "`cascade` stops them as well" if verb == "stop" else "delete or change them first"
    raise ToolError("needed", f"{record.name} is needed by {who}: {way}")
