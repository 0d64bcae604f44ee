"""Workers from spawn to reap: events in order, nothing left of a dead one, nothing leaked. Real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.processes import spawning
from pallas_common.processes.descriptors import withhold_all
from pallas_common.processes.tree import OWNER_VARIABLE
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.reports import FailedReport, Report, encode_report
from pallas_common.protocol.spec import EXIT_FAILURE, EXIT_OUT_OF_MEMORY, WorkerSpec
from pallas_supervisor.lifecycle.events import Died, Reaped, Spawned, SpawnFailed
from pallas_supervisor.lifecycle.states import Exit, WorkerId
from pallas_supervisor.logs.router import LogRouter
from pallas_supervisor.processes import launcher as launch
from pallas_supervisor.processes.launcher import Launcher
from pallas_supervisor.processes.linux.process_tree import children, owner_of
from pallas_supervisor.processes.pipes.intake import Intake
from pallas_supervisor.processes.starter import LaunchContext
from pallas_supervisor.processes.zygote_client import ZygoteError
from support.fleet.control_groups import groups_of_a_test, needs_control_groups
from support.supervisor.processes import (
    PATIENCE,
    Events,
    is_gone,
    nothing_leaked,
    program,
    subreaper,
    until_written,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from pallas_common.protocol.spec import Descriptors
    from pallas_supervisor.processes.linux.cgroups import Groups

RESEARCH, JARVIS = WorkerId("research", 1), WorkerId("jarvis", 1)

WORKER = """
import os, signal, sys, time
spec, listener, lifeline, report, records, output = map(int, sys.argv[-1].split(","))
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with nothing_leaked(), subreaper():
        yield


class Bench:
    """A launcher whose workers are the test's own programs."""

    def __init__(self, interpreter: str | None, zygote: Any = None, groups: Groups | None = None) -> None:
        self.events = Events()
        self.reports: list[Report] = []
        self.lines: list[bytes] = []
        self.gone: list[WorkerId] = []
        self.interpreter = interpreter
        self.intake = Intake(lambda _worker_id, report: self.reports.append(report), self.router())
        context = LaunchContext(
            zygote=zygote,
            prepare=lambda worker_id: self.prepare(worker_id),
            interpreter=lambda _name: self.interpreter,
            listener=lambda _name: 0,
            pipes=self.intake,
            groups=groups,
        )
        self.launcher = Launcher(
            context,
            emit=lambda _name, event: self.events.put(event),
            gone=lambda worker_id: self.take_gone(worker_id),
        )
        self.memory_limit: int | None = None
        self.prepare: Callable[[WorkerId], Awaitable[WorkerSpec]] = self.specification
        self.take_gone: Callable[[WorkerId], None] = self.gone.append

    def router(self) -> LogRouter:
        return LogRouter(self.lines.append)

    async def specification(self, worker_id: WorkerId) -> WorkerSpec:
        name, generation = worker_id
        return WorkerSpec(
            agent=name,
            source=AgentSource("module", "agents.research"),
            title="Research",
            description="Finds things out",
            version="1.0.0",
            deployment="demo",
            port=24201,
            generation=generation,
            directory="/",
            allowed_hosts=("localhost",),
            metrics_directory="/nowhere",
            metrics_slot="a1",
            stop_timeout=10.0,
            log_level="INFO",
            root_log_level="INFO",
            memory_limit=self.memory_limit,
            environment={**os.environ, OWNER_VARIABLE: f"{name}/{generation}"},
        )

    async def spawned(self, name: str = "research", generation: int = 1) -> int:
        self.launcher.spawn(WorkerId(name, generation))
        event = await self.events.next()
        assert isinstance(event, Spawned), event
        assert event.generation == generation
        worker = self.launcher.worker(WorkerId(name, generation))
        assert worker is not None
        assert worker.pid == event.pid
        return event.pid

    async def reaped(self, exit_: Exit, generation: int = 1, name: str = "research") -> None:
        assert await self.events.next() == Died(generation, exit_)
        self.launcher.reap(WorkerId(name, generation))
        assert await self.events.next() == Reaped(generation)
        assert self.launcher.worker(WorkerId(name, generation)) is None
        assert self.gone[-1] == (name, generation)


def on_bench(
    do: Callable[[Bench], Awaitable[None]],
    interpreter: str | None = None,
    zygote: Any = None,
    groups: Groups | None = None,
) -> None:
    async def run() -> None:
        bench = Bench(interpreter, zygote, groups)
        try:
            async with asyncio.timeout(60.0):
                await do(bench)
        finally:
            await bench.launcher.close()

    asyncio.run(run())


def test_a_worker_lives_and_dies(tmp_path: Path) -> None:
    report = encode_report(FailedReport(message="ImportError: no module named x", permanent=True))
    worker = program(
        tmp_path / "worker",
        WORKER + f"os.write(report, {report!r}); print('hello'); sys.stdout.flush(); os._exit(78)",
    )

    async def do(bench: Bench) -> None:
        pid = await bench.spawned()
        await bench.reaped(Exit(status=78))
        assert is_gone(pid)
        assert bench.reports == [FailedReport(message="ImportError: no module named x", permanent=True)]
        assert len(bench.lines) == 1
        assert b'"message": "hello"' in bench.lines[0]

    on_bench(do, worker)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 60_000,
        b'{"kind":"health","status":"ok","timestamp":"now","downstreams":[[1]]}',
        b'{"kind":"heartbeat","interval":NaN}',
    ],
)
def test_a_death_is_told_whatever_the_worker_has_written(line: bytes, tmp_path: Path) -> None:
    report = encode_report(FailedReport(message="why", permanent=True))
    written = line + b"\n" + report
    worker = program(tmp_path / "worker", WORKER + f"os.write(report, {written!r}); os._exit(78)")

    async def do(bench: Bench) -> None:
        await bench.spawned()
        await bench.reaped(Exit(status=78))
        assert bench.reports == [FailedReport(message="why", permanent=True)]

    on_bench(do, worker)


def test_a_worker_gets_its_specification_and_a_clean_slate(tmp_path: Path) -> None:
    told = tmp_path / "told"
    worker = program(
        tmp_path / "worker",
        WORKER
        + f"""
import json
data = json.loads(os.pread(spec, 1 << 20, 0))
expected = {{0, 1, 2, spec, listener, lifeline, report, records, output}}
extra = {{int(name) for name in os.listdir("/proc/self/fd")}} - expected
extra = {{number for number in extra if os.path.exists(f"/proc/self/fd/{{number}}")}}
answers = [data["agent"], data["generation"], len(extra), os.getsid(0) == os.getpid()]
with open({str(told)!r}, "w") as file:
    print(*answers, os.environ["{OWNER_VARIABLE}"], repr(sys.stdin.read()), file=file)
""",
    )

    async def do(bench: Bench) -> None:
        os.set_inheritable(inherited := os.dup(0), True)
        withhold_all()
        await bench.spawned(generation=7)
        os.close(inherited)
        await bench.reaped(Exit(status=0), generation=7)
        assert told.read_text() == "research 7 0 True research/7 ''\n"

    on_bench(do, worker)


def test_terminate_asks_and_kill_does_not(tmp_path: Path) -> None:
    told = tmp_path / "told"
    polite = program(
        tmp_path / "polite",
        WORKER
        + f"signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\nprint(1, file=open({str(told)!r}, 'w', 1))\n"
        "while True: time.sleep(3600)",
    )

    async def do(bench: Bench) -> None:
        await bench.spawned()
        until_written(told)
        bench.launcher.terminate(WorkerId("research", 2))
        bench.launcher.kill(JARVIS)
        bench.launcher.terminate(RESEARCH)
        await bench.reaped(Exit(status=0))
        await bench.spawned(generation=2)
        bench.launcher.kill(WorkerId("research", 2))
        await bench.reaped(Exit(signal=signal.SIGKILL), generation=2)

    on_bench(do, polite)


def test_a_reap_leaves_neither_group_nor_strays(tmp_path: Path) -> None:
    told = tmp_path / "told"
    worker = program(
        tmp_path / "worker",
        WORKER
        + f"""
def linger():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with open({str(told)!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    time.sleep(3600)

if os.fork() == 0:
    linger()                       # in the group
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        linger()                   # a daemon, adopted at once
    os._exit(0)
if os.fork() == 0:
    os.setpgid(0, 0)
    linger()                       # in the session, in a group of its own
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        linger()                   # a stray's own stray
    linger()
time.sleep(3600)
""",
    )

    async def do(bench: Bench) -> None:
        pid = await bench.spawned()
        while len(lingering := until_written(told).split()) < 5:
            pass
        bench.launcher.kill(RESEARCH)
        await bench.reaped(Exit(signal=signal.SIGKILL))
        assert all(is_gone(process) for process in (pid, *map(int, lingering)))

    on_bench(do, worker)


def test_a_reap_leaves_other_workers_alone(tmp_path: Path) -> None:
    worker = program(tmp_path / "worker", WORKER + "time.sleep(3600)")

    async def do(bench: Bench) -> None:
        await bench.spawned("research")
        jarvis = await bench.spawned("jarvis")
        bench.launcher.kill(RESEARCH)
        await bench.reaped(Exit(signal=signal.SIGKILL))
        assert not is_gone(jarvis)
        assert bench.events.empty
        bench.launcher.kill(JARVIS)
        await bench.reaped(Exit(signal=signal.SIGKILL), name="jarvis")

    on_bench(do, worker)


JOIN = """
import json
told = json.loads(os.pread(spec, 1 << 20, 0))
if told["cgroup"] is not None:
    open(told["cgroup"] + "/cgroup.procs", "w").write("0")
"""

DAEMON_MAKER = """
if told["agent"] == "research" and os.fork() == 0:
    if LEAVES:
        os.setsid()
    if os.fork() == 0:
        if MUTE:
            silent = os.open("/dev/null", os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(silent, number)
        os.execve("/bin/sh", ["sh", "-c", "echo $$ > TOLD; exec sleep 3600"], {})
    os._exit(0)
time.sleep(3600)
"""
"""Research makes a daemon that bears no sign of it: no title, no environment, if MUTE no pipe,
and if LEAVES not its session."""


async def daemon_of_research(bench: Bench, told: Path, first: Sequence[str], then: Sequence[str]) -> int:
    """Spawn research and its daemon, with other agents before and after; the daemon, adopted and bare."""
    for name in first:
        await bench.spawned(name)
    await bench.spawned("research")
    daemon = int(until_written(told))
    async with asyncio.timeout(PATIENCE):
        while daemon not in children() or owner_of(daemon) is not None:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)
    for name in then:
        await asyncio.sleep(0.02)  # the kernel counts starts in hundredths of a second
        await bench.spawned(name)
    return daemon


@pytest.mark.parametrize(
    ("mute", "leaves", "first", "then", "grouped"),
    [
        (False, True, ["jarvis"], [], False),
        (True, False, ["jarvis"], [], False),
        (True, True, [], ["jarvis"], False),
        pytest.param(True, True, ["jarvis"], [], True, marks=needs_control_groups),
    ],
    ids=["by its pipes", "by its session", "by its age", "by its control group"],
)
def test_a_daemon_without_a_sign_outlives_other_workers_but_not_its_own(
    mute: bool, leaves: bool, first: list[str], then: list[str], grouped: bool, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    source = DAEMON_MAKER.replace("TOLD", str(told)).replace("MUTE", str(mute)).replace("LEAVES", str(leaves))
    worker = program(tmp_path / "worker", WORKER + JOIN + source)

    async def do(bench: Bench) -> None:
        daemon = await daemon_of_research(bench, told, first, then)
        bench.launcher.kill(JARVIS)
        await bench.reaped(Exit(signal=signal.SIGKILL), name="jarvis")
        assert not is_gone(daemon)
        bench.launcher.kill(RESEARCH)
        await bench.reaped(Exit(signal=signal.SIGKILL))
        assert is_gone(daemon)

    with contextlib.ExitStack() as stack:
        groups = stack.enter_context(groups_of_a_test()) if grouped else None
        on_bench(do, worker, groups=groups)
        assert groups is None or groups.leftovers() == []


@needs_control_groups
def test_whatever_goes_wrong_leaves_no_group_behind(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        bench.launcher.spawn(RESEARCH)
        assert isinstance(await bench.events.next(), SpawnFailed)

    with groups_of_a_test() as groups:
        on_bench(do, str(tmp_path / "nowhere"), groups=groups)
        assert groups.leftovers() == []


@pytest.mark.parametrize(("limit", "reason"), [(2**30, "out of memory"), (None, None)])
def test_an_exit_for_want_of_memory_says_so(limit: int | None, reason: str | None, tmp_path: Path) -> None:
    worker = program(tmp_path / "worker", WORKER + f"os._exit({EXIT_OUT_OF_MEMORY})")

    async def do(bench: Bench) -> None:
        bench.memory_limit = limit
        await bench.spawned()
        await bench.reaped(Exit(status=EXIT_OUT_OF_MEMORY, reason=reason))

    on_bench(do, worker)


def test_a_kill_may_have_a_reason(tmp_path: Path) -> None:
    worker = program(tmp_path / "worker", WORKER + "time.sleep(3600)")

    async def do(bench: Bench) -> None:
        await bench.spawned()
        bench.launcher.kill(RESEARCH, reason="out of memory")
        bench.launcher.kill(RESEARCH)
        await bench.reaped(Exit(signal=signal.SIGKILL, reason="out of memory"))

    on_bench(do, worker)


def test_a_reap_leaves_children_of_an_earlier_life_alone(tmp_path: Path) -> None:
    """A start script's `log-shipper & exec pallas` makes the shipper the supervisor's child."""
    worker = program(tmp_path / "worker", "")
    earlier = spawning.execute([sys.executable, "-ISc", "import time; time.sleep(3600)"], {}, [], None)

    async def do(bench: Bench) -> None:
        await bench.spawned()
        await bench.reaped(Exit(status=0))
        bench.launcher.reap_adopted()
        assert not is_gone(earlier)

    on_bench(do, worker)
    os.kill(earlier, signal.SIGKILL)
    os.waitpid(earlier, 0)


def test_an_interpreter_that_is_not_there_is_no_matter_of_patience(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        bench.launcher.spawn(RESEARCH)
        event = await bench.events.next()
        assert isinstance(event, SpawnFailed)
        assert event.permanent
        assert "No such file or directory" in event.message
        assert str(tmp_path / "nowhere") in event.message

    on_bench(do, str(tmp_path / "nowhere"))


def test_whatever_goes_wrong_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        async def refuse(_worker_id: WorkerId) -> WorkerSpec:
            raise ValueError("embedded null byte")

        bench.prepare = refuse
        bench.launcher.spawn(RESEARCH)
        assert await bench.events.next() == SpawnFailed(1, "cannot be started: embedded null byte")

    on_bench(do, sys.executable)
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("left", range(9))
def test_a_spawn_without_enough_descriptors_fails_and_leaks_nothing(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`left` descriptors can still be made: a memory file, two copies, three pipes, a pidfd."""
    worker = program(tmp_path / "worker", WORKER + "time.sleep(3600)")
    remaining = left

    def limited[**P, T](make: Callable[P, T]) -> Callable[P, T]:
        def made(*arguments: P.args, **keywords: P.kwargs) -> T:
            nonlocal remaining
            if remaining == 0:
                raise OSError(24, "Too many open files")
            remaining -= 1
            return make(*arguments, **keywords)

        return made

    async def do(bench: Bench) -> None:
        for name in ("memfd_create", "dup", "pipe", "pidfd_open"):
            monkeypatch.setattr(os, name, limited(getattr(os, name)))
        bench.launcher.spawn(RESEARCH)
        event = await bench.events.next()
        monkeypatch.undo()
        if isinstance(event, Spawned):
            assert left >= 7
            bench.launcher.kill(RESEARCH)
            await bench.reaped(Exit(signal=signal.SIGKILL))
        else:
            assert left < 7
            assert event == SpawnFailed(
                1, "cannot be started: [Errno 24] Too many open files", exhausted=True
            )
            assert bench.gone == [RESEARCH], "it holds nothing any more"

    on_bench(do, worker)


class FailingZygote:
    """A zygote that fails, so many times."""

    pid = None

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    def watch(self) -> None:
        pass

    async def ready(self) -> None:
        pass

    async def end(self) -> None:
        pass

    async def spawn(self, descriptors: Descriptors) -> int:
        self.asked += 1
        if self.asked <= self.failures:
            raise ZygoteError("the zygote does not answer (TimeoutError)")
        arguments = [sys.executable, "-ISc", "import time; time.sleep(3600)"]
        return spawning.execute(arguments, os.environ, [], descriptors.output)


class ZygoteThatImports(FailingZygote):
    """A zygote that is never ready."""

    awaited = 0

    async def ready(self) -> None:
        self.awaited += 1
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_start_that_waits_for_the_zygote_can_be_called_off(end: str) -> None:
    zygote = ZygoteThatImports(0)

    async def do(bench: Bench) -> None:
        bench.launcher.spawn(RESEARCH)
        bench.launcher.spawn(JARVIS)
        while zygote.awaited < 2:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
        getattr(bench.launcher, end)(RESEARCH)
        event = await bench.events.next()
        assert event == SpawnFailed(1, "cannot be started: the zygote, which forks it, was not ready yet")
        assert bench.gone == [RESEARCH]
        bench.launcher.kill(JARVIS)
        await bench.events.next()
        assert zygote.asked == 0

    on_bench(do, None, zygote)


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_start_whose_files_are_still_read_can_be_called_off(end: str) -> None:
    zygote = ZygoteThatImports(0)

    async def do(bench: Bench) -> None:
        reading = asyncio.Event()

        async def prepare(_worker_id: WorkerId) -> WorkerSpec:
            reading.set()
            never: asyncio.Future[WorkerSpec] = asyncio.get_running_loop().create_future()
            return await never

        bench.prepare = prepare
        bench.launcher.spawn(RESEARCH)
        await reading.wait()
        getattr(bench.launcher, end)(RESEARCH)
        event = await bench.events.next()
        assert event == SpawnFailed(1, "cannot be started: its files were still being read")
        assert bench.gone == [RESEARCH]
        assert zygote.awaited == 0

    on_bench(do, None, zygote)


def test_a_kill_spares_whoever_has_the_number_of_an_empty_group_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent of which something cannot be killed may be started again long afterwards."""
    path = program(tmp_path / "worker", "")

    async def do(bench: Bench) -> None:
        await bench.spawned()
        assert await bench.events.next() == Died(1, Exit(status=0))
        worker = bench.launcher.worker(RESEARCH)
        assert worker is not None
        while not worker.group_empty:
            bench.launcher._reaper.clean_up(worker)
        assert is_gone(worker.pid)
        killed: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", lambda group, _number: killed.append(group))
            bench.launcher.kill(RESEARCH)
        assert killed == []
        bench.launcher.reap(RESEARCH)
        assert await bench.events.next() == Reaped(1)

    on_bench(do, path)


def test_a_reap_outlasts_a_time_without_descriptors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(launch, "BLIND_INTERVAL", 0.01)
    stray = "if os.fork() == 0: os.setsid(); time.sleep(3600)"
    worker = program(tmp_path / "worker", f"{WORKER}\n{stray}\ntime.sleep(3600)")

    async def do(bench: Bench) -> None:
        pid = await bench.spawned()
        os.kill(pid, signal.SIGKILL)
        assert isinstance(await bench.events.next(), Died)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            bench.launcher.reap(RESEARCH)
            bench.launcher.reap_adopted()
            await asyncio.sleep(0.05)
            assert bench.launcher.worker(RESEARCH) is not None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await bench.events.next() == Reaped(1)

    on_bench(do, worker)
    assert caplog.messages == []


@pytest.mark.parametrize(("failures", "asked"), [(0, 1), (1, 2), (2, 2)])
def test_a_zygote_that_fails_twice_is_done_without(
    failures: int, asked: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    zygote = FailingZygote(failures)
    monkeypatch.setattr(sys, "executable", program(tmp_path / "python", WORKER + "time.sleep(3600)"))
    if failures < 2:
        monkeypatch.undo()

    async def do(bench: Bench) -> None:
        await bench.spawned()
        assert zygote.asked == asked
        bench.launcher.kill(RESEARCH)
        await bench.reaped(Exit(signal=signal.SIGKILL))

    on_bench(do, None, zygote)


def test_metrics_that_cannot_be_tidied_do_not_hold_up_a_reap(tmp_path: Path) -> None:
    worker = program(tmp_path / "worker", "")

    async def do(bench: Bench) -> None:
        def fail(_worker_id: WorkerId) -> None:
            raise OSError(30, "Read-only file system")

        bench.take_gone = fail
        await bench.spawned()
        assert await bench.events.next() == Died(1, Exit(status=0))
        bench.launcher.reap(RESEARCH)
        assert await bench.events.next() == Reaped(1)

    on_bench(do, worker)


@pytest.mark.parametrize("method", ["drain", "close"])
def test_a_death_is_told_whatever_is_wrong_with_the_pipes(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = program(tmp_path / "worker", "import time; time.sleep(3600)")

    async def do(bench: Bench) -> None:
        good = getattr(bench.intake, method)

        def fail(worker_id: WorkerId) -> None:
            good(worker_id)
            raise RecursionError("maximum recursion depth exceeded")

        await bench.spawned()
        monkeypatch.setattr(bench.intake, method, fail)
        bench.launcher.kill(RESEARCH)
        await bench.reaped(Exit(signal=signal.SIGKILL))

    on_bench(do, worker)
    assert "research: cannot be settled" in caplog.text


def test_one_whose_exit_nobody_knows_has_ended_nevertheless(tmp_path: Path) -> None:
    """Say because a library of ours, or a debugger's user, has waited for it first."""
    worker = program(tmp_path / "worker", "")

    async def do(bench: Bench) -> None:
        pid = await bench.spawned()
        os.waitpid(pid, 0)  # noqa: ASYNC222 - it ends by itself
        await bench.reaped(Exit(status=EXIT_FAILURE))

    on_bench(do, worker)


def test_zombies_are_reaped_once_no_spawn_is_pending() -> None:
    async def do(bench: Bench) -> None:
        pid = spawning.execute([sys.executable, "-ISc", ""], os.environ, [], None)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it ends by itself
        pending = asyncio.get_running_loop().create_future()
        bench.launcher._spawning.add(pending)  # type: ignore[arg-type]  # a future does for a task
        bench.launcher.reap_adopted()
        assert not is_gone(pid), "it may be the worker that is being spawned"
        bench.launcher._spawned(pending)  # type: ignore[arg-type]  # a future does for a task
        assert is_gone(pid)

    on_bench(do)
