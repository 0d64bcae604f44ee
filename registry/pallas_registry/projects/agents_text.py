"""The text of a new agents.yaml, with comments that say what each line is for.

Pure. What comes from the project is quoted, and never ends a line.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_registry.projects.model import Entry, Proposal

MOST_OTHERS = 12
"""Names in one comment."""

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 .,()/_'-]|:(?=[A-Za-z0-9_]))*[A-Za-z0-9.)/_]|[A-Za-z]")
_OTHER_TYPES = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}

_WHY_REGISTRY = "http://localhost:{}/: status page, catalogue, /metrics, /health"
_HEAD = """\
# What is deployed: every agent becomes an MCP server of its own, in a process of its own.
# Written by `pallas init` from what it found; it is yours to change. `pallas check` finds mistakes,
# `pallas` starts the agents, `pallasctl reload` takes over a change. All keys: docs/configuration.md of Pallas.
"""


def agents_text(proposal: Proposal) -> str:
    """The content of agents.yaml, which ends with a line feed."""
    lines = [
        _HEAD,
        f"name: {scalar(proposal.name)} # of the deployment, in logs, metrics and on the status page",
        f"registry_port: {proposal.registry_port} # {_WHY_REGISTRY.format(proposal.registry_port)}",
        "",
        "agents:",
    ]
    for index, entry in enumerate(proposal.entries):
        lines += _entry(entry, explained=index == 0)
    if proposal.left_out:
        lines += ["# Found, and not served:", *(f"#   {comment(reason)}" for reason in proposal.left_out), ""]
    return "\n".join(lines).rstrip() + "\n"


def scalar(text: str) -> str:
    """A YAML scalar that is read as this text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _OTHER_TYPES:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def comment(text: str) -> str:
    """The text as a part of one comment line."""
    return "".join(each if each.isprintable() else "?" for each in text)[:300]


def _entry(entry: Entry, *, explained: bool) -> Iterator[str]:
    def line(key: str, value: str, why: str = "") -> str:
        return f"    {key}: {value}{f' # {comment(why)}' if why and explained else ''}"

    source = entry.source
    yield f"  {scalar(entry.name)}:{f' # {_why_name(entry)}' if explained else ''}"
    yield line(source.key, scalar(source.value), _why_source(entry))
    yield line("port", str(entry.port), f"MCP clients connect to http://localhost:{entry.port}/mcp")
    yield line("title", scalar(entry.title), "for people: status page and catalogue")
    if entry.description != entry.title:
        yield line("description", scalar(entry.description))
    if entry.depends_on:
        yield f"    depends_on: [{', '.join(map(scalar, entry.depends_on))}] # started before it, stopped after it"
    for remark in entry.remarks:
        yield f"    # {comment(remark)}"
    if others := entry.others:
        more = ", …" if len(others) > MOST_OTHERS else ""
        names = ", ".join(others[:MOST_OTHERS])
        yield f"    # also defined there, each served by an entry of its name: {comment(names)}{more}"
    yield ""


def _why_name(entry: Entry) -> str:
    if entry.source.free_name:
        return "the name of its MCP tool; any name will do"
    return "the name of its MCP tool; and which of the source's agents is served"


def _why_source(entry: Entry) -> str:
    value = entry.source.value
    if entry.source.key == "card":
        return "a folder of agent cards" if value.endswith("/") else "an agent card"
    path, _, name = value.partition(":")
    kind = "Python file" if path.endswith(".py") else "Python module"
    if name.endswith("()"):
        return f"{kind}, and the function that returns its FastAgent"
    return f"{kind} with the FastAgent `{name or 'fast'}`"
