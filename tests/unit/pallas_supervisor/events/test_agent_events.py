"""What happens to agents as events: each change once, in order, in the words of the status document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.reports import HealthReport
from pallas_supervisor.lifecycle.states import Exit
from support.ports import free_ports
from support.supervisor.rig import on_rig, two_agents

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_common.protocol.reports import Status
    from support.supervisor.rig import Rig

COMMON = ("epoch", "seq", "time", "kind", "name", "event")


def told(rig: Rig, name: str | None = None) -> list[dict[str, Any]]:
    """All events so far, of one thing or all."""
    lines = rig.manager.events.newest(10_000).take(1 << 30).splitlines()
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    return [event for event in events if name is None or event["name"] == name]


def short(events: list[dict[str, Any]]) -> list[str]:
    """Events in a few words each."""
    words = {
        "state": "{previous} -> {state}",
        "health": "{previous} => {health}",
        "replacement": "{generation} {replacement}",
    }
    return [words.get(event["event"], "{event}").format(**event) for event in events]


def health(status: Status, message: str | None = None) -> HealthReport:
    return HealthReport(status=status, message=message, timestamp="")


def test_a_start_a_crash_and_the_restart(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.end("library", Exit(signal=9))
        events = told(rig, "library")
        assert short(events) == [
            "stopped -> waiting",
            "waiting -> starting",
            "starting -> ready",
            "ready -> killing",
            "killing -> backoff",
        ]
        *_, killing, last = events
        assert set(killing) - set(COMMON) == {
            "state",
            "previous",
            "generation",
            "pid",
            "health",
            "message",
            "exit",
        }
        assert (killing["exit"], last["health"], last["kind"]) == ("killed by SIGKILL", "error", "agent")
        assert "killed by SIGKILL; restarting" in last["message"]
        assert told(rig, "research")[0]["message"] == "waiting for library (starting)"

    on_rig(tmp_path, two_agents(), do)


def test_health_is_told_where_it_changes(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        for _ in range(2):
            rig.report("library", health("ok"))
        for _ in range(2):
            rig.report("library", health("degraded", "search is down"))
        rig.report("library", health("degraded", "files is down"))
        rig.report("library", health("ok"))
        events = [event for event in told(rig, "library") if event["event"] == "health"]
        assert short(events) == ["unknown => ok", "ok => degraded", "degraded => degraded", "degraded => ok"]
        assert [event["message"] for event in events] == ["", "search is down", "files is down", ""]

    on_rig(tmp_path, two_agents(), do)


def test_a_replacement_is_told_step_by_step(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        before = len(told(rig, "research"))
        rig.operations.restart(["research"])
        rig.come_up("research")
        rig.end("research", old=True)
        assert short(told(rig, "research")[before:]) == [
            "2 starting",
            "ready -> ready",
            "restart",
            "1 killing",
            "1 gone",
        ]

    on_rig(tmp_path, two_agents(), do)


def test_a_reload_says_what_came_went_and_changed(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        library = rig.manager.drift.deployment.agents["library"].port
        [other] = free_ports(1)
        before = len(told(rig))
        rig.write({"library": {"port": library, "title": "Another"}, "other": {"port": other}})
        await rig.reloading.reload(dry_run=True)
        assert len(told(rig)) == before, "nothing has happened"
        await rig.reloading.reload(dry_run=False)
        reloaded, *rest = told(rig)[before:]
        assert (reloaded["kind"], reloaded["name"], reloaded["event"]) == (
            "configuration",
            "demo",
            "reloaded",
        )
        assert (reloaded["added"], reloaded["removed"], reloaded["changed"]) == (
            ["other"],
            ["research"],
            ["library"],
        )
        assert [(event["name"], event["event"]) for event in rest[:3]] == [
            ("research", "removed"),
            ("other", "added"),
            ("library", "changed"),
        ]

    on_rig(tmp_path, two_agents(), do)
