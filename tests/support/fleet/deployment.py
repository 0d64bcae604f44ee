"""Writes a deployment into a folder: agents of a few kinds, on free loopback ports.

Knows the file formats; starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from support.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

PASSTHROUGH = """\
from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)


@fast.agent(name="{name}", model="passthrough", instruction="Repeat.", servers={servers!r})
async def agent() -> None:
    ...
"""

MODULES = {
    "passthrough": PASSTHROUGH,
    "default_model": PASSTHROUGH.replace('model="passthrough", ', ""),
    "does_not_import": "import nothing_that_exists\n",
    "without_fast": "slow = None\n",
    "exits_at_import": "raise SystemExit(3)\n",
    "shouts_at_import": "raise ValueError('x' * 50_000_000)\n",
    "crashes": "import os\nos._exit(9)\n",
    "hangs_at_import": "import threading\nthreading.Event().wait()\n",
}


@dataclass
class Deployment:
    """A folder with `agents.yaml`, modules and `fastagent.config.yaml`."""

    directory: Path
    document: dict[str, Any] = field(default_factory=dict)
    servers: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """More keys of `fastagent.config.yaml`."""

    @property
    def agents(self) -> dict[str, Any]:
        agents: dict[str, Any] = self.document["agents"]
        return agents

    @property
    def registry(self) -> str:
        return f"http://127.0.0.1:{self.document['registry_port']}"

    def url(self, agent: str) -> str:
        return f"http://127.0.0.1:{self.agents[agent]['port']}/mcp"

    def write(self) -> None:
        (self.directory / "agents.yaml").write_text(yaml.safe_dump(self.document, sort_keys=False))
        config: dict[str, Any] = {"logger": {"type": "none", "level": "info"}, "session_history": False}
        config |= self.settings
        if self.servers:
            config["mcp"] = {"servers": self.servers}
        (self.directory / "fastagent.config.yaml").write_text(yaml.safe_dump(config))

    def add(
        self, name: str, kind: str = "passthrough", *, servers: tuple[str, ...] = (), **fields: Any
    ) -> None:
        """Add an agent of a kind of `MODULES`; `fields` go into its entry of `agents.yaml`."""
        modules = self.directory / "agents"
        modules.mkdir(exist_ok=True)
        (modules / "__init__.py").touch()
        source = MODULES[kind].format(name=name, servers=list(servers))
        (modules / f"{name}.py").write_text(source)
        self.agents[name] = {"module": f"agents.{name}", "port": free_ports(1)[0], **fields}
        self.write()


def make_deployment(directory: Path, *names: str, **fields: Any) -> Deployment:
    """A deployment of passthrough agents; `fields` go into the head of `agents.yaml`."""
    directory.mkdir(exist_ok=True)
    document = {"name": "test-fleet", "registry_port": free_ports(1)[0], **fields, "agents": {}}
    deployment = Deployment(directory, document)
    deployment.write()
    for name in names:
        deployment.add(name)
    return deployment
