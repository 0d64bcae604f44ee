"""How a worker starts, or why it does not: each reason in its own words."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING

import pytest

from pallas_registry.protocol import EXIT_PERMANENT, FailedReport, ReadyReport
from peers.downstream import run_downstream
from system.worker_children import executed, forked
from system.worker_process import RunningWorker, run_worker
from system.worker_project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pallas_registry.protocol import Descriptors
    from system.worker_children import Child

HEAD = "from fast_agent import FastAgent\nfast = FastAgent('tests')\n"
AGENT = HEAD + "@fast.agent(name='demo', {})\nasync def demo(): ...\n"


def failure(worker: RunningWorker) -> FailedReport:
    """The report with which the worker gives up; its exit status says the same."""
    worker.wait_until(lambda it: it.ended)
    (report,) = [report for report in worker.reports if isinstance(report, FailedReport)]
    assert (worker.process.wait(30) == EXIT_PERMANENT) == report.permanent
    assert not any(isinstance(report, ReadyReport) for report in worker.reports)
    return report


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nothing_like_this\n", "ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("agent = None\n", "agents.demo has no `fast`: add fast = FastAgent(...) at module level"),
        ("fast = 'quick'\n", "`fast` of agents.demo must be a FastAgent, not str"),
        (HEAD, "no agent is defined: *@fast.agent*"),
        (AGENT.format("servers=['unknown']"), "ServerConfigError: *unknown*"),
        (
            HEAD + "@fast.chain(name='demo', sequence=['nobody'])\nasync def demo(): ...\n",
            "AgentConfigError: *nobody*",
        ),
    ],
    ids=["module", "error", "syntax", "exit", "no-fast", "not-fast", "no-agent", "server", "reference"],
)
def test_a_broken_definition_is_permanent(tmp_path: Path, source: str, message: str) -> None:
    with run_worker(project(tmp_path, agents=source), ready=False) as worker:
        report = failure(worker)
        assert report.permanent
        assert "\n" not in report.message
        assert fnmatch(report.message, message.replace("[", "[[]")), report.message


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    with run_worker(project(tmp_path), module="agents.nope", ready=False) as worker:
        assert failure(worker) == FailedReport(
            message="ModuleNotFoundError: No module named 'agents.nope'", permanent=True
        )


def test_a_configuration_that_is_no_yaml(tmp_path: Path) -> None:
    with run_worker(project(tmp_path, config="default_model: [passthrough\n"), ready=False) as worker:
        report = failure(worker)
        assert report.permanent
        assert "fastagent.config.yaml" in report.message
        assert "\n" not in report.message


def test_a_worker_that_is_stopped_while_it_starts(tmp_path: Path) -> None:
    with run_downstream(hold=True) as server:
        servers = {"held": {"transport": "http", "url": server.url}}
        with run_worker(project(tmp_path, servers=servers), ready=False) as worker:
            server.wait_for(lambda seen: bool(seen))
            assert worker.stop() == 0
            assert not any(isinstance(report, ReadyReport | FailedReport) for report in worker.reports)


def test_no_model_at_all(tmp_path: Path) -> None:
    with run_worker(project(tmp_path, config=""), ready=False) as worker:
        assert failure(worker).message.startswith("ModelConfigError: No model configured")


def test_a_failure_of_the_moment_is_not_permanent(tmp_path: Path) -> None:
    source = HEAD + (
        "from fast_agent.agents import McpAgent\n"
        "class Moody(McpAgent):\n"
        "    async def initialize(self):\n"
        "        raise ConnectionError('the database is not up yet')\n"
        "@fast.custom(Moody, name='moody')\n"
        "async def moody(): ...\n"
    )
    with run_worker(project(tmp_path, agents=source), agent="moody", ready=False) as worker:
        assert failure(worker) == FailedReport(
            message="ConnectionError: the database is not up yet", permanent=False
        )


@pytest.mark.parametrize("start", [forked, executed])
def test_arguments_of_the_process_are_not_the_agents(
    tmp_path: Path, start: Callable[[Descriptors, Mapping[str, str]], Child]
) -> None:
    source = "import sys\nassert len(sys.argv) == 1, sys.argv\n" + AGENT.format("")
    with run_worker(project(tmp_path, agents=source), start=start) as worker:
        assert text(call(worker.url, "auto", "demo", message="x")) == "x"


def test_the_agent_of_that_name_is_served_and_no_other(tmp_path: Path) -> None:
    source = (
        "from fast_agent import FastAgent\nfrom fast_agent.agents import McpAgent\n"
        "from fast_agent.mcp.prompt import Prompt\nfast = FastAgent('tests')\n"
        "class Named(McpAgent):\n"
        "    async def generate(self, messages, request_params=None, tools=None):\n"
        "        return Prompt.assistant(self.name)\n"
        "@fast.custom(Named, name='first')\nasync def first(): ...\n"
        "@fast.custom(Named, name='second', default=True)\nasync def second(): ...\n"
    )
    directory = project(tmp_path, agents=source)
    with run_worker(directory, agent="first") as worker:
        assert text(call(worker.url, "auto", "first", message="who?")) == "first"
    with run_worker(directory, agent="somebody", ready=False) as worker:
        report = failure(worker)
        assert report.permanent
        assert "no agent called 'somebody'" in report.message
        assert "first, second" in report.message
    (directory / "agents" / "demo.py").write_text(source.partition("@fast.custom(Named, name='second'")[0])
    with run_worker(directory, agent="somebody") as worker:
        assert text(call(worker.url, "auto", "somebody", message="who?")) == "first"


def test_collections_look_at_nothing_that_was_there_at_readiness(tmp_path: Path) -> None:
    source = HEAD + (
        "import gc\n"
        "from fast_agent.agents import McpAgent\n"
        "from fast_agent.mcp.prompt import Prompt\n"
        "class Counting(McpAgent):\n"
        "    async def generate(self, *_, **__):\n"
        "        return Prompt.assistant(str(gc.isenabled() and gc.get_freeze_count()))\n"
        "@fast.custom(Counting, name='demo')\n"
        "async def demo(): ...\n"
    )
    with run_worker(project(tmp_path, agents=source), start=executed) as worker:
        assert int(text(call(worker.url, "auto", "demo", message="how many?"))) > 100_000
