"""Files that several mistakes have in common."""

from __future__ import annotations

HEAD = """\
name: demo
registry_port: 8200
agents:
"""
GOOD = f"""\
{HEAD}  jarvis:
    module: agents.jarvis
    port: 8201
  research:
    module: agents.research
    port: 8202
"""
"""An agents.yaml in which nothing is wrong."""

FAST = 'from fast_agent import FastAgent\n\nfast = FastAgent("demo")\n\n\n'


def agent(name: str, **options: object) -> str:
    """A module with one agent."""
    given = "".join(f", {key}={value!r}" for key, value in options.items())
    return f'{FAST}@fast.agent(name="{name}", instruction="Help."{given})\nasync def main() -> None: ...\n'


SETTINGS = "default_model: passthrough\n"
PROJECT = {
    "agents.yaml": GOOD,
    "fastagent.config.yaml": SETTINGS,
    "agents/jarvis.py": agent("jarvis"),
    "agents/research.py": agent("research"),
}
"""A project in which nothing is wrong."""
