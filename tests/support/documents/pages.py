"""The pages of the documentation, and the folder in which a reader of each one sits.

Knows which files are pages, what a reader has prepared, and what stands in a page for something of the reader's own:
ports, the path of a copy of Pallas, the control socket of a system service. Runs nothing.
"""

from __future__ import annotations

import enum
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.documents.examples import copy_example
from support.ports import free_ports
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping


class Folder(enum.Enum):
    """Where the reader of a page is."""

    EMPTY = "nothing in it"
    PROJECT = "a fast-agent project"
    QUICKSTART = "a copy of the quickstart"
    RUNNING = "a copy of the quickstart, which runs; all such pages share it"


READERS: Mapping[str, Folder] = {
    "docs/getting-started.md": Folder.EMPTY,
    "docs/conversations.md": Folder.QUICKSTART,
    "docs/gateway.md": Folder.QUICKSTART,
    "docs/installation.md": Folder.EMPTY,
    "docs/projects.md": Folder.PROJECT,
    "docs/running.md": Folder.QUICKSTART,
    "examples/quickstart/README.md": Folder.RUNNING,
    "docs/chat-completions.md": Folder.RUNNING,
    "docs/check.md": Folder.RUNNING,
    "docs/control-api.md": Folder.RUNNING,
    "docs/logs.md": Folder.RUNNING,
    "docs/operation.md": Folder.RUNNING,
    "docs/resources.md": Folder.RUNNING,
    "docs/talking.md": Folder.RUNNING,
}
"""Pages with commands. Those of the other examples need programs of others: tests/real/test_examples.py."""

_INSTALLATION = re.compile(r"^(\S*pip) install -c (\S+)/constraints\.txt (\S+)$", re.MULTILINE)
_INIT = re.compile(r"^(?:\S*/)?pallas init$", re.MULTILINE)

_PROJECT = {
    "weather-agent.py": """\
import asyncio

from fast_agent import FastAgent

fast = FastAgent("Weather")


@fast.agent(name="weather", instruction="You are a weather forecaster.")
async def main():
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
""",
    "planner/__init__.py": "",
    "planner/app.py": """\
from fast_agent import FastAgent

app = FastAgent("Planner")


@app.agent(name="planner", instruction="You plan trips.", servers=["weather"])
async def planner(): ...
""",
    "cards/hotels.md": "---\ntype: agent\nname: hotels\ndescription: Books hotels\n---\nYou book hotels.\n",
    "fastagent.config.yaml": """\
default_model: passthrough
mcp:
  servers:
    weather:
      transport: http
      url: http://localhost:8005/mcp
""",
}
"""The project of which docs/projects.md speaks."""


def pages() -> list[str]:
    """The pages whose blocks are looked at, relative to the repository."""
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "systemd/README.md",
        ROOT / "deploy/README.md",
    ]
    found += [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]
    return [str(path.relative_to(ROOT)) for path in found]


def prepare(folder: Folder, path: Path) -> dict[str, str]:
    """Make the folder of a reader; returns port of the page → port that is used in its place."""
    if folder in {Folder.QUICKSTART, Folder.RUNNING}:
        return copy_example("quickstart", path)[1]
    path.mkdir(parents=True)
    for name, text in _PROJECT.items() if folder is Folder.PROJECT else ():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(text)
    proposed = ["8005", *(str(port) for port in range(24200, 24220))]
    return dict(zip(proposed, map(str, free_ports(len(proposed))), strict=True))


def as_read(command: str, ports: Mapping[str, str], socket: Path) -> str:
    """A block of commands with what is the reader's own, printing on stdout what it prints on either stream.

    The installation of Pallas is done by `install_pallas`; the agents of a project get the ports of `ports`.
    """
    text = _INSTALLATION.sub(r"install_pallas \1 \2 \3", command)
    text = text.replace("/path/to/pallas", shlex.quote(str(ROOT))).replace(
        "/run/pallas/control.sock", str(socket)
    )
    text = re.sub(r"\b\d{4,5}\b", lambda match: ports.get(match[0], match[0]), text)
    if _INIT.search(text):
        others = "; ".join(rf"s/\b{port}\b/{other}/g" for port, other in ports.items())
        text += f"sed -i {shlex.quote(others)} agents.yaml fastagent.config.yaml\n"
    return f"{{\n{text}}} 2>&1\n"


def expected(text: str, ports: Mapping[str, str]) -> str:
    """What a page says is printed; ports vary."""
    return re.sub(r"\b\d{4,5}\b", lambda match: "…" if match[0] in ports else match[0], text)


INSTALL = f"""\
install_pallas() {{
    test -f "$2/constraints.txt"
    test -f "$3/pyproject.toml"
    local folder name
    folder=$(dirname "$(command -v "$1")")
    test -x "$folder/python"
    for name in pallas pallasctl; do
        printf '#!/bin/sh\\nexec {Path(sys.executable).parent}/%s "$@"\\n' $name > "$folder/$name"
        chmod +x "$folder/$name"
    done
}}
"""
"""Puts the commands of the tests' environment into another one: what `pip install` of Pallas would make of it.

That it does is what tests/system/test_package.py and tests/real show.
"""
