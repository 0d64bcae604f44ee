"""A first project for somebody who has none: two small agents that run without a model or a key.

Pure: texts by path. The agents are there to be replaced; the comments say by what.
"""

from __future__ import annotations

from pallas_registry.projects.code.facts import Definition, Source
from pallas_registry.projects.model import Entry, Proposal

_ASSISTANT = '''\
"""The agent that people talk to. It has the other one as an MCP server, like any other server."""

from fast_agent import FastAgent

fast = FastAgent("Assistant", parse_cli_args=False)


@fast.agent(
    name="assistant",
    instruction="You are a helpful assistant. Let the dates agent work out everything that has to do with dates.",
    servers=["dates"],  # mcp.servers in fastagent.config.yaml
)
async def assistant() -> None:
    """Pallas serves the agent; there is nothing to do here."""
'''

_DATES = '''\
"""An agent with a tool of its own: a Python function that its model may call."""

from datetime import date

from fast_agent import FastAgent

fast = FastAgent("Dates", parse_cli_args=False)


@fast.agent(
    name="dates",
    instruction="You answer questions about dates. Use your tool; do not calculate yourself.",
)
async def dates() -> None:
    """Pallas serves the agent; there is nothing to do here."""


@fast.tool
def days_between(first: str, second: str) -> str:
    """Returns the number of days from one date to another, both written as 2026-01-31."""
    days = (date.fromisoformat(second) - date.fromisoformat(first)).days
    return f"{days} days"
'''

_SETTINGS = """\
# How the agents think and whom they can reach. This file is fast-agent's own; Pallas reads it too.

# The model of every agent that names none. `passthrough` is a stand-in that needs no key and no network: it gives
# back what it is told. For a real model write one of these, and put its key into a file called .env, as in
# ANTHROPIC_API_KEY=… or OPENAI_API_KEY=…
#
#   default_model: anthropic.claude-sonnet-4-5
#   default_model: openai.gpt-5
#
default_model: passthrough

# MCP servers, by the names that agents use for them in `servers=[…]`. This one is an agent of agents.yaml.
mcp:
  servers:
    dates:
      transport: http
      url: http://localhost:{port}/mcp

# Agents served by Pallas keep no conversations: the client sends the history along with each message.
session_history: false

logger:
  type: none
  progress_display: false
"""

_IGNORED = """\
.env
fastagent.secrets.yaml
.venv/
__pycache__/
"""

SETTINGS_FILE = "fastagent.config.yaml"
OPTIONAL = (".gitignore", "agents/__init__.py")
"""Files that may be there already."""


def scaffold(proposal: Proposal, ports: tuple[int, int], *, has_settings: bool) -> dict[str, str]:
    """The files of a first project by path, without agents.yaml; their entries are added to the proposal.

    Args:
        proposal: of a folder without agents.
        ports: free ones.
        has_settings: whether there are fast-agent settings already; the agents are fewer then, and use those.
    """
    port, second = ports
    dates = _entry("dates", port, "Dates", "Works out how many days lie between two dates", ())
    files = {
        "agents/__init__.py": '"""The agents, one module each."""\n',
        "agents/dates.py": _DATES,
        ".gitignore": _IGNORED,
    }
    proposal.entries = [dates]
    if not has_settings:
        talks = "Talks with people, and asks the dates agent about dates"
        proposal.entries.insert(0, _entry("assistant", second, "Assistant", talks, ("dates",)))
        files["agents/assistant.py"] = _ASSISTANT
        files[SETTINGS_FILE] = _SETTINGS.format(port=port)
    return files


def _entry(name: str, port: int, title: str, description: str, depends_on: tuple[str, ...]) -> Entry:
    file = f"agents/{name}.py"
    definition = Definition(name=name, kind="agent", file=file, line=8)
    source = Source(
        key="module",
        value=f"agents.{name}",
        file=file,
        line=1,
        definitions=(definition,),
        served=definition,
        free_name=True,
    )
    return Entry(
        name=name, source=source, port=port, title=title, description=description, depends_on=depends_on
    )
