"""The tools of the management server, as a table: name, what it takes, arguments, handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_gateway.identity.grants import Permission
from pallas_gateway.servers.management import agents
from pallas_gateway.servers.management.arguments import AGENT_NAME, LONGEST_PROMPT, Schema, text, truth
from pallas_gateway.servers.management.asking import ask_agent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pallas_gateway.identity.grants import Verb
    from pallas_gateway.servers.management.context import Call

type Json = dict[str, Any]


class Tool(NamedTuple):
    """One tool. Who may use it with some agent has it in the list; with which, its handler asks."""

    name: str
    title: str
    description: str
    verb: Verb
    """On agents."""
    schema: Schema
    handler: Callable[[Call, Mapping[str, Any]], Awaitable[Json]]
    named_by: tuple[str, ...] = ("name",)
    """The arguments one of which says which agent, by name, uid or `agentlet` URI."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def permission(self) -> Permission:
        """What it takes, for all agents."""
        return Permission(self.verb, "agents")

    def document(self) -> Json:
        """As `tools/list` has it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema.document,
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.read_only,
                "destructiveHint": self.destructive,
                "idempotentHint": self.idempotent,
                "openWorldHint": self.verb == "run",
            },
        }


_SPEC: Json = {
    "type": "object",
    "description": "What `spec` of a declared agent says: description, llm or model, systemPrompt, servers, tools, "
    "outputSchema, defaultParams, project, run",
}
_TENANT = text("The tenant of the token; may be left out", 200)
_USER = text("The user of the token; may be left out", 300)

TOOLS: tuple[Tool, ...] = (
    Tool(
        "agents_list",
        "List agents",
        "All agents that you may view, with state, health, model and description.",
        "view",
        Schema({}),
        agents.agents_list,
        (),
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "agents_create",
        "Create an agent",
        "Declares a new agent. It is there at once, and starts when it is first called.",
        "create",
        Schema({"name": AGENT_NAME, "spec": _SPEC}, ("name", "spec")),
        agents.agents_create,
    ),
    Tool(
        "agents_update",
        "Change an agent",
        "Puts another spec in place of a declared agent's. Calls under way are finished by its old worker.",
        "edit",
        Schema(
            {
                "name": AGENT_NAME,
                "spec": _SPEC,
                "resource_version": text(
                    "Refuse where it is not this version any more", 16, pattern="^[0-9a-f]{16}$"
                ),
            },
            ("name", "spec"),
        ),
        agents.agents_update,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "agents_delete",
        "Delete an agent",
        "Deletes a declared agent, after its calls under way.",
        "delete",
        Schema({"name": AGENT_NAME}, ("name",)),
        agents.agents_delete,
        destructive=True,
    ),
    Tool(
        "agents_start",
        "Start an agent",
        "Starts an agent and what it depends on, and answers when it is ready.",
        "edit",
        Schema({"name": AGENT_NAME}, ("name",)),
        agents.agents_start,
        idempotent=True,
    ),
    Tool(
        "agents_stop",
        "Stop an agent",
        "Stops an agent after its calls under way; it refuses calls until it is started.",
        "edit",
        Schema(
            {"name": AGENT_NAME, "cascade": truth("Stop the agents that need it as well, before it")},
            ("name",),
        ),
        agents.agents_stop,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "agents_restart",
        "Restart an agent",
        "Puts a new worker in place of an agent's, without losing a call.",
        "edit",
        Schema({"name": AGENT_NAME, "now": truth("End the old worker before the new one starts")}, ("name",)),
        agents.agents_restart,
        destructive=True,
    ),
    Tool(
        "ask_agent",
        "Ask an agent",
        "Asks an agent one thing and answers with what it says; it may take minutes.",
        "run",
        Schema(
            {
                "agent_uri": text("The agent: its name, or `agentlet://…`", 500),
                "name": AGENT_NAME,
                "prompt": text("What to ask", LONGEST_PROMPT),
                "tenant_id": _TENANT,
                "user_id": _USER,
                "session_id": text(
                    "Your name for a conversation with the agent: begins it, or goes on with it. Without it the "
                    "agent remembers nothing",
                    200,
                ),
                "model": text("One of the agent's other models, to answer this time", 200),
            },
            ("prompt",),
            one_of=("agent_uri", "name"),
        ),
        ask_agent,
        ("agent_uri", "name"),
    ),
    Tool(
        "create_agent",
        "Create an agent from a prompt",
        "Creates an agent of yours from a system prompt and the JSON Schema of its answers.",
        "create",
        Schema(
            {
                "tenant_id": _TENANT,
                "user_id": _USER,
                "agent_name": text("The new agent's name", 64),
                "description": text("Its system prompt", LONGEST_PROMPT),
                "output_schema": {"type": "object", "description": "JSON Schema of its answers"},
                "tools": {
                    "type": "array",
                    "items": text("`server__tool`, with `*` and `?`", 200),
                    "maxItems": 1000,
                    "description": "MCP tools that it may use",
                },
            },
            ("agent_name", "description", "output_schema"),
        ),
        agents.create_agent,
        ("agent_name",),
    ),
)
"""All of them, in the order in which they are listed."""

BY_NAME = {tool.name: tool for tool in TOOLS}
