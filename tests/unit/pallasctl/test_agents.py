"""`pallasctl start`, `stop`, `restart`, `wait` and `reload`: what is asked, what is said, the exit status."""

from __future__ import annotations

import threading
import time

import pytest

from fakes.control_server import FakeControl, agent, run, serve


@pytest.fixture
def fake(tmp_path):
    with serve(tmp_path / "control.sock") as server:
        yield server


@pytest.mark.parametrize(("verb", "state"), [("start", "ready"), ("stop", "stopped"), ("restart", "ready")])
def test_done(fake: FakeControl, verb, state) -> None:
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
def test_wrong_usage(fake: FakeControl, verb, arguments, message) -> None:
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
        "pallasctl: not ready: `pallasctl logs AGENT` says more",
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
    ("status", "error"), [(404, "no agent is called `x`"), (409, "research is needed by jarvis")]
)
def test_refused(fake: FakeControl, status, error) -> None:
    fake.answer("/v1/stop", {"error": error}, status)
    result = fake.run("stop", "x")
    assert (result.exit_code, result.stderr) == (1, f"pallasctl: {error}\n")


def test_an_error_without_words(fake: FakeControl) -> None:
    fake.answer("/v1/stop", {}, 500)
    assert fake.run("stop", "x").stderr == "pallasctl: the supervisor answered with HTTP status 500\n"


def test_what_answers_is_not_pallas(fake: FakeControl) -> None:
    fake.answer("/v1/stop", b"<html>", 502)
    result = fake.run("stop", "x")
    assert result.exit_code == 1
    assert "is not pallas (HTTP status 502, no JSON object): check --socket" in result.stderr


def test_wait_for(fake: FakeControl) -> None:
    fake.answer("/v1/wait", {"done": True, "agents": [agent("research", "stopped")]})
    assert fake.run("wait", "research", "--for", "stopped", "--timeout", "7000").exit_code == 0
    (_, _, body) = fake.requests[0]
    assert body.pop("timeout") == pytest.approx(7000, abs=100), "what is left of it"
    assert body == {"agents": ["research"], "wait": True, "for": "stopped"}


def test_wait_waits_for_the_supervisor_too(tmp_path) -> None:
    socket = tmp_path / "control.sock"
    results = []
    thread = threading.Thread(target=lambda: results.append(run("--socket", str(socket), "wait", "--all")))
    thread.start()
    time.sleep(0.3)
    with serve(socket, {"/v1/wait": (200, {"done": True, "agents": [agent("research")]})}):
        thread.join(60)
    assert [(result.exit_code, result.stdout) for result in results] == [(0, "research: ready (pid 4008)\n")]


@pytest.mark.parametrize(("goal", "at_least"), [("ready", 0.3), ("stopped", 0.0)])
def test_wait_without_a_supervisor(tmp_path, goal, at_least) -> None:
    started = time.monotonic()
    result = run("--socket", str(tmp_path / "none"), "wait", "--all", "--for", goal, "--timeout", "0.3")
    assert result.exit_code == 1
    assert "pallas is not running here" in result.stderr
    assert at_least <= time.monotonic() - started < 60


def test_reload(fake: FakeControl) -> None:
    document = {
        "dry_run": True,
        "added": ["writer"],
        "removed": ["critic"],
        "changed": [{"agent": "jarvis", "fields": ["port", "title"], "action": "rebind"}],
        "unchanged": ["research", "engineering"],
    }
    fake.answer("/v1/reload", document)
    result = fake.run("reload", "--dry-run")
    assert fake.requests == [("POST", "/v1/reload", {"dry_run": True})]
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "a reload would do this:",
        "+ writer",
        "- critic",
        "~ jarvis: port, title (restart on another port)",
        "= unchanged: research, engineering",
    ]


def test_reload_without_a_change(fake: FakeControl) -> None:
    fake.answer(
        "/v1/reload", {"dry_run": False, "added": [], "removed": [], "changed": [], "unchanged": ["a"]}
    )
    assert fake.run("reload").stdout == "nothing changed\n"


def test_reload_of_a_wrong_file(fake: FakeControl) -> None:
    problems = ["agents.yaml:3: agents.a.prot: unknown key; did you mean `port`?", "agents.yaml:9: …"]
    fake.answer(
        "/v1/reload", {"error": "agents.yaml is wrong; nothing was changed", "problems": problems}, 422
    )
    result = fake.run("reload")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "pallasctl: agents.yaml is wrong; nothing was changed",
        *(f"  {problem}" for problem in problems),
    ]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("statsu", "there is no verb 'statsu'; did you mean 'status'?"),
        ("frobnicate", "there is no verb 'frobnicate'; the verbs are: status, start, stop"),
        ("st\u202eart", r"there is no verb 'st\u202eart'; did you mean 'start'?"),
    ],
)
def test_a_verb_that_is_none(fake: FakeControl, typed: str, said: str) -> None:
    result = fake.run(typed)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_error_cannot_write_on_the_terminal(fake: FakeControl) -> None:
    fake.answer("/v1/start", {"error": "no\x1b[2J\u202e", "problems": ["a\x07\tb\nc"]}, 409)
    result = fake.run("start", "a")
    assert result.stderr == "pallasctl: no\\x1b[2J\\u202e\n  a\\x07\tb\nc\n"
