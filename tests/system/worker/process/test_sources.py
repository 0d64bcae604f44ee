"""What `module:` may say: a named instance, a factory, a file; and what is said of one that does not work."""

from __future__ import annotations

import textwrap
from fnmatch import fnmatch
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.reports import FailedReport
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from pathlib import Path

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
