"""JSON Schemas (2020-12) that several operations share, and the words for what stands in paths. Pure."""

from __future__ import annotations

from typing import Any

from pallas_gateway.http.openapi.operations.conversation_schemas import CONVERSATION_SCHEMAS
from pallas_gateway.http.openapi.operations.shapes import moment, nullable, record, several, text

type Json = dict[str, Any]

TAGS = {
    "agents": "Agents: listed, declared, changed, deleted",
    "conversations": "Threads, their messages and turns",
    "completions": "OpenAI's API: every agent is a model",
    "resources": "All kinds of resources, as `pallasctl apply` has them",
    "tokens": "Tokens, for administrators",
    "audit": "The audit, for administrators",
    "document": "This document",
}

PLACES = {
    "agent": "Name of the agent, or its uid",
    "project": "Name of the project",
    "thread": "Id of the thread",
    "kind": "Kind of resource: agent, llm, secret, server or project; the plural, too",
    "name": "Name of the resource, or its uid",
    "token": "Id of the token",
    "model": "Name of the agent",
}


_THING: Json = {"type": "object"}
_TRUTH: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}

_REFERENCE: Json = {
    "description": "A name, `{name: …}` or `{id: …}`; a uid stands for the name, too",
    "anyOf": [{"type": "string"}, {"type": "object"}, {"type": "null"}],
}

AGENT_FIELDS: Json = {
    "description": nullable(text("What it is for; other models read it")),
    "systemPrompt": nullable(text("Its instruction")),
    "llm": nullable(text("Name of the llm that it uses, instead of `model`")),
    "model": nullable(text("`provider.name`: what is declared, or what its llm says")),
    "project": nullable(text("Name of its project, whose servers and prompts it has")),
    "proxyModelName": nullable(text("Kept and shown; does nothing")),
    "defaultParams": {
        **_THING,
        "description": "How its model is asked unless a call says otherwise; docs/parameters.md",
    },
    "extras": {**_THING, "description": "Kept and shown; does nothing"},
}

SCHEMAS: dict[str, Json] = {
    "Error": record(
        {
            "error": record(
                {
                    "type": text("One word for programs"),
                    "message": text("For people"),
                    "field": text("Of the request, where one is wrong"),
                },
                "field",
            )
        }
    ),
    "OpenAIError": record(
        {
            "error": record(
                {
                    "message": text("For people"),
                    "type": text(),
                    "param": nullable(text("Field of the request")),
                    "code": nullable({"type": "string", "description": "One word for programs"}),
                }
            )
        }
    ),
    "Agent": {
        **record(
            {
                "id": text("Uid, new at each creation; of an agent of agents.yaml its name"),
                "name": text(),
                **AGENT_FIELDS,
                "ownerId": nullable(text("Who declared it")),
                "version": nullable({"type": "integer", "description": "Counts changes"}),
                "createdAt": nullable(moment("")),
                "updatedAt": nullable(moment("")),
                "state": text("As in docs/states.md"),
                "health": text("`ok`, `degraded`, `error` or `unknown`"),
                "source": record(
                    {
                        "kind": text("`resource`, or what an agent of agents.yaml is made from"),
                        "file": text("That has it"),
                        "line": {"type": "integer"},
                    },
                    "file",
                    "line",
                ),
            }
        ),
        "description": "Further fields are those of the agent's `spec` that are set: docs/resources.md.",
    },
    "AgentBody": {
        "type": "object",
        "description": "Fields of an agent's `spec` (docs/resources.md), or all of it as `spec`; `null` takes one away",
        "properties": {
            "name": text("Required at creation"),
            **AGENT_FIELDS,
            "llm": _REFERENCE,
            "llmId": _REFERENCE,
            "project": _REFERENCE,
            "projectId": _REFERENCE,
            "spec": {**_THING, "description": "In place of all fields but the name"},
            "version": {"type": "integer", "description": "Refuse it with 409 if it is another by now"},
        },
    },
    **CONVERSATION_SCHEMAS,
    "Resource": {
        "type": "object",
        "description": "A resource as docs/resources.md has it: `apiVersion`, `kind`, `metadata`, `spec`, `status`",
    },
    "Token": record(
        {
            "id": text(),
            "name": text(),
            "role": text(enum=["human", "agent"]),
            "agent": nullable(text()),
            "tenant": text(),
            "grants": several(text()),
            "created": moment(""),
            "created_by": nullable(text()),
            "expires": nullable(moment("")),
            "revoked": nullable(moment("")),
            "last_used": nullable(moment("")),
            "rotated_from": nullable(text()),
        }
    ),
    "NewToken": {
        "allOf": [{"$ref": "#/components/schemas/Token"}],
        "type": "object",
        "properties": {"token": text("The token itself, shown this once")},
        "required": ["token"],
    },
    "AuditLine": {"type": "object", "description": "A line of the audit: docs/gateway.md"},
    "Model": record(
        {
            "id": text("Name of the agent"),
            "object": {"const": "model"},
            "created": {
                "type": "integer",
                "description": "Seconds since the epoch; 0 for agents of agents.yaml",
            },
            "owned_by": text(),
            "name": text("For people"),
            "description": text(),
        },
        "name",
        "description",
    ),
    "Completion": {
        "type": "object",
        "description": "OpenAI's chat completion, with an extra field `pallas`: docs/chat-completions.md",
    },
    "CompletionBody": {
        "type": "object",
        "description": "OpenAI's request, with the fields of docs/chat-completions.md besides",
        "properties": {
            "model": text("Name of an agent"),
            "messages": several(_THING),
            "stream": _TRUTH,
        },
        "required": ["model", "messages"],
    },
}
