"""`pallasctl status`: what people read, what scripts read, and the exit status."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from fakes.control_server import FakeControl, agent, run, status

if TYPE_CHECKING:
    from pathlib import Path


def test_table(fake: FakeControl) -> None:
    since = (datetime.now(UTC) - timedelta(hours=3, minutes=12, seconds=5)).isoformat()
    fake.answer(
        "/v1/status",
        status(
            agent("research", since=since, restarts=2),
            agent("jarvis", "waiting", message="waiting for engineering"),
        ),
    )
    result = fake.run("status")
    header, research, jarvis = result.stdout.splitlines()
    assert header.split() == ["NAME", "STATE", "HEALTH", "PID", "PORT", "RESTARTS", "UPTIME", "MESSAGE"]
    assert research.split() == ["research", "ready", "ok", "4008", "24208", "2", "3h12m"]
    assert jarvis.split() == [
        "jarvis",
        "waiting",
        "unknown",
        "-",
        "24206",
        "0",
        "-",
        "waiting",
        "for",
        "engineering",
    ]
    assert research.index("ready") == jarvis.index("waiting") == header.index("STATE")
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_wide_adds_the_supervisor_and_more_columns(fake: FakeControl) -> None:
    failing = agent(
        "jarvis", "backoff", failures=2, last_exit="killed by SIGKILL", depends_on=["research", "library"]
    )
    fake.answer("/v1/status", status(agent("research"), failing))
    summary, header, research, jarvis = fake.run("status", "-o", "wide").stdout.splitlines()
    assert summary.startswith("demo: pallas 0.3.0, pid 99, up ")
    assert "LAST EXIT" in header
    assert "100M" in research
    assert "2/5" in jarvis
    assert "killed by SIGKILL" in jarvis
    assert "research,library" in jarvis


def test_an_older_configuration_is_marked_with_the_way_out(fake: FakeControl) -> None:
    agents = [
        agent("jarvis", outdated=[".env"]),
        agent("research", outdated=[".env"]),
        agent("library", outdated=["agents.yaml", "fastagent.secrets.yaml"]),
        agent("writer", outdated=[]),
    ]
    changed = {"configuration": {"changed": [".env", "agents.yaml"], "problems": 0}}
    fake.answer("/v1/status", status(*agents) | changed)
    result = fake.run("status")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines[1:5]] == ["ready*", "ready*", "ready*", "ready"]
    (older,) = lines[5:]
    assert older == (
        "* started with an older configuration: jarvis, research (.env); "
        "library (agents.yaml, fastagent.secrets.yaml); `pallasctl reload` replaces them"
    )
    assert fake.run("status", "writer").stdout.splitlines()[2:] == [
        ".env, agents.yaml: changed and not in use yet; `pallasctl reload` takes over what it says"
    ]


def test_agents_that_are_being_replaced_need_nothing_more(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("jarvis", outdated=[".env"], replacing=True), agent("writer")))
    assert fake.run("status").stdout.splitlines()[3:] == [
        "* started with older files and being replaced: jarvis"
    ]


def test_code_that_has_changed_is_for_a_restart(fake: FakeControl) -> None:
    agents = [
        agent("jarvis", outdated=["agents/jarvis.py"], changed_code=["agents/jarvis.py"]),
        agent("both", outdated=[".env", "agents/jarvis.py"], changed_code=["agents/jarvis.py"]),
        agent("many", outdated=list("abcde"), changed_code=list("abcde")),
    ]
    fake.answer("/v1/status", status(*agents))
    lines = fake.run("status").stdout.splitlines()
    assert [line.split()[1] for line in lines[1:4]] == ["ready*", "ready*", "ready*"]
    assert lines[4:] == [
        "* started with an older configuration: both (.env); `pallasctl reload` replaces them",
        (
            "* code has changed since the start of jarvis (agents/jarvis.py); many (a, b, c and 2 more); "
            "`pallasctl restart jarvis many` takes it over"
        ),
    ]


@pytest.mark.parametrize(("problems", "said"), [(1, "a problem"), (3, "3 problems")])
def test_files_that_cannot_be_used(fake: FakeControl, problems: int, said: str) -> None:
    changed = {"configuration": {"changed": ["agents.yaml"], "problems": problems}}
    fake.answer("/v1/status", status(agent("jarvis")) | changed)
    assert fake.run("status").stdout.splitlines()[2:] == [
        f"agents.yaml: changed, with {said}, and not in use; `pallasctl check` names them"
    ]


def test_json_is_the_document(fake: FakeControl) -> None:
    document = status(agent("research"), agent("jarvis", message="größer 🙂")) | {
        "a later version": "says more"
    }
    fake.answer("/v1/status", document)
    assert json.loads(fake.run("status", "-o", "json").stdout) == document


def test_json_of_named_agents_has_only_these_in_the_order_given(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("a"), agent("b"), agent("c")))
    document = json.loads(fake.run("status", "c", "a", "c", "-o", "json").stdout)
    assert [entry["name"] for entry in document["agents"]] == ["c", "a"]


@pytest.mark.parametrize(
    ("states", "names", "code"),
    [
        (["ready", "ready"], [], 0),
        (["ready", "stopped"], [], 0),
        (["ready", "stopped"], ["b"], 3),
        (["ready", "failed"], [], 3),
        (["ready", "failed"], ["a"], 0),
        (["ready", "starting"], [], 3),
        ([], [], 0),
    ],
)
def test_exit_status(fake: FakeControl, states: list[str], names: list[str], code: int) -> None:
    fake.answer(
        "/v1/status", status(*(agent(name, state) for name, state in zip("ab", states, strict=False)))
    )
    assert fake.run("status", *names).exit_code == code


def test_unknown_agent(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("research")))
    result = fake.run("status", "reserch")
    assert result.exit_code == 2
    assert result.stderr == "pallasctl: there is no agent 'reserch'; did you mean 'research'?\n"
    assert result.stdout == ""


def test_no_supervisor(tmp_path: Path) -> None:
    result = run("--socket", str(tmp_path / "none.sock"), "status")
    assert result.exit_code == 4
    assert result.stderr == (
        f"pallasctl: pallas is not running here: no socket at {tmp_path}/none.sock; "
        "start it with `pallas` or name it with --socket\n"
    )


def test_what_agents_say_cannot_steer_the_terminal(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("research", "failed", message="\x1b]0;owned\x07\nline two\x9b2J")))
    output = fake.run("status").stdout
    assert "\\x1b]0;owned\\x07 line two\\x9b2J" in output
    assert len(output.splitlines()) == 2


def test_json_is_the_document_and_safe_on_a_terminal(fake: FakeControl) -> None:
    document = status(agent("a", message="\u202e \U000e0041 \x9b ü"))
    fake.answer("/v1/status", document)
    shown = fake.run("status", "-o", "json").stdout
    assert json.loads(shown) == document
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "ü" in shown


def test_an_idle_agent_is_as_good_as_ready(fake: FakeControl) -> None:
    since = (datetime.now(UTC) - timedelta(minutes=3)).isoformat()
    idle = agent("deployer", "idle", since=since, start="on-demand", port=None, health="ok")
    fake.answer("/v1/status", status(agent("research"), idle))
    result = fake.run("status")
    *_, row = result.stdout.splitlines()
    assert row.split()[:7] == ["deployer", "idle", "ok", "-", "-", "0", "-"]
    assert row.endswith("idle for 3m00s; starts when somebody connects")
    assert result.exit_code == 0
    wide = fake.run("status", "-o", "wide").stdout
    assert "; 2 of 2 agents ready (1 idle)" in wide.splitlines()[0]


def test_states_are_chosen(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(agent("research"), agent("deployer", "idle"), agent("jarvis", "failed")))
    result = fake.run("status", "--state", "idle", "--state", "failed")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["NAME", "deployer", "jarvis"]
    assert result.exit_code == 3
    assert fake.run("status", "--state", "asleep").exit_code == 2


def test_without_a_terminal_everything_is_listed(fake: FakeControl) -> None:
    fake.answer("/v1/status", status(*(agent(f"a{number}", "idle") for number in range(50))))
    assert len(fake.run("status").stdout.splitlines()) == 51


def test_in_a_terminal_many_idle_agents_are_a_number(
    fake: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["pallasctl.verbs.state.status"], "is_terminal", lambda: True)
    agents = [agent("research"), *(agent(f"a{number}", "idle") for number in range(50))]
    fake.answer("/v1/status", status(*agents))
    folded = fake.run("status").stdout
    assert "research" in folded
    assert "a7 " not in folded
    assert (
        "50 more agents are idle and start when somebody connects; `pallasctl status --all` lists them"
        in folded
    )
    assert "a7 " in fake.run("status", "--all").stdout
