"""What an inspection says of an agent: places, words, levels; and what a hostile one says."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pallas_check.agents import MOST_OUTPUT_LINES, Surroundings, circles, judge
from pallas_check.findings import CheckedAgent
from pallas_check.places import Places
from pallas_common.protocol.inspection import (
    InspectedProvider,
    InspectedServer,
    Inspection,
    InspectionEnd,
    encode,
)
from pallas_common.protocol.reports import FailedReport, StageReport, encode_report
from pallas_common.secrets.values import KnownSecrets

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_check.findings import Finding

FILE = "name: demo\nagents:\n  one:\n    module: agents.one\n    port: 24201\n"
IMPORTING = encode_report(StageReport(stage="importing")).decode()
GOOD = Inspection(
    served="a",
    agents=("a",),
    model="openai.x",
    models=("openai.x",),
    servers=(),
    providers=(),
    failure=None,
    warnings=(),
)


def end(lines: str = "", **fields: Any) -> InspectionEnd:
    given = {"output": "", "printed": 0, "status": 0, "signal": None, "timed_out": False, "seconds": 0.5}
    return InspectionEnd(lines=lines, **{**given, **fields})


def lines_of(**fields: Any) -> str:
    return encode(dataclasses.replace(GOOD, **fields)).decode()


def server(**fields: Any) -> InspectedServer:
    given = {
        "name": "web",
        "transport": "http",
        "address": "http://127.0.0.1:24202",
        "up": None,
        "latency": None,
    }
    return InspectedServer(**{**given, "trouble": None, **fields})


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    path = tmp_path / "agents.yaml"
    path.write_text(FILE)
    return Surroundings(
        directory=tmp_path,
        places=Places(path),
        secrets=KnownSecrets(["my-own-password"]),
        ports={24201: "one", 24202: "two"},
        hosts=("example.org",),
        answer_each_other=False,
        online=False,
    )


def judged(ended: InspectionEnd, around: Surroundings) -> tuple[CheckedAgent, list[Finding]]:
    return judge("one", ended, 60.0, around)


def texts(ended: InspectionEnd, around: Surroundings) -> list[str]:
    folder = f"{around.directory}/"
    return [str(finding.problem).replace(folder, "") for finding in judged(ended, around)[1]]


def test_a_good_agent(around: Surroundings) -> None:
    checked, findings = judged(end(IMPORTING + lines_of()), around)
    assert (checked.result, checked.inspection, findings) == ("ok", GOOD, [])


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("agents/one.py:5: ValueError: x", "agents/one.py:5: agents.one: ValueError: x"),
        ("agents/one.py: SyntaxError: x", "agents/one.py: agents.one: SyntaxError: x"),
        (
            "agents.one has no `fast`: add it",
            "agents.yaml:4: agents.one.module: agents.one has no `fast`: add it",
        ),
        ("with my-own-password", "agents.yaml:4: agents.one.module: with [redacted]"),
        ("\x1b[2J\n", r"agents.yaml:4: agents.one.module: \x1b[2J\n"),
    ],
)
def test_what_failed_has_its_place(message: str, text: str, around: Surroundings) -> None:
    failed = encode_report(FailedReport(message=message, permanent=True)).decode()
    assert texts(end(IMPORTING + failed, status=0), around) == [text]


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (
            end(status=0),
            "(exit status 0) without a message: it had not begun; look for what ends the process",
        ),
        (end(IMPORTING, status=70), "it was importing; look for what closes descriptors"),
        (end(IMPORTING, status=None, signal=11), "its process ended (killed by SIGSEGV): it was importing"),
        (end(IMPORTING, status=71), "(exit status 71 (out of memory))"),
        (end(IMPORTING, status=None, signal=9, timed_out=True), "not ready within 60 s: it was importing"),
        # An answer that came after its time, and one that is none.
        (end(lines_of(), timed_out=True), "not ready within 60 s"),
        (end('[[[[\n{"kind": 1}\n\udcff\n{}\n' + "[" * 100_000), "(exit status 0) without a message"),
    ],
)
def test_how_it_ended_where_it_says_nothing(ended: InspectionEnd, words: str, around: Surroundings) -> None:
    [text] = texts(ended, around)
    assert words in text
    assert judged(ended, around)[0].result == "error"


def test_no_key_is_an_error_and_a_warning_one(around: Surroundings) -> None:
    checked, findings = judged(end(lines_of(failure="set KEY in .env", warnings=("a header",))), around)
    assert checked.result == "error"
    assert [(each.level, each.cause, each.problem.message) for each in findings] == [
        ("error", "configuration", "set KEY in .env"),
        ("warning", "configuration", "a header"),
    ]
    assert findings[0].problem.field == "agents.one"


def test_what_does_not_answer_is_an_error_only_where_it_was_asked_for(around: Surroundings) -> None:
    down = server(address="http://elsewhere:24202", up=False, trouble="downstream server web is down: x")
    slow = dataclasses.replace(down, up=True, trouble="downstream server web is slow")
    key = InspectedProvider(name="openai", up=False, latency=1.0, trouble="LLM provider is down", counts=True)
    other = dataclasses.replace(key, counts=False)
    ended = end(lines_of(servers=(down, slow), providers=(key, other)))
    local = [(each.level, each.cause) for each in judged(ended, around)[1]]
    assert local == [("warning", "machine")] * 4
    online = dataclasses.replace(around, online=True)
    asked = [(each.level, each.cause) for each in judged(ended, online)[1]]
    assert asked == [(level, "machine") for level in ("error", "warning", "error", "warning")]


@pytest.mark.parametrize(
    ("address", "answer_each_other", "said"),
    [
        ("http://127.0.0.1:24202", False, False),
        ("http://EXAMPLE.org:24202", False, False),
        ("http://127.0.0.1:24202", True, True),
        ("http://127.0.0.1:24299", False, True),
        ("http://elsewhere:24202", False, True),
        ("http://[::1", False, True),
        ("http://127.0.0.1:99999999", False, True),
    ],
)
def test_an_agent_of_the_deployment_need_not_answer_before_it_runs_or_without_a_key(
    address: str, answer_each_other: bool, said: bool, around: Surroundings
) -> None:
    around = dataclasses.replace(around, answer_each_other=answer_each_other, online=True)
    ended = end(lines_of(servers=(server(address=address, up=False, trouble="down"),)))
    assert bool(judged(ended, around)[1]) == said


def test_of_what_it_printed_the_last_lines_are_shown_without_secrets(around: Surroundings) -> None:
    output = "\n".join([*map(str, range(100)), "my-own-password", "x" * 10_000])
    [finding] = judged(end(output=output, printed=1_000_000), around)[1]
    first, *shown, password, last = finding.output.splitlines()
    assert first == "… (1000000 bytes in all)"
    assert shown[-1] == "99"
    assert len(shown) + 2 == MOST_OUTPUT_LINES
    assert (password, len(last)) == ("[redacted]", 500)


def asking(name: str, *ports: int) -> CheckedAgent:
    servers = tuple(
        server(name=f"s{port}", transport="http", address=f"http://localhost:{port}") for port in ports
    )
    return CheckedAgent(name=name, result="ok", seconds=0.0, inspection=replace(GOOD, servers=servers))


def test_agents_that_can_hand_a_call_round_are_named(around: Surroundings) -> None:
    most = {"one": 1, "two": 3}
    assert not list(circles([asking("one", 24202), asking("two", 9)], most, around))
    (found,) = circles([asking("one", 24202), asking("two", 24201)], most, around)
    assert found.level == "warning"
    assert found.problem.message == (
        "these agents can hand a call round: one → two → one; "
        "it may come back so often (max_returns): 1 to one, 3 to two"
    )


def test_a_servers_name_that_makes_names_of_tools_ambiguous_is_warned_of(around: Surroundings) -> None:
    lines = lines_of(servers=(server(name="k__l"), server(name="k_l")))
    checked, findings = judged(end(IMPORTING + lines), around)
    assert checked.result == "warning"
    assert len(findings) == 1
    assert "the name of the server k__l has `__`" in str(findings[0].problem)
