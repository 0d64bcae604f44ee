"""What the status says of an agent, and why it is in its state."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pallas_supervisor.agents.status import agent_status, say_why
from pallas_supervisor.lifecycle.states import Desired, Exit, Policy, State
from support.supervisor.fakes import agent
from support.supervisor.rig import Rig, on_rig, two_agents

if TYPE_CHECKING:
    from pathlib import Path


def test_why() -> None:
    failed = agent(name="library", state=State.FAILED, message="exit status 78")
    agents = {"library": failed, "research": agent(state=State.STARTING)}

    def why(waiting_for: tuple[str, ...] = (), **changes: object) -> str:
        return say_why(agent(**changes), waiting_for, agents, 100.0)

    assert (
        why(("library", "research"), state=State.WAITING)
        == "waiting for library (failed: exit status 78), research (starting)"
    )
    assert why(state=State.WAITING) == ""
    assert why(state=State.READY) == ""
    assert why(state=State.FAILED, message="ImportError: x") == "ImportError: x"
    died: dict[str, Any] = {"state": State.BACKOFF, "message": "killed by SIGKILL", "failures": 2}
    assert why(**died, retry_at=102.2) == "killed by SIGKILL; restarting in 2 s, failure 2/5"
    assert why(**died, retry_at=100.4) == "killed by SIGKILL; restarting in 0.4 s, failure 2/5"
    assert why(**died, retry_at=99.0) == "killed by SIGKILL; restarting now, failure 2/5"


def test_status_of_one_agent() -> None:
    known = agent(
        state=State.BACKOFF,
        desired=Desired.UP,
        policy=Policy(max_failures=3),
        generation=4,
        failures=2,
        restarts=3,
        last_exit=Exit(status=70),
    )
    entry = agent_status(
        known,
        port=24201,
        url="http://localhost:24201/mcp",
        depends_on=("library",),
        message="exit status 70",
        health="error",
        memory=None,
        age=0.0,
        start="always",
        source={"kind": "file", "file": "/srv/agents.yaml", "line": 3},
        stale_files=(".env",),
        changed_code=("agents/a.py",),
    )
    since = datetime.fromisoformat(entry.pop("since"))
    assert since.tzinfo is not None
    assert entry == {
        "name": "research",
        "state": "backoff",
        "desired": "up",
        "pid": None,
        "port": 24201,
        "url": "http://localhost:24201/mcp",
        "socket": None,
        "restarts": 3,
        "failures": 2,
        "max_failures": 3,
        "health": "error",
        "message": "exit status 70",
        "last_exit": "exit status 70",
        "generation": 4,
        "start": "always",
        "source": {"kind": "file", "file": "/srv/agents.yaml", "line": 3},
        "depends_on": ["library"],
        "resident_memory": None,
        "outdated": [".env", "agents/a.py"],
        "changed_code": ["agents/a.py"],
        "replacing": False,
        "replacement": None,
    }


def test_an_idle_agent_is_ready_and_has_a_socket_in_place_of_a_port(tmp_path: Path) -> None:
    async def check(rig: Rig) -> None:
        status = rig.manager.status
        rig.manager.engine.arm(["research", "library"])
        found = [(status.summary(), status.is_ready)]
        rig.come_up("library")
        found.append((status.summary(), status.is_ready))
        assert found == [
            ("1/2 agents ready (1 idle); library: starting", False),
            ("2/2 agents ready (1 idle)", True),
        ]
        [entry] = status.entries(["research"])
        assert entry["state"] == "idle"
        assert (entry["pid"], entry["start"], entry["message"]) == (None, "on-demand", "")
        assert entry["source"]["line"] is not None
        document = status.health_document()
        assert document["status"] == "ok"
        assert document["agents"]["research"].keys() == {"status", "state", "since"}

    library, research = two_agents().values()
    on_rig(
        tmp_path, {"library": library, "research": {"port": research["port"], "start": "on-demand"}}, check
    )
