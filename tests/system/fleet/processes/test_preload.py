"""Modules that the zygote imports for all agents, and providers' libraries only where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.fleet.deployment import PASSTHROUGH, make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from support.fleet.deployment import Deployment

LOOKING = """\
import sys
BEFORE = set(sys.modules)
{agent}
from pallas_worker.process import serve
_report = serve.ReadyReport
def ready(**fields):
    mine = sys.modules.get("mine")
    print(
        *sorted({{"anthropic", "openai"}} & BEFORE),
        "|", *sorted(set(sys.modules) - BEFORE - {{"agents.{name}"}}),
        "|", getattr(mine, "PID", None), getattr(mine, "TEXT", None),
        file=open("{name}.txt", "w"), flush=True,
    )
    return _report(**fields)
serve.ReadyReport = ready
"""
"""An agent that tells: LLM libraries that were there before | imported until readiness | what it has as `mine`."""

MINE = "import os\nPID, TEXT = os.getpid(), {text!r}\n"

KEYS = {"OPENAI_API_KEY": "sk-none", "ANTHROPIC_API_KEY": "none"}

BUSY = (
    "import threading\nthreading.Thread(target=threading.Event().wait, name='poller', daemon=True).start()\n"
)


def add(deployment: Deployment, name: str, model: str = "passthrough") -> None:
    deployment.add(name)
    agent = PASSTHROUGH.format(name=name, servers=[]).replace("passthrough", model)
    source = LOOKING.format(agent=agent, name=name)
    (deployment.directory / "agents" / f"{name}.py").write_text(source)


def told(deployment: Deployment, name: str) -> list[list[str]]:
    text = (deployment.directory / f"{name}.txt").read_text()
    return [part.split() for part in text.split("|")]


@pytest.mark.parametrize(
    ("models", "libraries"),
    [
        (["passthrough"], []),
        (["openai.gpt-4.1", "anthropic.claude-sonnet-4-5"], ["anthropic", "openai"]),
    ],
    ids=["no provider", "two providers"],
)
def test_the_zygote_has_what_workers_need_and_no_more(
    models: list[str], libraries: list[str], tmp_path: Path
) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    names = [f"agent{number}" for number in range(len(models))]
    for name, model in zip(names, models, strict=True):
        add(deployment, name, model)
    with Fleet(deployment, env=KEYS) as fleet:
        fleet.wait()
        for name in names:
            before, late, _ = told(deployment, name)
            assert before == libraries
            assert len(late) < 5, late


def test_what_a_worker_reports_is_there_for_the_next(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    add(deployment, "one", "openai.gpt-4.1")
    module = deployment.directory / "agents" / "one.py"
    module.write_text(module.read_text().replace('"openai.gpt-4.1"', '"".join(["openai", ".gpt-4.1"])'))
    with Fleet(deployment, env=KEYS) as fleet:
        fleet.wait()
        assert told(deployment, "one")[0] == []
        fleet.kill("one")
        assert told(deployment, "one")[0] == ["openai"]


def test_modules_of_the_user(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", preload=["mine", "broken", "busy"])
    for name in ("one", "two"):
        add(deployment, name)
    for name, source in {"mine": MINE.format(text="first"), "broken": "import nowhere", "busy": BUSY}.items():
        (deployment.directory / f"{name}.py").write_text(source)
    with Fleet(deployment) as fleet:
        fleet.wait()
        zygote = str(fleet.zygote().pid)
        assert told(deployment, "one")[2] == told(deployment, "two")[2] == [zygote, "first"]
        messages = [str(record["message"]) for record in fleet.records()]
        line = (deployment.directory / "agents.yaml").read_text().splitlines().index("- mine") + 1
        broken = f"agents.yaml:{line + 1}: preload: broken cannot be imported: ModuleNotFoundError: No module named"
        busy = (
            f"agents.yaml:{line + 2}: preload: busy leaves the thread poller running: the zygote starts anew"
        )
        assert any(message.startswith(broken) for message in messages)
        assert any(message.startswith(busy) for message in messages)

        (deployment.directory / "mine.py").write_text(MINE.format(text="second"))
        fleet.kill("one")
        assert told(deployment, "one")[2] == [str(fleet.zygote().pid), "second"]
        assert told(deployment, "two")[2] == [zygote, "first"], "it runs on"

        deployment.document["preload"] = []
        deployment.write()
        fleet.ctl("reload")
        fleet.kill("two")
        assert told(deployment, "two")[2] == ["None", "None"]
        assert fleet.agent("one")["generation"] == 2, "it runs on"
