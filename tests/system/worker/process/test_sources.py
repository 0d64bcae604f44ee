"""What `module:` may say: a named instance, a factory, a file; and what is said of one that does not work."""

from __future__ import annotations

import os
import signal
import textwrap
from fnmatch import fnmatch
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.reports import FailedReport
from support.worker.children import executed, forked
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pallas_common.protocol.spec import Descriptors
    from support.worker.children import Child

HEAD = "from fast_agent import FastAgent\n"
AGENT = """
{name} = FastAgent("tests")

@{name}.agent(name="{agent}", instruction="x")
async def {agent}(): ...
"""
ONE = HEAD + AGENT.format(name="app", agent="demo")
TWO = ONE + AGENT.format(name="other", agent="stranger")
FACTORY = HEAD + textwrap.dedent(
    """
    {kind} create(model=None) -> FastAgent:
        app = FastAgent("tests")

        @app.agent(name="demo", instruction="x")
        async def demo(): ...

        return app
    """
)
SCRIPT = (
    """
import dataclasses, pickle, sys
from pathlib import Path
import helper
assert __name__ not in ("__main__", "builtins"), __name__
assert sys.path[0] == str(Path(__file__).parents[1]) and sys.path[1] == str(Path(__file__).parent), sys.path
@dataclasses.dataclass
class Fact:
    text: str
assert pickle.loads(pickle.dumps(Fact("x"))) == Fact("x")
if __name__ == "__main__":
    raise SystemExit("run as a script")
"""
    + ONE
)
RELATIVE = "from .helper import FACT\n" + ONE


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("agents.demo", {"agents/demo.py": ONE}),
        ("agents.demo:app", {"agents/demo.py": TWO}),
        ("agents.demo", {"agents/demo.py": ONE + "again = app\n"}),
        ("agents.demo", {"agents/demo.py": "fast = 'quick'\n" + ONE}),
        ("agents.demo:create()", {"agents/demo.py": FACTORY.format(kind="def")}),
        ("agents.demo:create()", {"agents/demo.py": FACTORY.format(kind="async def")}),
        ("demo.py", {"demo.py": ONE}),
        ("agents/my-demo.py", {"agents/my-demo.py": SCRIPT, "agents/helper.py": ""}),
        ("agents/openai.py", {"agents/openai.py": SCRIPT, "agents/helper.py": ""}),
        ("my agents/my.demo.py:app", {"my agents/my.demo.py": TWO}),
        ("agents/my-demo.py:create()", {"agents/my-demo.py": FACTORY.format(kind="async def")}),
        (
            "agents/my-demo.py",
            {"agents/my-demo.py": RELATIVE, "agents/helper.py": "FACT = 1\n", "agents/__init__.py": ""},
        ),
    ],
)
def test_an_agent_is_made_from(tmp_path: Path, module: str, files: dict[str, str]) -> None:
    with run_worker(written(tmp_path, files), module=module) as worker:
        assert text(call(worker.url, "auto", "demo", message="hello")) == "hello"


@pytest.mark.parametrize(
    ("module", "source", "message"),
    [
        ("agents.demo:nope", ONE, "agents.demo has no `nope`; it has `app`: write `module: agents.demo:app`"),
        (
            "agents.demo:x",
            "x = 1\n",
            "`x` of agents.demo must be a FastAgent, not int: add x = FastAgent(...) *",
        ),
        (
            "agents.demo",
            FACTORY.format(kind="def"),
            "agents.demo has no `fast`; `create` returns a FastAgent: write `module: agents.demo:create()`",
        ),
        (
            "agents.demo:create",
            FACTORY.format(kind="def"),
            (
                "agents/demo.py:3: `create` of agents.demo is a function, not a FastAgent; if it returns one, write "
                "`module: agents.demo:create()` in agents.yaml"
            ),
        ),
        (
            "agents.demo:make()",
            FACTORY.format(kind="def"),
            "agents.demo has no `make`; `create` returns a FastAgent: write `module: agents.demo:create()`",
        ),
        (
            "agents.demo:make()",
            "def make(model): ...\n",
            "agents/demo.py:1: `make` is called without arguments: missing a required argument: 'model'; give *",
        ),
        (
            "agents.demo:make()",
            "\ndef make(): return 5\n",
            "agents/demo.py:2: `make()` returned int, not a FastAgent: return it",
        ),
        (
            "agents.demo:make()",
            "async def make():\n    raise ValueError('no')\n",
            "agents/demo.py:2: ValueError: no",
        ),
        (
            "alone/demo.py",
            "from .helper import FACT\n",
            (
                "alone/demo.py:1: ImportError: attempted relative import with no known parent package; *"
                "add an empty alone/__init__.py"
            ),
        ),
        ("agents/demo.py", "def broken(:\n", "agents/demo.py:1: SyntaxError: invalid syntax"),
        (
            "agents/demo.py",
            TWO,
            (
                "agents/demo.py has several FastAgents: `app`, `other`; say which one in agents.yaml, as in "
                "`module: agents/demo.py:app`"
            ),
        ),
    ],
)
def test_what_does_not_work_is_said_with_the_way_out(
    tmp_path: Path, module: str, source: str, message: str
) -> None:
    file = module.partition(":")[0] if "/" in module else "agents/demo.py"
    with run_worker(written(tmp_path, {file: source}), module=module, ready=False) as worker:
        worker.wait_until(lambda it: it.ended)
        (report,) = [report for report in worker.reports if isinstance(report, FailedReport)]
        assert report.permanent
        assert fnmatch(report.message, message), report.message


def written(directory: Path, files: dict[str, str]) -> Path:
    """The directory of a project with these files."""
    project(directory)
    (directory / "agents" / "demo.py").unlink()
    for name, source in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(source)
    return directory


LOOPS = """
import asyncio

async def work():
    await asyncio.sleep(0)
    return "done"

assert asyncio.get_event_loop().run_until_complete(work()) == "done"
assert asyncio.run(work()) == "done"
"""
PATCHED = """
import asyncio

if not isinstance(asyncio.get_event_loop(), asyncio.BaseEventLoop):
    raise ValueError(f"Can't patch loop of type {type(asyncio.get_event_loop())}")
asyncio._nest_patched = True
"""
"""What nest_asyncio does when it is applied, but for the patch itself."""


@pytest.mark.parametrize("make", [forked, executed])
def test_modules_and_factories_may_run_loops_of_their_own(
    tmp_path: Path, make: Callable[[Descriptors, Mapping[str, str]], Child]
) -> None:
    files = {
        "agents/demo.py": LOOPS + FACTORY.format(kind="def").replace("app =", "asyncio.run(work()); app =", 1)
    }
    with run_worker(written(tmp_path, files), module="agents.demo:create()", make=make) as worker:
        assert text(call(worker.url, "auto", "demo", message="hello")) == "hello"


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_code_that_changes_pythons_own_loops_is_told_of_the_setting(tmp_path: Path, loop: str) -> None:
    files = {"agents/demo.py": PATCHED + ONE}
    with run_worker(written(tmp_path, files), module="agents.demo", loop=loop) as worker:
        assert any("`loop: asyncio`" in said for said in worker.messages("WARNING")) == (loop == "uvloop")


def test_a_factory_that_changes_the_loop_it_runs_in_is_told_of_the_setting(tmp_path: Path) -> None:
    made = FACTORY.format(kind="async def").replace(
        "    app =", textwrap.indent(PATCHED, "    ") + "    app =", 1
    )
    directory = written(tmp_path, {"agents/demo.py": made})
    with run_worker(directory, module="agents.demo:create()", ready=False) as worker:
        worker.wait_until(lambda it: it.ended)
        (failed,) = [each for each in worker.reports if isinstance(each, FailedReport)]
        assert failed.message.startswith("agents/demo.py:"), failed
        assert failed.message.endswith("; set `loop: asyncio` for the agent in agents.yaml"), failed
    with run_worker(directory, module="agents.demo:create()", loop="asyncio") as worker:
        assert text(call(worker.url, "auto", "demo", message="hello")) == "hello"


HANDLERS = """
import signal

for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("where", ["module", "factory"])
def test_handlers_that_code_sets_do_not_keep_a_worker_from_draining(
    tmp_path: Path, where: str, number: signal.Signals
) -> None:
    source, module = HANDLERS + ONE, "agents.demo"
    if where == "factory":
        made = FACTORY.format(kind="async def")
        source = made.replace("    app =", textwrap.indent(HANDLERS, "    ") + "    app =", 1)
        module = "agents.demo:create()"
    with run_worker(written(tmp_path, {"agents/demo.py": source}), module=module) as worker:
        os.kill(worker.process.pid, number)
        assert worker.process.wait(60) == 0
        warned = [said for said in worker.messages("WARNING") if "has set a handler" in said]
        assert [said.split()[9].rstrip(",") for said in warned] == ["SIGTERM", "SIGINT"], warned
