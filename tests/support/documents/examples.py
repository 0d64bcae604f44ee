"""Copies of the examples, on ports that are free."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import yaml

from support.fleet.deployment import Deployment
from support.ports import free_ports
from support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_NOT_COPIED = ("__pycache__", ".fast-agent", "servers", "environments", "*.pem", "token.conf")
_OTHERS = {"24199", "24200", "8443", "11434"}
"""Ports that no agent has: of the registry, a proxy, a model server."""


def copy_example(name: str, target: Path) -> tuple[Deployment, dict[str, str]]:
    """Copy an example to `target`, with other ports in all of its files, also in what its README says.

    Returns the deployment, and port → the port in its place.
    """
    source = ROOT / "examples" / name
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    files = [path for path in target.rglob("*") if path.suffix in {".yaml", ".conf", ".md"}]
    document = yaml.safe_load((target / "agents.yaml").read_text())
    used = {str(agent["port"]) for agent in document["agents"].values()} | _OTHERS
    ports = dict(zip(sorted(used), map(str, free_ports(len(used))), strict=True))
    for file in files:
        file.write_text(re.sub(r"\b\d{4,5}\b", lambda match: ports.get(match[0], match[0]), file.read_text()))
    agents = target / "agents.yaml"
    if "registry_port" not in document:
        agents.write_text(f"registry_port: {ports['24200']}\n{agents.read_text()}")
    return Deployment(target, yaml.safe_load(agents.read_text())), ports
