"""Events of a real fleet: what happens is told in order, to those who come back, too, and `status --watch` shows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.fleet.terminal import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("events") / "fleet", "library")
    deployment.add("research", depends_on=["library"])
    with Fleet(deployment) as running:
        running.wait()
        yield running


def told(fleet: Fleet, *arguments: str) -> list[dict[str, Any]]:
    """What `pallasctl events` has by now."""
    done = fleet.ctl("events", "-o", "json", "-n", "100000", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Following:
    """`pallasctl events -f`, from the end on."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event that comes from here on and is wanted."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if wanted(self.events[-1]):
                return self.events[-1]
        raise AssertionError(f"it has ended after {self.events}")


@contextmanager
def following(fleet: Fleet) -> Iterator[Following]:
    command = [str(BIN / "pallasctl"), "events", "-f", "-o", "json", "-n", "1"]
    directory = fleet.deployment.directory
    with subprocess.Popen(
        command,
        cwd=directory,
        env=fleet.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        late = threading.Timer(
            PATIENCE, process.kill
        )  # then what reads it fails, instead of waiting for ever
        late.start()
        try:
            followed = Following(process)
            followed.until(lambda _: True)  # the newest there was: from here on it follows
            yield followed
        finally:
            late.cancel()
            process.kill()


def test_a_start_is_told_from_the_first_event_on(fleet: Fleet) -> None:
    events = told(fleet)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len({event["epoch"] for event in events}) == 1
    assert (events[0]["kind"], events[0]["event"], events[0]["pid"]) == ("supervisor", "started", fleet.pid)
    moved = [
        (event["previous"], event["state"]) for event in told(fleet, "research") if event["event"] == "state"
    ]
    assert moved[:3] == [("stopped", "waiting"), ("waiting", "starting"), ("starting", "ready")]
    assert fleet.status()["events"] == {"epoch": events[0]["epoch"], "seq": told(fleet)[-1]["seq"]}


def test_a_kill_a_restart_and_a_reload_are_told_in_order(fleet: Fleet) -> None:
    with following(fleet) as followed:
        fleet.kill("research")
        fleet.ctl("restart", "research")
        fleet.deployment.agents["research"]["title"] = "Another title"
        fleet.deployment.write()
        fleet.ctl("reload")
        followed.until(lambda event: event["event"] == "changed")
        followed.until(lambda event: event.get("replacement") == "gone")
        numbers = [event["seq"] for event in followed.events]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        seen = [
            (
                event["event"],
                event.get("state") or event.get("reason") or event.get("replacement") or event["name"],
            )
            for event in followed.events[1:]
            if event["event"] != "health"
        ]
        order = iter(seen)
        for step in (
            ("state", "killing"),
            ("state", "backoff"),
            ("restart", "crash"),
            ("state", "ready"),
            ("replacement", "starting"),
            ("state", "ready"),
            ("restart", "operator"),
            ("replacement", "gone"),
            ("reloaded", "test-fleet"),
            ("changed", "research"),
        ):
            assert step in order, f"{step} is not there, or not in this order: {seen}"


def test_who_comes_back_goes_on_where_they_were(fleet: Fleet) -> None:
    position = fleet.status()["events"]
    fleet.kill("library")
    after = fleet.get(f"/v1/events?epoch={position['epoch']}&seq={position['seq']}").text.splitlines()
    events = [json.loads(line) for line in after]
    assert [event["seq"] for event in events] == [position["seq"] + 1 + n for n in range(len(events))]
    # Probes of health come when they come.
    states = [event["state"] for event in events if event["event"] == "state" and event["name"] == "library"]
    assert states[:2] == ["killing", "backoff"]


def test_the_watched_status_is_drawn_when_something_happens(fleet: Fleet) -> None:
    command = [str(BIN / "pallasctl"), "status", "--watch", "--socket", str(fleet.runtime / "control.sock")]
    with terminal(command, columns=80, lines=10, environment=fleet.environment) as shown:
        shown.until(lambda picture: "2 of 2 agents ready" in "".join(picture.lines[:1]))
        pid = fleet.kill("research")
        shown.until(lambda picture: any(f" {pid} " in line for line in picture.lines))
        shown.resize(40, 5)
        shown.until(lambda picture: "… and 2 more agents" in picture.lines)
        assert max(map(len, shown.picture.lines)) <= 40
        assert len(shown.picture.lines) <= 5
        shown.type("\x03")
        assert shown.end() == 130
        assert shown.echoes()
        assert shown.picture.modes == {"1049": False, "25": True, "7": True, "2026": False}


def test_without_a_terminal_there_is_nothing_to_watch(fleet: Fleet) -> None:
    done = fleet.ctl("status", "--watch")
    assert done.returncode == 2
    assert "`pallasctl events -f` writes a line for each change" in done.stderr


def test_a_follower_goes_on_with_the_next_supervisor(fleet: Fleet) -> None:
    with following(fleet) as followed:
        epoch = followed.events[0]["epoch"]
        assert fleet.stop() == 0
        last = followed.until(lambda event: event["event"] == "stopped")
        assert last["epoch"] == epoch
        assert [event["event"] for event in followed.events if event["kind"] == "supervisor"] == [
            "stopping",
            "stopped",
        ]
        fleet.start()
        gap = followed.until(lambda event: event["epoch"] != epoch)
        assert (gap["kind"], gap["event"], gap["seq"]) == ("gap", "restarted", 0)
        started = followed.until(lambda _: True)
        assert (started["event"], started["seq"], started["pid"]) == ("started", 1, fleet.pid)
        assert gap["epoch"] > epoch
        os.kill(followed.process.pid, signal.SIGINT)
        assert followed.process.wait(PATIENCE) == 130
