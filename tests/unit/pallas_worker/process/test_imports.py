"""What the zygote imports for users: told if it fails or prints, and of no effect on what is forked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.protocol.spec import EXIT_FAILURE

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import dataclasses, json, os, sys
from pallas_worker.process.zygote import imports
told = os.fdopen(int(sys.argv[1]), "w")
def tell(what):
    fields = dataclasses.asdict(what).items()
    print(json.dumps({key: value for key, value in fields if value is not None}), file=told, flush=True)
before = [dict(os.environ), os.getcwd(), sys.path[:]]
own = imports.OwnFiles(os.getcwd())
imports.import_modules(sys.argv[2:], os.getcwd(), tell)
assert before == [dict(os.environ), os.getcwd(), sys.path]
assert imports.has_one_task()
own.look()
print(json.dumps({"own": bool(own), "changed": own.changed()}), file=told, flush=True)
for file in own._states:
    os.utime(file, (1, 1))
print(json.dumps({"changed": own.changed()}), file=told, flush=True)
"""


def imported(folder: Path, **modules: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, what was told, and what reached stdout and stderr."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    read, write = os.pipe()
    with os.fdopen(read) as told:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM, str(write), *modules],
            cwd=folder,
            pass_fds=[write],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            close_fds=True,
        )
        os.close(write)
        return done.returncode, [json.loads(line) for line in told], done.stdout


def test_modules_of_the_working_directory_are_imported_and_noticed_to_change(tmp_path: Path) -> None:
    status, told, output = imported(tmp_path, mine="import json", second="import mine")
    assert (status, output) == (0, "")
    assert told == [
        {"importing": "mine"},
        {"importing": "second"},
        {"own": True, "changed": None},
        {"changed": "mine.py"},
    ]


def test_libraries_are_nobodys_own(tmp_path: Path) -> None:
    assert imported(tmp_path, json="raise AssertionError")[1][1:] == [
        {"own": False, "changed": None},
        {"changed": None},
    ]


@pytest.mark.parametrize(
    ("source", "failed"),
    [
        ("\nraise ValueError('a\\nb')", "ValueError: a b ({file}:2)"),
        ("import nothing_there", "ModuleNotFoundError: No module named 'nothing_there' ({file}:1)"),
        ("import sys\nsys.exit('bye')", "SystemExit: bye ({file}:2)"),
        ("def f(:", "SyntaxError: invalid syntax ({name}, line 1)"),
    ],
)
def test_what_fails_is_told_with_its_line(source: str, failed: str, tmp_path: Path) -> None:
    status, told, output = imported(tmp_path, wrong=source)
    assert (status, output) == (0, "")
    assert told[1] == {"failed": failed.format(file=tmp_path / "wrong.py", name="wrong.py")}


def test_what_is_printed_is_told_and_bounded(tmp_path: Path) -> None:
    source = "import os\nprint('x' * 10_000_000)\nos.system('echo more')"
    status, told, output = imported(tmp_path, loud=source)
    assert (status, output) == (0, "")
    [text] = [each["printed"] for each in told if "printed" in each]
    assert len(text) == 500


def test_what_is_printed_past_python_is_told_as_well(tmp_path: Path) -> None:
    source = "import os, sys\nos.write(1, b'one\\n')\nprint('two', file=sys.stderr)"
    assert imported(tmp_path, low=source)[1][1] == {"printed": "one two"}


def test_a_thread_that_stays_is_named_and_ends_the_process(tmp_path: Path) -> None:
    source = "import threading\nthreading.Thread(target=threading.Event().wait, name='poller', daemon=True).start()"
    status, told, _ = imported(tmp_path, fine="", busy=source, never="")
    assert status == EXIT_FAILURE
    assert told[1:] == [{"importing": "busy"}, {"unsafe": "leaves the thread poller running"}]


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nthreading.Timer(0.05, lambda: None).start()",
        (
            "import os, threading\nstop = threading.Event()\n"
            "thread = threading.Thread(target=stop.wait)\nthread.start()\n"
            "os.register_at_fork(before=lambda: (stop.set(), thread.join()))"
        ),
    ],
    ids=["soon", "at a fork"],
)
def test_a_thread_that_ends_by_itself_is_no_obstacle(source: str, tmp_path: Path) -> None:
    status, told, _ = imported(tmp_path, brief=source)
    assert status == 0
    assert "unsafe" not in json.dumps(told)


def test_what_it_changes_of_the_process_is_put_back(tmp_path: Path) -> None:
    source = "import os\nos.environ['NEW'] = '1'\nos.environ.pop('PATH', None)\nos.chdir('/')"
    assert imported(tmp_path, meddles=source)[0] == 0


def test_models_that_no_worker_uses_are_built_when_somebody_does() -> None:
    program = (
        "from pallas_worker.process.zygote import imports\nimports.preload()\nimport acp.schema, pydantic\n"
        "model = acp.schema.ReadTextFileRequest\nassert not model.__pydantic_complete__\n"
        "assert model.model_validate({'sessionId': 'a', 'path': 'b', 'line': 3}).line == 3\n"
        "assert pydantic.ConfigDict(extra='allow') == {'extra': 'allow'}\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
