"""`pallas init` as a newcomer meets it: a first project that runs, and projects whose agents really start."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import anyio
import pytest
import yaml

from pallas_registry.projects.code.files import read_tree
from pallas_registry.projects.proposal import propose
from support.clients import call
from support.data.projects import SHAPES, write
from support.fleet.deployment import Deployment
from support.fleet.fleet import BIN, Fleet
from support.ports import free_ports
from support.worker.process import run_worker

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = '***CALL_TOOL days_between {"first": "2026-01-01", "second": "2026-01-31"}'


def test_a_first_project_runs(tmp_path: Path) -> None:
    directory = tmp_path / "first"
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    made = subprocess.run(
        [BIN / "pallas", "init", directory],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert (made.returncode, made.stderr) == (0, "")
    _elsewhere(directory)
    document = yaml.safe_load((directory / "agents.yaml").read_text())
    with Fleet(Deployment(directory, document), env={"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}) as fleet:
        fleet.wait()
        url = fleet.deployment.url
        assert anyio.run(lambda: call(url("assistant"), "assistant", message="Hello")) == (False, "Hello")
        through = f'***CALL_TOOL dates__dates {{"message": {yaml.dump(QUESTION, default_style='"').strip()}}}'
        failed, text = anyio.run(lambda: call(url("assistant"), "assistant", message=through))
        assert not failed, text
        assert "30 days" in text
        fleet.await_that(lambda: fleet.ctl("health").stdout.startswith("ok at "), "all probes have gone well")


@pytest.mark.parametrize("shape", [name for name, shape in SHAPES.items() if shape.starts])
def test_what_is_proposed_starts(shape: str, tmp_path: Path) -> None:
    write(SHAPES[shape], tmp_path)
    (entry,) = propose(read_tree(tmp_path), "x", is_free=lambda port: True).entries
    value = entry.source.value
    is_card = entry.source.key == "card"
    module, card = ("", value) if is_card else (value, None)
    with run_worker(tmp_path, agent=entry.name, module=module, card=card) as worker:
        failed, text = anyio.run(lambda: call(worker.url, "send_message", message="Hello"))
        assert not failed, text


def _elsewhere(directory: Path) -> None:
    """Gives the deployment ports that no other test has."""
    text = (directory / "agents.yaml").read_text()
    old = list(dict.fromkeys(re.findall(r"port: (\d+)", text)))
    new = dict(zip(old, map(str, free_ports(len(old))), strict=True))
    for name in ("agents.yaml", "fastagent.config.yaml"):
        text = (directory / name).read_text()
        (directory / name).write_text(re.sub("|".join(old), lambda match: new[match[0]], text))
