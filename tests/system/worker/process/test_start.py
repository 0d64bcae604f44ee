"""How a worker starts, or why it does not: each reason in its own words."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING

import pytest

from fakes.downstream import run_downstream
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.reports import FailedReport, ReadyReport
from pallas_common.protocol.spec import EXIT_FAILURE, EXIT_PERMANENT
from support.worker.children import executed, forked
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pallas_common.protocol.spec import Descriptors
    from support.worker.children import Child

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
        (
            "\nimport nothing_like_this\n",
            "agents/demo.py:2: ModuleNotFoundError: No module named 'nothing_like_this'; install the package *",
        ),
        (
            "from mcp_agent.core.fastagent import FastAgent\n",
            (
                "agents/demo.py:1: *'mcp_agent'; it is called `fast_agent` now: in agents/demo.py, line 1, "
                "write `from fast_agent import FastAgent` instead of `from mcp_agent.core.fastagent import FastAgent`"
            ),
        ),
        ("x = 1 / 0\n", "agents/demo.py:1: ZeroDivisionError: division by zero"),
        (
            "import json\ndef read(text):\n    return json.loads(text)\nread('{')\n",
            "agents/demo.py:3: JSONDecodeError: Expecting property name *",
        ),
        ("x = 1\ndef broken(:\n", "agents/demo.py:2: SyntaxError: invalid syntax"),
        ("if 1:\nx = 1\n", "agents/demo.py:2: IndentationError: expected an indented block *"),
        ("eval('1 +')\n", "agents/demo.py:1: SyntaxError: invalid syntax"),
        ("raise SystemExit(3)\n", "agents/demo.py:1: SystemExit: 3"),
        ("import sys\n\nsys.exit()\n", "agents/demo.py:3: SystemExit"),
        ("raise KeyboardInterrupt\n", "agents/demo.py:1: KeyboardInterrupt"),
        ("import asyncio\nraise asyncio.CancelledError\n", "agents/demo.py:2: CancelledError"),
        ("def f():\n    f()\nf()\n", "agents/demo.py:2: RecursionError: maximum recursion depth exceeded"),
        (
            "raise ValueError('one\\ntwo ' + 'x' * 50_000)\n",
            "agents/demo.py:1: ValueError: one two xxx*x…",
        ),
        (
            "class Mute(Exception):\n    def __str__(self):\n        raise KeyError\nraise Mute\n",
            "agents/demo.py:4: Mute: (its text cannot be had)",
        ),
        ("print('x' * 5_000_000)\n" * 4 + "1 / 0\n", "agents/demo.py:5: ZeroDivisionError: division by zero"),
        ("agent = None\n", "agents.demo has no `fast`: add fast = FastAgent(...) at module level"),
        ("fast = 'quick'\n", "`fast` of agents.demo must be a FastAgent, not str: *"),
        (
            HEAD.replace("fast =", "b =") + "a = FastAgent('other')\n",
            (
                "agents.demo has several FastAgents: `b`, `a`; say which one in agents.yaml, as in "
                "`module: agents.demo:b`"
            ),
        ),
        (HEAD, "no agent is defined: *@fast.agent*"),
        (AGENT.format("servers=['unknown']"), "ServerConfigError: *unknown*"),
        (
            AGENT.format("tools={'my__files': ['read']}"),
            "the filter of agent 'demo' for the tools of 'my__files' would hide none of them, *rename the server",
        ),
        (
            HEAD + "@fast.chain(name='demo', sequence=['nobody'])\nasync def demo(): ...\n",
            "AgentConfigError: *nobody*",
        ),
    ],
    ids=[
        *("module", "old-name", "error", "library", "syntax", "indentation", "eval", "exit", "silent-exit"),
        *("interrupt", "cancelled", "recursion", "long", "mute", "talking", "no-fast", "not-fast"),
        *("several", "no-agent", "server", "filter", "reference"),
    ],
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
            message="ModuleNotFoundError: No module named 'agents.nope'; "
            "there is no agents/nope.py: write it, or mend `module:` in agents.yaml",
            permanent=True,
        )


@pytest.mark.parametrize(
    ("module", "file", "advice"),
    [
        (
            "agents.researcher_eval",
            "agents/researcher-eval.py",
            (
                "write `module: agents/researcher-eval.py`, or rename the file agents/researcher-eval.py: "
                "`researcher_eval`"
            ),
        ),
        (
            "my_agents.demo",
            "my-agents/demo.py",
            "write `module: my-agents/demo.py`, or rename the folder my-agents: `my_agents`",
        ),
        ("more.demo", None, "there is no more/: write it, or mend `module:` in agents.yaml"),
    ],
)
def test_a_module_whose_file_has_another_name(
    tmp_path: Path, module: str, file: str | None, advice: str
) -> None:
    directory = project(tmp_path)
    if file is not None:
        (directory / file).parent.mkdir(exist_ok=True)
        (directory / file).touch()
    with run_worker(directory, module=module, ready=False) as worker:
        message = failure(worker).message
        assert message.startswith("ModuleNotFoundError: No module named ")
        assert message.endswith(f"; {advice}")


@pytest.mark.parametrize("module", ["math", "logging", "email.demo", "json"])
def test_a_module_that_is_called_like_one_of_pythons(tmp_path: Path, module: str) -> None:
    directory = project(tmp_path)
    package = module.partition(".")[0]
    (directory / f"{package}.py").write_text(AGENT.format(""))
    with run_worker(directory, source=AgentSource("module", module), ready=False) as worker:
        expected = f"`{package}` is Python's own module; rename yours"
        assert failure(worker) == FailedReport(message=expected, permanent=True)


def test_the_users_own_file_is_named_where_it_is_deep_inside(tmp_path: Path) -> None:
    directory = project(tmp_path, agents="from agents import tools\n")
    (directory / "agents" / "tools.py").write_text("import pathlib\n\npathlib.Path('/nowhere').read_text()\n")
    with run_worker(directory, ready=False) as worker:
        assert failure(worker).message == (
            "agents/tools.py:3: FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'"
        )
        (record,) = [one for one in worker.records if one["message"].startswith("cannot serve the agent")]
        assert "Traceback" in record["traceback"]
        assert "pathlib" in record["traceback"]


def test_a_module_that_ends_the_process(tmp_path: Path) -> None:
    with run_worker(project(tmp_path, agents="import os\nos._exit(9)\n"), ready=False) as worker:
        worker.wait_until(lambda it: it.ended)
        assert worker.process.wait(30) == 9
        assert not any(isinstance(report, FailedReport) for report in worker.reports)


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_to_a_process_that_the_module_forks_is_for_that_alone(tmp_path: Path, number: str) -> None:
    source = (
        "import os, signal\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        f"    os.kill(os.getpid(), signal.{number})\n"
        "    os._exit(0)\n"
        f"assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.{number}\n"
    )
    with run_worker(project(tmp_path, agents=source + AGENT.format(""))) as worker:
        assert text(call(worker.url, "auto", "demo", message="x")) == "x"


SPIN = "while True:\n        pass"
WAIT = "import threading\n    threading.Event().wait()"
SLEEP = "import time\n    time.sleep(3600)"
STUBBORN = (
    "import time\n    while True:\n"
    "        try:\n            time.sleep(3600)\n        except BaseException:\n            pass"
)
LOGGING = "import logging\n    while True:\n        logging.warning('again')"


@pytest.mark.parametrize(
    "what", [SPIN, WAIT, SLEEP, STUBBORN, LOGGING], ids=["spin", "wait", "sleep", "stubborn", "logging"]
)
def test_a_module_that_does_not_end_says_where_it_is_when_it_is_stopped(tmp_path: Path, what: str) -> None:
    source = (
        f"import os\ndef busy():\n    os.write(2, b'')\n    open('begun', 'w').close()\n    {what}\nbusy()\n"
    )
    directory = project(tmp_path, agents=source)
    os.mkfifo(directory / "begun")
    with run_worker(directory, ready=False, stop_timeout=3600.0) as worker:
        (directory / "begun").read_text()  # until it has been opened and closed
        worker.process.terminate()
        assert worker.process.wait(60) == EXIT_FAILURE
        worker.wait_until(lambda it: it.ended)
        (report,) = [one for one in worker.reports if isinstance(one, FailedReport)]
        assert re.fullmatch(r"it was importing, at agents/demo\.py:([4-9]|10) in busy", report.message)
        assert not report.permanent
        if what is not LOGGING:  # its records may have filled the pipe
            (record,) = [one for one in worker.records if one["name"] == "pallas.worker.whereabouts"]
            assert report.message.removeprefix("it was ") in record["message"]


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
        assert failure(worker).message == (
            "ModelConfigError: No model configured: "
            "set default_model in fastagent.config.yaml (in fast-agent.yaml, if that is what there is), "
            "or model= in the agent's decorator"
        )


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
            message="agents/demo.py:6: ConnectionError: the database is not up yet", permanent=False
        )


@pytest.mark.parametrize("start", [forked, executed])
def test_arguments_of_the_process_are_not_the_agents(
    tmp_path: Path, start: Callable[[Descriptors, Mapping[str, str]], Child]
) -> None:
    source = "import sys\nassert len(sys.argv) == 1, sys.argv\n" + AGENT.format("")
    with run_worker(project(tmp_path, agents=source), make=start) as worker:
        assert text(call(worker.url, "auto", "demo", message="x")) == "x"


@pytest.mark.parametrize("start", [forked, executed])
def test_time_zone_and_temporary_files_are_those_of_the_workers_environment(
    tmp_path: Path, start: Callable[[Descriptors, Mapping[str, str]], Child]
) -> None:
    (tmp_path / "temporary").mkdir()
    environment = {"TMPDIR": str(tmp_path / "temporary"), "TZ": "Asia/Tokyo"}
    source = AGENT.format("") + (
        "import datetime, tempfile, time\n"
        f"assert tempfile.gettempdir() == {environment['TMPDIR']!r}, tempfile.gettempdir()\n"
        "assert time.tzname[0] == 'JST', time.tzname\n"
        "assert datetime.datetime.fromtimestamp(0).hour == 9\n"
    )
    with run_worker(project(tmp_path, agents=source), make=start, environment=environment) as worker:
        assert not worker.ended


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
    with run_worker(project(tmp_path, agents=source), make=executed) as worker:
        assert int(text(call(worker.url, "auto", "demo", message="how many?"))) > 100_000
