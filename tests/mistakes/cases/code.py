"""Mistakes in agents' code, cards and what they name: each an agent of one deployment, which is checked and started."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mistakes.cases.parts import FAST, agent

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class BadAgent:
    """An agent, by the lines of its entry in agents.yaml and its files; `{}` is its name in both."""

    entry: str = "module: agents.{}"
    source: str | None = None
    """Of `agents/<name>.py`."""
    files: Mapping[str, str] = field(default_factory=dict)


def _card(text: str, **files: str) -> BadAgent:
    return BadAgent(entry="card: cards/{}.md", files={"cards/{}.md": text, **files})


AGENTS: Mapping[str, BadAgent] = {
    "syntax_error": BadAgent(source=f"{FAST}def help(:\n    pass\n"),
    "raises": BadAgent(source=f"{FAST}settings = {{}}\nregion = settings['region']\n"),
    "endless_loop": BadAgent(
        source=f"{FAST}while True:\n    pass\n", entry="module: agents.{}\n    start_timeout: 4"
    ),
    "no_fastagent": BadAgent(source="print('hello')\n"),
    "two_fastagents": BadAgent(
        source=agent("two_fastagents").replace("fast", "one").replace("one_agent", "fast_agent")
        + '\n\ntwo = FastAgent("two")\n'
    ),
    "not_a_fastagent": BadAgent(source='fast = "an agent"\n'),
    "missing_instance": BadAgent(source=agent("missing_instance"), entry="module: agents.{}:app"),
    "factory_arguments": BadAgent(
        source="def create(model):\n    pass\n", entry="module: agents.{}:create()"
    ),
    "factory_fails": BadAgent(
        source="def create():\n    raise RuntimeError('no database')\n", entry="module: agents.{}:create()"
    ),
    "factory_returns": BadAgent(source="def create():\n    return 7\n", entry="module: agents.{}:create()"),
    "no_agent_defined": BadAgent(source=FAST),
    "other_name": BadAgent(
        source=agent("x") + '\n\n@fast.agent(name="y", instruction="Help.")\nasync def y() -> None: ...\n'
    ),
    "ends_itself": BadAgent(source=f"{FAST}import os\n\nos._exit(3)\n"),
    "exits": BadAgent(source=f"{FAST}raise SystemExit(3)\n"),
    "inside_main": BadAgent(
        source="def main() -> None:\n    from fast_agent import FastAgent\n\n    fast = FastAgent('x')\n"
    ),
    "missing_package": BadAgent(source="import pandaz\n\n" + agent("missing_package")),
    "module_beside": BadAgent(source="import helper\n", files={"agents/helper.py": ""}),
    "missing_helper": BadAgent(source="import agents.nothing\n"),
    "missing_module": BadAgent(entry="module: agents.nowhere"),
    "old_import": BadAgent(
        source=agent("old_import").replace("fast_agent import", "mcp_agent.core.fastagent import")
    ),
    "unknown_model": BadAgent(source=agent("unknown_model", model="gtp-4.1")),
    "unknown_provider": BadAgent(source=agent("unknown_provider", model="opnai.gpt-4.1")),
    "no_key": BadAgent(source=agent("no_key", model="openai.gpt-4.1")),
    "no_key_anthropic": BadAgent(source=agent("no_key_anthropic", model="anthropic.claude-sonnet-4-5")),
    "unknown_server": BadAgent(source=agent("unknown_server", servers=["fetsh"])),
    "header_variable": BadAgent(source=agent("header_variable", servers=["web"])),
    "missing_command": BadAgent(source=agent("missing_command", servers=["local"])),
    "unknown_child": BadAgent(source=agent("unknown_child", agents=["nobody"])),
    "bad_option": BadAgent(source=agent("bad_option", instrution="Help.")),
    "card_yaml": _card("---\nname: [card_yaml\n---\nHelp.\n"),
    "card_type": _card("---\ntype: robot\nname: card_type\n---\nHelp.\n"),
    "card_child": _card("---\nname: card_child\nagents: [nobody]\n---\nHelp.\n"),
    "card_tool_file": _card("---\nname: card_tool_file\nfunction_tools: [tools.py:add]\n---\nHelp.\n"),
    "card_unknown_key": _card("---\nname: card_unknown_key\ninstrution: Help.\n---\nHelp.\n"),
    "no_pallas_there": BadAgent(
        source=agent("no_pallas_there"),
        entry="module: agents.{}\n    python: other/python",
        files={"other/python": f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n'},
    ),
    "file_that_raises": BadAgent(
        entry="module: agents/file-that-raises.py", files={"agents/file-that-raises.py": "1 / 0\n"}
    ),
    "out_of_memory": BadAgent(
        source=f"{FAST}data = bytearray(4 << 30)\n", entry="module: agents.{}\n    memory_limit: 300MiB"
    ),
}

SETTINGS = """\
default_model: passthrough
mcp:
  servers:
    fetch: {command: no-such-command}
    local: {command: no-such-command}
    web:
      url: http://127.0.0.1:8259/mcp
      headers: {Authorization: "Bearer ${WEB_TOKEN}"}
"""


def files() -> dict[str, str]:
    """The deployment with all of them, and one agent that is good."""
    made = {
        "agents.yaml": "name: demo\nregistry_port: 8200\ndefaults:\n  max_failures: 1\nagents:\n"
        "  good:\n    module: agents.good\n    port: 8201\n",
        "fastagent.config.yaml": SETTINGS,
        "agents/__init__.py": "",
        "agents/good.py": agent("good"),
    }
    for number, (name, bad) in enumerate(AGENTS.items(), 8202):
        made["agents.yaml"] += f"  {name}:\n    {bad.entry.format(name)}\n    port: {number}\n"
        if bad.source is not None:
            made[f"agents/{name}.py"] = bad.source
        made |= {path.format(name): text for path, text in bad.files.items()}
    return made
