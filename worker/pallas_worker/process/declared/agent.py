"""A FastAgent with one agent, made from a definition: nothing that the definition does not say is given to it.

No shell, no skills, no files, and of the deployment's configuration no servers. The values of secrets are put in last,
into settings that are made already, so that no error of a parser can show one.

Knows definitions and fast-agent's public application; must not know how an agent is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fast_agent import FastAgent
from fast_agent.types import RequestParams

from pallas_worker.fastagent.application import settings_of
from pallas_worker.fastagent.declared.closed import keep_closed
from pallas_worker.fastagent.declared.models import use_models
from pallas_worker.fastagent.declared.prompts import inert, leave_prompts
from pallas_worker.process.declared.llms import declared_models
from pallas_worker.process.declared.servers import mcp_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.definition import AgentDefinition


def make_agent(name: str, definition: AgentDefinition, secrets: Mapping[str, str]) -> FastAgent:
    """The application whose only agent is called `name`. Changes this process: its models, prompts and connections.

    Args:
        secrets: `NAME/KEY` → value, of all that the definition refers to.

    Raises:
        AgentError: the definition is wrong; its text says which resource's field, and what to do.
    """
    fast = FastAgent(name, parse_cli_args=False)
    settings = settings_of(fast)
    settings.mcp = mcp_settings(definition.servers, secrets, settings.mcp)
    use_models(declared_models(definition, secrets))
    leave_prompts()
    keep_closed()

    @fast.agent(
        name=name,
        instruction=inert(definition.instruction),
        servers=[server.name for server in definition.servers],
        model=definition.model if definition.llm is None else definition.llm.name,
        skills=[],
        subagents=False,
        # fast-agent counts the rounds after the first one.
        request_params=RequestParams(max_iterations=definition.max_iterations - 1),
        default=True,
    )
    async def agent() -> None: ...

    return fast
