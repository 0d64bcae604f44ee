"""What an instruction says is true at the time of the call: the day, and the files that it includes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.protocol.reports import CodeReport
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from pathlib import Path

TELLING = r"""
import datetime
from pathlib import Path


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromisoformat(Path("day").read_text())


datetime.datetime = Day

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.prompt import Prompt

fast = FastAgent("tests")


class Telling(McpAgent):
    async def generate(self, *_, **__):
        return Prompt.assistant(self.instruction)


@fast.custom(Telling, name="demo", instruction=r"On {{currentDate}}, not \{{currentDate\}}: {{file:facts.md}}")
async def demo(): ...


@fast.agent(name="written", instruction=Path("written.md"))
async def written(): ...
"""


def test_an_instance_that_was_made_ahead_knows_the_day_and_the_files_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "day").write_text("2026-11-26")
    (tmp_path / "facts.md").write_text("Rain.")
    (tmp_path / "written.md").write_text("Read once.")
    with run_worker(project(tmp_path, agents=TELLING)) as worker:  # one waits for the first call by now
        told = [
            mark.path for report in worker.reports if isinstance(report, CodeReport) for mark in report.files
        ]
        assert "written.md" in told
        (tmp_path / "day").write_text("2026-11-27")
        assert (
            text(call(worker.url, "auto", "demo", message="x"))
            == "On 27 November 2026, not {{currentDate}}: Rain."
        )
        (tmp_path / "facts.md").write_text("Sun.")
        assert (
            text(call(worker.url, "auto", "demo", message="x"))
            == "On 27 November 2026, not {{currentDate}}: Sun."
        )
