"""A real agent of the A2A protocol on loopback, of its own SDK, that says what it was told.

Knows the A2A SDK's server; must not know anything of Pallas.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from a2a.helpers import new_text_message
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from fakes.loopback import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from a2a.server.agent_execution.context import RequestContext
    from a2a.server.events.event_queue import EventQueue


class _Echo(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(new_text_message(f"far away: {context.get_user_input()}"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """There is nothing that takes so long."""


@contextmanager
def run_a2a_agent(port: int) -> Iterator[str]:
    """Run the agent on a free port until the block ends; its address."""
    url = f"http://127.0.0.1:{port}"
    card = AgentCard(
        name="far",
        description="An agent on another machine.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="echo", description="Says it again", tags=["echo"])],
    )
    handler = DefaultRequestHandler(agent_executor=_Echo(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
    with serve(Starlette(routes=routes), port=port):
        yield url
