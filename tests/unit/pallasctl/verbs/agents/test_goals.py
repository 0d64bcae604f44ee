"""`pallasctl start`, `stop` and `restart`: what is asked, what is said, the exit status."""

from __future__ import annotations

import pytest

from fakes.control_server import FakeControl, agent


@pytest.mark.parametrize(("verb", "state"), [("start", "ready"), ("stop", "stopped"), ("restart", "ready")])
def test_done(fake: FakeControl, verb: str, state: str) -> None:
    fake.answer(f"/v1/{verb}", {"done": True, "agents": [agent("research", state), agent("jarvis", state)]})
    result = fake.run(verb, "research", "jarvis", "research", "--timeout", "5")
    process = {"ready": " (pid {})", "stopped": ""}[state]
    assert result.stdout.splitlines() == [
        f"research: {state}{process.format(4008)}",
        f"jarvis: {state}{process.format(4006)}",
    ]
    assert (result.stderr, result.exit_code) == ("", 0)
    assert fake.requests == [
        ("POST", f"/v1/{verb}", {"agents": ["research", "jarvis"], "wait": True, "timeout": 5.0})
    ]


def test_all_is_an_empty_list(fake: FakeControl) -> None:
    fake.answer("/v1/stop", {"done": True, "agents": []})
    assert fake.run("stop", "--all").exit_code == 0
    assert fake.requests[0][2] == {"agents": [], "wait": True, "timeout": 90.0}


@pytest.mark.parametrize("verb", ["start", "stop", "restart", "wait"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name at least one agent, or give --all"),
        (["research", "--all"], "name agents or give --all, not both"),
        (["research", "--timeout", "0"], "--timeout"),
    ],
)
def test_wrong_usage(fake: FakeControl, verb: str, arguments: list[str], message: str) -> None:
    result = fake.run(verb, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert fake.requests == []


def test_no_wait_says_where_they_are(fake: FakeControl) -> None:
    fake.answer("/v1/start", {"done": False, "agents": [agent("research", "starting")]})
    result = fake.run("start", "research", "--no-wait")
    assert (result.stdout, result.exit_code) == ("research: starting (pid 4008)\n", 0)
    assert fake.requests[0][2]["wait"] is False


def test_a_goal_that_cannot_be_reached(fake: FakeControl) -> None:
    broken = agent("jarvis", "failed", message="ModuleNotFoundError: No module named 'agents.jarvis'")
    fake.answer("/v1/start", {"done": False, "agents": [agent("research"), broken]})
    result = fake.run("start", "--all")
    assert result.exit_code == 1
    assert result.stdout == "research: ready (pid 4008)\n"
    assert result.stderr.splitlines() == [
        "pallasctl: not ready: `pallasctl logs jarvis` says more",
        "  jarvis: failed: ModuleNotFoundError: No module named 'agents.jarvis'",
    ]


def test_time_out(fake: FakeControl) -> None:
    late = {
        "done": False,
        "error": "not ready within 5 s: jarvis",
        "agents": [agent("research"), agent("jarvis", "starting")],
    }
    fake.answer("/v1/restart", late, 504)
    result = fake.run("restart", "--all", "--timeout", "5")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "pallasctl: not ready within 5 s: jarvis",
        "  jarvis: starting (pid 4006)",
    ]


@pytest.mark.parametrize(
    ("status", "error", "exit_status"),
    [(404, "there is no agent 'x'; the agents are: a", 2), (409, "research is needed by jarvis", 1)],
)
def test_refused(fake: FakeControl, status: int, error: str, exit_status: int) -> None:
    fake.answer("/v1/stop", {"error": error}, status)
    result = fake.run("stop", "x")
    assert (result.exit_code, result.stderr) == (exit_status, f"pallasctl: {error}\n")


def test_an_idle_agent_is_ready(fake: FakeControl) -> None:
    agents = [agent("research", "idle", pid=None), agent("jarvis", "failed", pid=None)]
    fake.answer("/v1/wait", {"done": False, "agents": agents})
    result = fake.run("wait", "--all")
    assert (result.exit_code, result.stdout) == (1, "research: idle\n")
    assert result.stderr.splitlines() == [
        "pallasctl: not ready: `pallasctl logs jarvis` says more",
        "  jarvis: failed",
    ]
    fake.answer("/v1/wait", {"done": False, "error": "not ready within 5 s: jarvis", "agents": agents}, 504)
    result = fake.run("wait", "--all", "--timeout", "5")
    assert result.stderr.splitlines() == ["pallasctl: not ready within 5 s: jarvis", "  jarvis: failed"]
    fake.answer("/v1/stop", {"done": False, "error": "not stopped within 5 s", "agents": agents[:1]}, 504)
    assert "  research: idle" in fake.run("stop", "--all", "--timeout", "5").stderr
