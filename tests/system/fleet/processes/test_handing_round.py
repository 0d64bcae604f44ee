"""Two agents that have each other among their servers: they start at once, and no call goes round without end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from support.clients import send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path


def handed_on(*names: str) -> str:
    """A message whose reader calls the first, which calls the second, and so on."""
    message = "the end"
    for name in reversed(names):
        message = f"***CALL_TOOL {name}__{name} {json.dumps({'message': message})}"
    return message


def test_agents_that_have_each_other_end(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    deployment.add("ping", servers=("pong",), max_concurrency=2, max_queue=4)
    deployment.add("pong", servers=("ping",), max_concurrency=2, max_queue=4)
    deployment.servers = {name: {"url": deployment.url(name)} for name in ("ping", "pong")}
    deployment.write()
    with Fleet(deployment) as fleet:
        fleet.wait()

        def ask(*names: str) -> str:
            return asyncio.run(send_message(deployment.url("ping"), handed_on(*names)))

        assert "the end" in ask("pong", "ping")
        assert "the end" in ask("pong", "ping", "pong")
        said = ask("pong", "ping", "pong", "ping")
        assert "the agent ping was not asked" in said
        assert "ping → pong → ping → pong → ping" in said
        assert fleet.status()["agents"]
        down = [record for record in fleet.records() if "is down" in str(record)]
    assert not down, "neither waits for the other at the start"
