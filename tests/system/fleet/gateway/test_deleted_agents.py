"""Tokens and threads of agents that were deleted while no gateway ran, and of those that are only away; old threads."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, make_token, with_gateway
from support.supervisor.declared import document

if TYPE_CHECKING:
    from pathlib import Path


def test_tokens_and_threads_go_with_deleted_agents_and_with_no_others(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "jarvis")
    with_gateway(deployment, threads={"keep": "1d"})
    with Fleet(deployment) as fleet:
        fleet.wait()
        await_gateway(fleet)
        declared = tmp_path / "declared.yaml"
        names = ("broken", "deleted", "renewed")
        declared.write_text("\n---\n".join(document("agent", name, model="passthrough") for name in names))

        def ctl(*arguments: str) -> None:
            done = fleet.ctl(*arguments)
            assert done.returncode == 0, (arguments, done.stderr)

        ctl("apply", "-f", str(declared))

        doors = {
            name: door(fleet, make_token(fleet, name, "run:agents:jarvis", agent=name))
            for name in ("jarvis", *names)
        }
        for name, each in doors.items():
            assert each.names("tools") == (["agent-jarvis__chat"] if name != "jarvis" else [])
        human = door(fleet)

        def threads() -> set[str]:
            return {each["agent"] for each in human.rest("GET", "/threads").json()["items"]}

        for name in doors:
            asked = human.rest("POST", f"/agents/{name}/chat", json={"message": "hello"})
            assert asked.status_code == 200, asked.text
        assert threads() == set(doors)
        old = human.rest("POST", "/agents/jarvis/threads", json={}).json()["id"]
        ctl("gateway", "stop")
        with closing(sqlite3.connect(fleet.state / "gateway.db")) as database, database:
            database.execute("UPDATE threads SET active = '2020-01-01T00:00:00.000000Z' WHERE id = ?", (old,))
        file = fleet.state / "resources" / "agent" / "broken.yaml"
        whole = file.read_text()
        file.write_text("kind: agent\nmetadata: [\n")
        fleet.ctl("reload")
        for name in ("deleted", "renewed"):
            ctl("delete", "agent", name)
        declared.write_text(document("agent", "renewed", model="passthrough"))
        ctl("apply", "-f", str(declared))
        ctl("gateway", "start")
        await_gateway(fleet)
        for name in ("deleted", "renewed"):
            fleet.await_that(lambda name=name: doors[name].ask("ping").status == 401, "the token is revoked")  # type: ignore[misc]
        fleet.await_that(lambda: threads() == {"jarvis", "broken"}, "the threads are deleted")
        fleet.await_that(lambda: human.rest("GET", f"/threads/{old}").status_code == 404, "it is forgotten")
        lines = fleet.ctl("audit", "--principal", "gateway", "-o", "json").stdout.splitlines()
        told = {(entry["action"], entry["target"]) for entry in map(json.loads, lines)}
        assert {target.partition(" ")[2] for action, target in told if action == "token.revoke"} == {
            "agent/deleted",
            "agent/renewed",
        }
        assert {target for action, target in told if action == "threads/delete"} == {
            "agent/deleted threads/1",
            "agent/renewed threads/1",
        }
        [forgotten] = [target for action, target in told if action == "threads/forget"]
        assert forgotten.startswith("threads/1 before/")
        file.write_text(whole)
        ctl("reload")
        for name in ("jarvis", "broken"):
            fleet.await_that(
                lambda name=name: doors[name].names("tools") == ["agent-jarvis__chat"] * (name != "jarvis"),  # type: ignore[misc]
                "the token counts as before",
            )
        assert threads() == {"jarvis", "broken"}
        ctl("delete", "agent", "broken")
        fleet.await_that(lambda: threads() == {"jarvis"}, "the threads are deleted")
