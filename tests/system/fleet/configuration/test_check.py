"""`pallas check` with real agents: it says before a start what the start would say, and leaves no process behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonschema
import psutil
import pytest

from fakes.llm_stub import run_llm_stub
from support.fleet.deployment import Deployment, make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

type Document = dict[str, Any]

FAST = "from fast_agent import FastAgent\nfast = FastAgent('test', parse_cli_args=False)\n"
SLEEP = "check-test-sleep"
"""Argument of processes that agents leave behind, by which they are found."""

LIES = r"""
import os
os.write(900, b"[" * 100000 + b"\xff{" + b'\n{"kind": 1}\n')
"""
"""Written where the inspected process tells its guard what it has found."""


def agent(**options: Any) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in {"name": "a", **options}.items())
    return f"{FAST}@fast.agent({given})\nasync def agent() -> None: ...\n"


class Case(NamedTuple):
    """An agent's code, and what is said of it, without the place."""

    source: str
    level: str
    message: str
    entry: Mapping[str, Any] = {}


AS_A_START = {
    "good": Case(agent(), "ok", ""),
    "runs": Case(
        "import asyncio\nasyncio.get_event_loop().run_until_complete(asyncio.sleep(0))\n"
        f"asyncio.run(asyncio.sleep(0))\n{agent()}",
        "ok",
        "",
        {"loop": "asyncio"},
    ),
    "syntax": Case(f"{FAST}def f(:\n", "error", "SyntaxError: invalid syntax"),
    "raises": Case(f"{FAST}raise ValueError('wrong')\n", "error", "ValueError: wrong"),
    "missing": Case(
        "import nothing_there\n", "error", "ModuleNotFoundError: No module named 'nothing_there'"
    ),
    "old": Case("import mcp_agent.core\n", "error", "it is called `fast_agent` now"),
    "unnamed": Case("fast = None\n", "error", "FastAgent"),
    "empty": Case(FAST, "error", "no agent is defined: decorate a function with @fast.agent(...)"),
    "several": Case(
        agent(name="x") + agent(name="y").removeprefix(FAST),
        "error",
        "but several others: x, y; give the entry",
    ),
    "exits": Case("raise SystemExit(3)\n", "error", "SystemExit: 3"),
    "loops": Case(
        f"{FAST}while True: pass\n",
        "error",
        "not ready within 3 s: it was importing, at agents/loops.py:3 in <module>",
        {"start_timeout": 3},
    ),
    "server": Case(agent(servers=["nowhere"]), "error", "ServerConfigError: Missing server configuration"),
    "filter": Case(agent(servers=["a__b"], tools={"a__b": ["x"]}), "error", "rename the server"),
    "model": Case(agent(model="no.such-model"), "error", "ModelConfigError: Unknown model"),
    "memory": Case(
        f"{FAST}data = bytearray(4 << 30)\n",
        "error",
        "out of memory: it asked for more than its memory_limit",
        {"memory_limit": "192MiB"},
    ),
    "key": Case(
        agent(model="openai.gpt-4.1"),
        "error",
        "no API key is configured for OpenAI: set OPENAI_API_KEY in .env",
    ),
    "header": Case(
        agent(servers=["web"]),
        "warning",
        "server web: the header Authorization names NOT_SET, which is not set",
    ),
    "command": Case(
        agent(servers=["local"]),
        "warning",
        "downstream server local is down: command 'no-such-command' is not found",
    ),
}
"""What a start finds as well."""

HOSTILE = {
    "quits": Case("import os\nos._exit(0)\n", "error", "its process ended (exit status 0) without a message"),
    "killed": Case(
        "import os\nos.kill(os.getpid(), 9)\n",
        "error",
        "its process ended (killed by SIGKILL): it was importing",
    ),
    "prints": Case(
        f"{FAST}for n in range(60000): print('x' * 99, n)\nraise ValueError('after all that')\n",
        "error",
        "ValueError: after all that",
    ),
    "forks": Case(
        f"{agent()}import os, subprocess, sys, time\n"
        f"sleep = [sys.executable, '-c', 'import time; time.sleep(600)', {SLEEP!r}]\n"
        "subprocess.Popen(sleep)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    subprocess.Popen(sleep, env={}, start_new_session=True)\n"
        "    os._exit(0)\n",
        "ok",
        "",
    ),
    "detaches": Case(
        f"{agent()}import os\nos.closerange(900, 100000)\n", "error", "look for what closes descriptors"
    ),
    "kills": Case(
        "import ctypes, os, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(1, 0)  # stays when its parent ends\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {SLEEP!r}])\n"
        "os.kill(os.getppid(), 9)\n"
        "while True: pass\n",
        "error",
        "the process that inspects it was ended",
    ),
    "lies": Case(agent() + LIES, "ok", ""),
    "secret": Case(
        f"{FAST}print('it is sk-abcdefghijklmnop')\nraise ValueError('with my-own-password')\n",
        "error",
        "ValueError: with [redacted]",
        {"env": {"DB_PASSWORD": "my-own-password"}},
    ),
    "paints": Case(f"{FAST}raise ValueError('\\x1b[2J\\u202egone')\n", "error", r"\x1b[2J\u202egone"),
}
"""What is only in the way of an inspection."""


def bad_deployment(directory: Path) -> Deployment:
    deployment = make_deployment(directory, defaults={"max_failures": 1, "start_timeout": 60})
    modules = directory / "agents"
    modules.mkdir()
    (modules / "__init__.py").touch()
    cases = {**AS_A_START, **HOSTILE}
    for (name, case), port in zip(cases.items(), free_ports(len(cases)), strict=True):
        (modules / f"{name}.py").write_text(case.source)
        deployment.agents[name] = {"module": f"agents.{name}", "port": port, **case.entry}
    deployment.settings = {"default_model": "passthrough"}
    deployment.servers = {
        "web": {
            "transport": "http",
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"Authorization": "${NOT_SET}"},
        },
        "local": {"command": "no-such-command"},
        "a__b": {"command": "no-such-command"},
    }
    deployment.write()
    return deployment


def environment(directory: Path) -> dict[str, str]:
    own = {
        "PALLAS_RUNTIME_DIR": str(directory / "run"),
        "PALLAS_LOG_FILE": str(directory / "log" / "pallas.log"),
    }
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, **own}


def check(directory: Path, *arguments: str, program: str = "pallas") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / program), "check", *arguments],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def left_behind() -> list[psutil.Process]:
    """Processes of inspections, and those that agents have started in one."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if SLEEP in line or ("test-fleet" in str(line) and str(line).find("pallas-inspection ") >= 0):
            found.append(process)
    return found


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return bad_deployment(tmp_path_factory.mktemp("check") / "fleet")


@pytest.fixture(scope="module")
def answer(deployment: Deployment) -> subprocess.CompletedProcess[str]:
    return check(deployment.directory, "-o", "json")


@pytest.fixture(scope="module")
def document(answer: subprocess.CompletedProcess[str]) -> Document:
    assert answer.stderr == ""
    found: Document = json.loads(answer.stdout)
    return found


def findings(document: Document, name: str) -> list[Document]:
    return [finding for finding in document["findings"] if finding["agent"] == name]


@pytest.mark.parametrize("name", [*AS_A_START, *HOSTILE])
def test_each_agent_is_judged(name: str, document: Document) -> None:
    case = {**AS_A_START, **HOSTILE}[name]
    [checked] = [each for each in document["agents"] if each["name"] == name]
    assert checked["result"] == case.level, findings(document, name)
    if not case.message:
        assert not findings(document, name)
        return
    [finding] = [each for each in findings(document, name) if case.message in each["message"]]
    assert finding["level"] == case.level
    assert re.match(rf"agents(/{name}\.py(:\d+)?|\.yaml:\d+): agents\.{name}(\.\w+)?: ", finding["text"])


def test_the_document_is_as_described_and_bounded(
    document: Document, answer: subprocess.CompletedProcess[str]
) -> None:
    jsonschema.validate(document, SCHEMA)
    assert answer.returncode == 2
    assert document["result"] == "error"
    assert document["errors"] == sum(case.level == "error" for case in {**AS_A_START, **HOSTILE}.values())
    assert len(answer.stdout) < 60_000
    assert "Traceback" not in answer.stdout
    assert "my-own-password" not in answer.stdout
    assert "sk-abcdef" not in answer.stdout
    [printed] = [finding["output"] for finding in findings(document, "prints")]
    assert printed.splitlines()[0].endswith("bytes in all)")
    assert printed.splitlines()[-1].endswith(" 59999")


def test_nothing_is_left_of_what_agents_have_started(document: Document) -> None:
    assert document["agents"]
    assert not left_behind()


def test_a_start_says_the_same(deployment: Deployment, document: Document) -> None:
    agents = {name: entry for name, entry in deployment.agents.items() if name in AS_A_START}
    of_start = Deployment(deployment.directory, {**deployment.document, "agents": agents})
    of_start.servers, of_start.settings = deployment.servers, deployment.settings
    of_start.write()
    fleet = Fleet(of_start)
    fleet.environment = environment(deployment.directory)
    with fleet:
        fleet.await_that(
            lambda: all(
                each["state"] == "failed" or each["health"] != "unknown" for each in fleet.status()["agents"]
            ),
            "all agents have failed, or are ready and know their health",
        )
        states = {each["name"]: each for each in fleet.status()["agents"]}
        warned = [record for record in fleet.records() if record["level"] == "WARNING"]
    for name, state in states.items():
        found = findings(document, name)
        if state["state"] == "failed":
            [finding] = found
            place = re.match(r"[^\s:]+\.py(:\d+)?: ", state["message"])
            message = state["message"].removeprefix(place[0] if place else "")
            assert finding["level"] == "error"
            assert finding["message"] == message
            continue
        said = {record["message"] for record in warned if record.get("agent") == name} | {state["message"]}
        for finding in found:
            assert any(finding["message"] in message for message in said), (name, said)


def test_servers_and_providers_are_asked_online_of_a_deployment_that_runs(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    with run_llm_stub(models=["present"]) as stub:
        deployment.settings = {"openai": {"api_key": "sk-of-the-tests", "base_url": stub.openai_url}}
        deployment.servers = {"one": {"transport": "http", "url": deployment.url("one")}}
        for name in ("two", "three"):
            deployment.add(name, servers=("one",))
            model = "openai.present" if name == "two" else "openai.absent"
            source = agent(model=model, servers=["one"])
            (deployment.directory / "agents" / f"{name}.py").write_text(source)
        with Fleet(deployment) as fleet:
            fleet.wait()
            answer = check(deployment.directory, "--online", program="pallasctl")
    assert answer.returncode == 1, answer.stderr
    _, *rows = answer.stdout.splitlines()
    assert re.fullmatch(r"one +ok +fast-agent\.passthrough +- +-", rows[0])
    assert re.fullmatch(r"two +ok +openai\.present \(openai \d+ ms\) +one \d+ ms +a", rows[1])
    assert re.fullmatch(r"three +error +openai\.absent \(openai down\) +one \d+ ms +a", rows[2])
    *_, summary, problem = answer.stderr.splitlines()  # before them, that a key is written into a file
    assert summary == "pallasctl: agents.yaml: one problem"
    assert re.fullmatch(
        r"  agents.yaml:\d+: agents.three: LLM provider openai is down: model 'absent' not found", problem
    )


def test_an_interpreter_without_pallas(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    deployment.agents["one"]["python"] = str(bare)
    deployment.write()
    answer = check(deployment.directory)
    assert answer.returncode == 2
    assert (
        f"agents.one.python: there is no Pallas in the environment of {bare}; install pallas-mcp "
        in answer.stderr
    )


def interrupted(directory: Path, number: signal.Signals) -> tuple[int, list[int]]:
    """The exit status of a check that gets a signal while an agent is imported, and the inspections' processes."""
    process = subprocess.Popen(
        [BIN / "pallas", "check"],
        cwd=directory,
        env=environment(directory),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    at_work = directory / "at-work"
    with at_work.open() as fifo:  # the agent opens it, too
        pids = [int(pid) for pid in fifo.readline().split()]
    pids += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    watched = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in stderr
    _, alive = psutil.wait_procs(watched, timeout=PATIENCE)
    return process.returncode, [each.pid for each in alive]


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A deployment whose agent never ends to be imported, says so in a pipe, and ignores what asks it to end."""
    deployment = make_deployment(tmp_path / "fleet", "one")
    os.mkfifo(deployment.directory / "at-work")
    (deployment.directory / "agents" / "one.py").write_text(
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.path.exists('stop'): os.kill(os.getppid(), signal.SIGSTOP)\n"
        f"sleep = [sys.executable, '-c', 'import time; time.sleep(600)', {SLEEP!r}]\n"
        "started = subprocess.Popen(sleep, start_new_session=True)\n"
        "with open('at-work', 'w') as fifo:\n"
        "    print(os.getpid(), started.pid, file=fifo)\n"
        "time.sleep(600)\n"
    )
    return deployment.directory


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interrupted_check_leaves_no_process(hanging: Path, number: signal.Signals, status: int) -> None:
    assert interrupted(hanging, number) == (status, [])


def _object(required: Mapping[str, Any]) -> Document:
    return {
        "type": "object",
        "properties": dict(required),
        "required": [*required],
        "additionalProperties": False,
    }


def _list(items: Mapping[str, Any]) -> Document:
    return {"type": "array", "items": dict(items)}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def _or_null(kind: Mapping[str, Any]) -> Document:
    return {"anyOf": [dict(kind), {"type": "null"}]}


def _one_of(words: Sequence[str]) -> Document:
    return {"enum": [*words]}


RESULT = _one_of(["ok", "warning", "error"])
SCHEMA = _object(
    {
        "file": TEXT,
        "deployment": _or_null(TEXT),
        "gateway": _or_null(TEXT),
        "mode": _one_of(["offline", "local", "online"]),
        "result": RESULT,
        "errors": NUMBER,
        "warnings": NUMBER,
        "not_tried": _list(TEXT),
        "open_network": _list(TEXT),
        "agents": _list(
            _object(
                {
                    "name": TEXT,
                    "result": RESULT,
                    "alike": _list(TEXT),
                    "seconds": NUMBER,
                    "served": _or_null(TEXT),
                    "agents": _list(TEXT),
                    "model": _or_null(TEXT),
                    "models": _list(TEXT),
                    "servers": _list(
                        _object(
                            {
                                "name": TEXT,
                                "transport": _one_of(["http", "sse", "stdio"]),
                                "address": TEXT,
                                "up": _or_null({"type": "boolean"}),
                                "latency": _or_null(NUMBER),
                                "trouble": _or_null(TEXT),
                            }
                        )
                    ),
                    "providers": _list(
                        _object(
                            {
                                "name": TEXT,
                                "up": {"type": "boolean"},
                                "latency": _or_null(NUMBER),
                                "trouble": _or_null(TEXT),
                                "counts": {"type": "boolean"},
                            }
                        )
                    ),
                }
            )
        ),
        "findings": _list(
            _object(
                {
                    "level": _one_of(["error", "warning"]),
                    "cause": _one_of(["configuration", "machine"]),
                    "agent": _or_null(TEXT),
                    "file": TEXT,
                    "line": _or_null({"type": "integer"}),
                    "field": TEXT,
                    "message": TEXT,
                    "remedy": TEXT,
                    "text": TEXT,
                    "output": TEXT,
                }
            )
        ),
    }
)


def test_what_stops_its_guard_ends_with_the_check(hanging: Path) -> None:
    (hanging / "stop").touch()
    assert interrupted(hanging, signal.SIGKILL) == (-signal.SIGKILL, [])
