"""Modules that are rough with their process: they close, clear or replace what all libraries in it need."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.reports import FailedReport
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from pathlib import Path

AGENT = '''
from fast_agent import FastAgent

fast = FastAgent("tests")


def say() -> str:
    """Say it."""
    print("said")
    return "done"


@fast.agent(name="demo", instruction="x", function_tools=[say])
async def demo(): ...
'''


@pytest.mark.parametrize(
    ("rough", "warns"),
    [
        ("import os\nos.environ.clear()\n", False),
        ("import os\nos.environ = {}\n", False),
        ("import sys\nsys.stdout.close()\n", False),
        ("import sys\nsys.stdout.buffer.close()\n", False),
        ("import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer)\n", False),
        ("import io, sys\nsys.stdout = sys.stderr = io.StringIO()\nsys.stdout.close()\n", True),
        ("import sys\nsys.stdout.detach()\n", False),
        (
            "import json\nown = json.dumps\njson.dumps = lambda *a, **k: own(*a, **{**k, 'default': str})\n",
            False,
        ),
    ],
)
def test_an_agent_whose_module_does_this_is_served_and_its_tools_may_print(
    tmp_path: Path, rough: str, warns: bool
) -> None:
    with run_worker(project(tmp_path, agents=rough + AGENT)) as worker:
        assert text(call(worker.url, "auto", "demo", message="***CALL_TOOL say {}")) == "done"
        assert any("has closed sys." in said for said in worker.messages("WARNING")) == warns


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("dumps", "def other(*_, **__):\n    return b'{}'"),
        ("dumps", "def other(*_, **__):\n    raise TypeError('not me')"),
        ("loads", "def other(text, **__):\n    return text"),
    ],
)
def test_a_function_of_json_that_does_something_else_is_named_with_its_place(
    tmp_path: Path, name: str, function: str
) -> None:
    rough = f"import json\n{function}\njson.{name} = other\n"
    with run_worker(project(tmp_path, agents=rough + AGENT), ready=False) as worker:
        worker.wait_until(lambda it: it.ended)
        [failed] = [report for report in worker.reports if isinstance(report, FailedReport)]
        assert failed.message.startswith(
            f"agents/demo.py:2: json.{name} was replaced by a function that does not"
        )
        assert failed.permanent


COUNTING = """
from prometheus_client import Counter

Counter("things", "Things.").inc()
"""


def test_what_an_agent_starts_leaves_no_metrics_among_its_own(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNTING)
    started = f"import subprocess\nsubprocess.run([{sys.executable!r}, 'count.py'], check=True)\n"
    with run_worker(project(tmp_path, agents=started + AGENT)) as worker:
        assert text(call(worker.url, "auto", "demo", message="x")) == "x"
        assert {
            path.name.partition(".")[0].rpartition("_")[2] for path in (tmp_path / "metrics").iterdir()
        } == {"demo0"}
