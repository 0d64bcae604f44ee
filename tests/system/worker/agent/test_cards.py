"""Agents that are cards: every kind answers, none gets what it did not ask for, and mistakes have their line."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING

import httpx
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import LlmStub, run_llm_stub
from pallas_common.protocol.reports import FailedReport, ReadyReport
from support.ports import free_ports
from support.worker.agent_kinds import CARDS, HISTORY, answer
from support.worker.conversation.a2a_agent import run_a2a_agent
from support.worker.conversation.llm import config, spec
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALONE = "---\nname: demo\n---\nYou are demo.\n"


@pytest.fixture
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(answer=answer) as running:
        yield running


def cards(directory: Path, files: dict[str, str]) -> None:
    (directory / "cards").mkdir()
    for name, content in files.items():
        (directory / "cards" / name).write_text(content)


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("alpha", "alpha says so"),
        ("beta", "beta says so"),
        ("manager", "manager says so"),
        ("chain", "beta says so"),
        ("cumulative", "beta says so"),
        ("router", "beta says so"),
        ("parallel", "judge says so"),
        ("refined", "alpha says better"),
        ("maker", "beta says so"),
        ("planner", "the plan's result"),
        ("orchestrator", "the plan's result"),
    ],
)
def test_a_card_of_this_kind(tmp_path: Path, stub: LlmStub, agent: str, expected: str) -> None:
    cards(tmp_path, CARDS)
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        project(tmp_path, servers=servers, config=config(stub))
        with run_worker(tmp_path, card="cards/", agent=agent, **spec()) as worker:
            result = call(worker.url, "auto", agent, message="who am I?", history=HISTORY)
            assert not result.is_error, text(result)
            assert expected in text(result)


def test_a_card_of_an_agent_on_another_machine(tmp_path: Path) -> None:
    with run_a2a_agent(*free_ports(1)) as url:
        cards(tmp_path, {"far.md": f"---\ntype: a2a\nname: far\nurl: {url}\n---\n"})
        with run_worker(project(tmp_path), card="cards/far.md", agent="far") as worker:
            ready = next(report for report in worker.reports if isinstance(report, ReadyReport))
            assert [part.kind for part in ready.parts] == ["a2a"]
            assert text(call(worker.url, "auto", "far", message="hello")) == "far away: hello"
            body = {"model": "far", "messages": [{"role": "user", "content": "again"}], "stream": True}
            assert "far away: again" in httpx.post(f"{worker.origin}/v1/chat/completions", json=body).text


@pytest.mark.parametrize("card", ["cards/demo.md", "cards"])
def test_one_card_serves_whatever_the_entry_is_called_and_has_nothing_uninvited(
    tmp_path: Path, card: str, stub: LlmStub
) -> None:
    cards(tmp_path, {"demo.md": ALONE})
    skill = tmp_path / ".claude" / "skills" / "painting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: painting\ndescription: How to paint\n---\nPaint.\n")
    project(tmp_path, config=config(stub))
    with run_worker(tmp_path, card=card, agent="entry", **spec()) as worker:
        call(worker.url, "auto", "entry", message="hello")
        assert [asked.tools for asked in stub.asked] == [()]
        assert "painting" not in str(stub.asked[0].body)


def test_a_card_has_the_shell_that_it_asks_for(tmp_path: Path, stub: LlmStub) -> None:
    cards(tmp_path, {"demo.md": ALONE.replace("name: demo", "name: demo\nshell: true")})
    project(tmp_path, config=config(stub))
    with run_worker(tmp_path, card="cards/demo.md", **spec()) as worker:
        call(worker.url, "auto", "demo", message="hello")
        assert "bash" in stub.asked[0].tools


def head(*lines: str) -> str:
    return "\n".join(("---", "name: demo", *lines, "---", "You are demo."))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (head("skils: []"), "cards/demo.md:3: Unsupported fields for type 'agent': Unknown fields: skils"),
        (head("servers: 5"), "cards/demo.md:3: 'servers' must be a list of strings"),
        (head("type: chian"), "cards/demo.md:3: Unsupported agent type 'chian'"),
        (
            head("type: chain"),
            "cards/demo.md:3: Missing required fields for type 'chain': Required: sequence",
        ),
        (head("servers: [a"), "cards/demo.md:*: not YAML: *"),
        (head("name: again"), "cards/demo.md:3: `name` is given twice: remove one of the two"),
        (head("request_params: {maxTokens: x}"), "cards/demo.md:3: Invalid request_params: *maxTokens*"),
        (
            head("agents:", "  - nobody"),
            (
                "cards/demo.md:4: agents: there is no agent 'nobody'; if another card in the folder defines it, "
                "write `card: cards/`"
            ),
        ),
        (
            head("type: chain", "sequence: [demo, demmo]").replace("You are demo.", ""),
            "cards/demo.md:4: sequence: there is no agent 'demmo'; did you mean 'demo'?",
        ),
        (
            head("servers: [files]", "tools:", "  fils: [read]"),
            (
                "cards/demo.md:5: tools: agent 'demo' has no server 'fils', so that nothing would be filtered; "
                "did you mean 'files'?"
            ),
        ),
        ("name: demo\n", "cards/demo.md: is no agent card: a card begins with a line `---`*"),
        ("---\nname: demo\n", "cards/demo.md:1: the front matter has no end: close it with a line `---`"),
        ("---\n- name\n---\n", "cards/demo.md:2: has no `key: value` lines*"),
    ],
)
def test_a_mistake_in_a_card_is_said_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    cards(tmp_path, {"demo.md": content})
    assert fnmatch(refused(project(tmp_path), "cards/demo.md"), message.replace("[", "[[]"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"a.md": "---\nname: a\n---\nx\n", "b.md": "---\nname: b\ndefault: true\n---\nx\n"},
            "there is no agent called 'demo', but several others: a, b; give the entry *",
        ),
        (
            {"a.md": ALONE, "b.md": ALONE},
            "cards/b.md:2: the agent is called 'demo', and so is the one of cards/a.md: rename one of the two",
        ),
        (
            {"a.yaml": "name: a\ninstruction: x\n---\nname: b\ninstruction: x\n"},
            "cards/a.yaml:4: a second YAML document, which nobody reads: put each agent into a card of its own",
        ),
        ({"a.md": "only text\n"}, "cards: holds no agent card: *"),
    ],
)
def test_a_mistake_in_a_folder(tmp_path: Path, files: dict[str, str], message: str) -> None:
    cards(tmp_path, files)
    said = refused(project(tmp_path), "cards")
    assert fnmatch(said, message), said


def refused(directory: Path, card: str) -> str:
    """What the worker says of the card, which it cannot use."""
    with run_worker(directory, card=card, ready=False) as worker:
        worker.wait_until(lambda it: it.ended)
        (report,) = [report for report in worker.reports if isinstance(report, FailedReport)]
        assert report.permanent
        return report.message


def test_a_parameter_that_does_not_exist_is_a_warning(tmp_path: Path) -> None:
    cards(tmp_path, {"demo.md": head("request_params:", "  temprature: 0.5")})
    with run_worker(project(tmp_path), card="cards/demo.md") as worker:
        assert (
            "cards/demo.md:4: request_params: fast-agent knows no 'temprature' and passes over it; "
            "did you mean `temperature`?"
        ) in worker.messages("WARNING")
