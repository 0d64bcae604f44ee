"""The supervisor's end of the zygote, against small programs that speak its protocol and die when they like."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.spec import Descriptors
from pallas_supervisor.processes import zygote_client as module
from pallas_supervisor.processes.linux.process_tree import ProcessParent
from pallas_supervisor.processes.zygote_client import TRIES, Zygote, ZygoteError
from support.supervisor.processes import PATIENCE, descriptors, is_gone, nothing_leaked

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

PROGRAM = """
import os, socket, sys, time
import json
channel = socket.socket(fileno=int(sys.argv[1]))
{before}
while True:
    message, inherited, *_ = socket.recv_fds(channel, 65536, 16)
    if not message:
        break
    if not inherited:
        asked = json.loads(message)
        {on_import}
        channel.send(b'{{"ready": true}}')
        continue
    {on_spawn}
    channel.send(b'{{"pid": %d}}' % len(inherited))
    for descriptor in inherited:
        os.close(descriptor)
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with nothing_leaked():
        yield


class Programs(ProcessParent):
    """Gives the zygotes to come their programs, the last one again and again."""

    def __init__(self) -> None:
        self.programs: tuple[tuple[str, ...], ...] = ()
        self.started: list[int] = []

    def __call__(self, *programs: tuple[str, ...]) -> list[int]:
        """Take these; the list of the PIDs that there will be."""
        self.programs = programs
        return self.started

    def execute(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        inherited: Iterable[int],
        output: int | None,
    ) -> int:
        assert arguments[1:-1] == ["-P", "-m", "pallas_worker.process.zygote"]
        before, on_spawn, *on_import = self.programs[min(len(self.started), len(self.programs) - 1)]
        source = PROGRAM.format(
            before=before, on_spawn=on_spawn or "pass", on_import="".join(on_import) or "pass"
        )
        command = [sys.executable, "-ISc", source, arguments[-1]]
        self.started.append(super().execute(command, environment, inherited, output))
        return self.started[-1]


@pytest.fixture
def made() -> Programs:
    return Programs()


def with_zygote(made: Programs, do: Callable[[Zygote], Awaitable[None]]) -> None:
    async def run() -> None:
        zygote = Zygote(dict(os.environ), made)
        zygote.start()
        zygote.bring_in(())
        zygote.watch()
        async with asyncio.timeout(PATIENCE):
            await do(zygote)
            process = zygote._process
            zygote.close()
            if process is not None:
                await process.gone.wait()

    asyncio.run(run())


def spawn(zygote: Zygote) -> Awaitable[int]:
    return zygote.spawn(Descriptors(*[0] * len(Descriptors._fields)))


async def replaced(zygote: Zygote, pid: int) -> None:
    while zygote.pid in (pid, None):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.001)


async def readable(channel: socket.socket) -> None:
    """Wait until there is something to read, and leave it."""
    came = asyncio.Event()
    asyncio.get_running_loop().add_reader(channel, came.set)
    await came.wait()
    asyncio.get_running_loop().remove_reader(channel)


GOOD = ("", "")


def test_it_forks_with_all_descriptors(made: Programs) -> None:
    pids = made(GOOD)

    async def do(zygote: Zygote) -> None:
        assert [await spawn(zygote) for _ in range(3)] == [len(Descriptors._fields)] * 3
        assert [zygote.pid] == pids

    with_zygote(made, do)
    assert is_gone(pids[0])


def test_spawns_take_turns(made: Programs) -> None:
    made(GOOD)

    async def do(zygote: Zygote) -> None:
        assert await asyncio.gather(*(spawn(zygote) for _ in range(20))) == [len(Descriptors._fields)] * 20

    with_zygote(made, do)


def test_what_it_cannot_do_it_says(made: Programs) -> None:
    pids = made(("", """channel.send(b'{"error": "RuntimeError: more than one thread"}'); continue"""))

    async def do(zygote: Zygote) -> None:
        for _ in range(2):
            with pytest.raises(ZygoteError, match="more than one thread"):
                await spawn(zygote)
        assert len(pids) == 1, "that is no reason to make another"

    with_zygote(made, do)


@pytest.mark.parametrize(
    "dying",
    [
        ("", "os._exit(3)"),
        ("", "os.kill(os.getpid(), 9)"),
        ("", "channel.close(); time.sleep(3600)"),
        ("", "channel.send(b'no JSON')"),
        ("os._exit(3)", ""),
        ("channel.close(); time.sleep(3600)", ""),
    ],
)
def test_one_that_dies_while_a_worker_is_awaited_is_replaced(dying: tuple[str, str], made: Programs) -> None:
    pids = made(dying, GOOD)

    async def do(zygote: Zygote) -> None:
        with pytest.raises(ZygoteError, match="does not answer"):
            await spawn(zygote)
        assert is_gone(pids[0])
        assert await spawn(zygote) == len(Descriptors._fields), "the next one must not meet the dead one"
        assert len(pids) == 2

    with_zygote(made, do)


@pytest.mark.parametrize("_", range(10))
def test_a_kill_at_any_moment_costs_one_spawn_at_most(_: int, made: Programs) -> None:
    pids = made(GOOD)

    async def do(zygote: Zygote) -> None:
        await spawn(zygote)
        before = descriptors()
        for _ in range(10):
            assert zygote.pid is not None
            pending = asyncio.ensure_future(spawn(zygote))
            await asyncio.sleep(0)
            os.kill(zygote.pid, signal.SIGKILL)
            try:
                await pending
                await spawn(zygote)
            except ZygoteError:
                assert await spawn(zygote) == len(Descriptors._fields)
        assert len(descriptors()) <= len(before)

    with_zygote(made, do)
    assert all(map(is_gone, pids))


def test_a_death_that_is_noticed_before_the_end_of_its_channel_leaves_no_spawn_hanging(
    made: Programs,
) -> None:
    pids = made(("", "os._exit(3)"), GOOD)

    async def do(zygote: Zygote) -> None:
        pending = asyncio.ensure_future(spawn(zygote))
        process = zygote._process
        assert process is not None
        while not process.ready:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
        os.waitid(os.P_PIDFD, process.pidfd, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it ends by itself
        zygote._died(process)
        with pytest.raises(ZygoteError, match="ConnectionResetError"):
            await pending
        assert await spawn(zygote) == len(Descriptors._fields)
        assert len(pids) == 2

    with_zygote(made, do)


def test_one_that_dies_idle_is_made_again_at_once(made: Programs, caplog: pytest.LogCaptureFixture) -> None:
    pids = made(GOOD)

    async def do(zygote: Zygote) -> None:
        await spawn(zygote)
        os.kill(pids[0], signal.SIGKILL)
        await replaced(zygote, pids[0])
        assert await spawn(zygote) == len(Descriptors._fields)
        assert len(pids) == 2

    with_zygote(made, do)
    assert "the zygote died (killed by SIGKILL); running workers are not concerned" in caplog.messages


def test_one_that_never_comes_up_is_left_to_the_next_spawn(made: Programs) -> None:
    pids = made(("os._exit(1)", ""))

    async def do(zygote: Zygote) -> None:
        while zygote.pid is not None:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.001)
        assert len(pids) == TRIES
        for number in (TRIES + 1, TRIES + 2):
            with pytest.raises(ZygoteError):
                await spawn(zygote)
            assert len(pids) == number

    with_zygote(made, do)


def test_one_that_dies_before_anybody_asked_it_is_made_again_however_often(
    made: Programs,
) -> None:
    pids = made(GOOD)

    async def do(zygote: Zygote) -> None:
        for number in range(2 * TRIES):
            process = zygote._process
            assert process is not None
            await readable(process.channel)
            os.kill(pids[number], signal.SIGKILL)
            await replaced(zygote, pids[number])
        assert await spawn(zygote) == len(Descriptors._fields)
        assert len(pids) == 2 * TRIES + 1

    with_zygote(made, do)


def test_one_that_is_killed_while_it_comes_up_is_made_again(made: Programs) -> None:
    pids = made(("time.sleep(3600)", ""), GOOD)

    async def do(zygote: Zygote) -> None:
        os.kill(pids[0], signal.SIGKILL)
        await replaced(zygote, pids[0])
        assert await spawn(zygote) == len(Descriptors._fields)
        assert len(pids) == 2

    with_zygote(made, do)


def test_a_silent_one_is_not_waited_for_for_ever(made: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = made(("time.sleep(3600)", ""), GOOD)
    monkeypatch.setattr(module, "START_TIMEOUT", 0.01)

    async def do(zygote: Zygote) -> None:
        with pytest.raises(ZygoteError, match="TimeoutError"):
            await spawn(zygote)
        assert is_gone(pids[0])
        monkeypatch.setattr(module, "START_TIMEOUT", PATIENCE)
        assert await spawn(zygote) == len(Descriptors._fields)

    with_zygote(made, do)


def test_who_gives_up_waiting_for_it_costs_nobody_anything(made: Programs) -> None:
    pids = made(GOOD)

    async def do(zygote: Zygote) -> None:
        for _ in range(5):
            waiting = asyncio.ensure_future(zygote.ready())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await zygote.ready()
        assert [await spawn(zygote) for _ in range(3)] == [len(Descriptors._fields)] * 3
        assert len(pids) == 1

    with_zygote(made, do)


def test_waiting_for_one_that_dies_tells(made: Programs) -> None:
    made(("os._exit(3)", ""), GOOD)

    async def do(zygote: Zygote) -> None:
        with pytest.raises(ZygoteError, match="does not answer"):
            await zygote.ready()
        await zygote.ready()

    with_zygote(made, do)


def test_one_that_cannot_be_started_leaks_nothing() -> None:
    class Exhausted(ProcessParent):
        def execute(self, *_: object) -> int:
            raise OSError(12, "Cannot allocate memory")

    zygote = Zygote({}, Exhausted())
    with pytest.raises(OSError, match="Cannot allocate memory"):
        zygote.start()
    assert zygote.pid is None
    zygote.kill()
    zygote.close()


# --- what it imports ------------------------------------------------------------------------------------

IMPORTS = """
        for name in asked["modules"] + asked["models"]:
            channel.send(json.dumps({"importing": name}).encode())
            if name == "bad": channel.send(b'{"failed": "ImportError: no"}')
            if name == "loud": channel.send(b'{"printed": "hello"}')
            if name == "threads": channel.send(b'{"unsafe": "leaves a thread running"}'); os._exit(70)
            if name == "dies": os._exit(3)
            if name == "killed": os.kill(os.getpid(), 9)
            if name == "hangs": time.sleep(3600)
            with open(os.environ["SEEN"], "a") as file: file.write(name + " ")
"""


@pytest.fixture(autouse=True)
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the programs say what they have imported."""
    path = tmp_path / "seen"
    path.touch()
    monkeypatch.setenv("SEEN", str(path))


def with_modules(made: Programs, modules: list[str], do: Callable[[Zygote], Awaitable[None]]) -> list[int]:
    pids = made(("", "", IMPORTS))
    places = {name: f"agents.yaml:{line}" for line, name in enumerate(modules, start=1)}

    async def run() -> None:
        zygote = Zygote(dict(os.environ), made, places)
        zygote.start()
        zygote.bring_in(["first"])
        zygote.watch()
        async with asyncio.timeout(PATIENCE):
            await do(zygote)
            await zygote.end()

    asyncio.run(run())
    return pids


def imported() -> str:
    return Path(os.environ["SEEN"]).read_text()


async def forks(zygote: Zygote) -> None:
    assert await spawn(zygote) == len(Descriptors._fields)


def test_it_imports_what_is_asked_for_before_it_forks(made: Programs) -> None:
    async def do(zygote: Zygote) -> None:
        await forks(zygote)
        assert imported() == "one two first "

    assert len(with_modules(made, ["one", "two"], do)) == 1


def test_what_is_learnt_later_is_imported_once_and_by_the_next_one_too(made: Programs) -> None:
    async def do(zygote: Zygote) -> None:
        await forks(zygote)
        for _ in range(3):
            zygote.bring_in(["first", "second"])
        await asyncio.sleep(0)  # or else the fork comes first
        await forks(zygote)
        assert imported() == "first second "
        zygote.kill()
        await replaced(zygote, made.started[0])
        await forks(zygote)
        await forks(zygote)
        assert imported() == "first second first second "

    assert len(with_modules(made, [], do)) == 2


def test_what_cannot_be_imported_or_prints_is_told_with_its_place(
    made: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    async def do(zygote: Zygote) -> None:
        await forks(zygote)
        assert imported() == "bad loud last first "

    assert len(with_modules(made, ["bad", "loud", "last"], do)) == 1
    assert caplog.messages == [
        "agents.yaml:1: preload: bad cannot be imported: ImportError: no",
        "agents.yaml:2: preload: loud has printed while it was imported: hello",
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("threads", "leaves a thread running"),
        ("dies", "ends the process that imports it (exit status 3)"),
        ("hangs", "takes longer than 1 s to be imported"),
    ],
)
@pytest.mark.parametrize("awaited", [True, False])
def test_what_a_zygote_does_not_survive_is_left_out(
    name: str,
    why: str,
    awaited: bool,
    made: Programs,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "IMPORT_TIMEOUT", 1.0)

    async def do(zygote: Zygote) -> None:
        if not awaited and name != "hangs":  # which only shows to who waits
            while len(made.started) == 1:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.001)
        await asyncio.gather(*(forks(zygote) for _ in range(3)))
        assert imported() == "one one two first "
        assert len(made.started) == 2

    with_modules(made, ["one", name, "two"], do)
    assert caplog.messages == [
        (
            f"agents.yaml:2: preload: {name} {why}: the zygote starts anew without it, "
            "and agents that use it import it themselves"
        )
    ]


def test_a_model_whose_library_kills_is_left_out_between_two_forks(made: Programs) -> None:
    async def do(zygote: Zygote) -> None:
        await forks(zygote)
        zygote.bring_in(["dies", "third"])
        await asyncio.sleep(0)  # or else the fork comes first
        await forks(zygote)
        assert imported() == "first first third "

    assert len(with_modules(made, [], do)) == 2


def test_one_that_is_killed_from_outside_while_it_imports_is_tried_again(made: Programs) -> None:
    async def do(zygote: Zygote) -> None:
        with pytest.raises(ZygoteError):
            await zygote.ready()
        await replaced(zygote, made.started[0])
        assert zygote._left_out == set()

    with_modules(made, ["killed"], do)


def test_another_list_of_modules_makes_a_new_one(made: Programs) -> None:
    async def do(zygote: Zygote) -> None:
        await forks(zygote)
        zygote.take_modules({"one": "agents.yaml:7"})
        await forks(zygote)
        assert len(made.started) == 1, "a line that has moved is no change"
        zygote.take_modules({"two": "agents.yaml:1"})
        await asyncio.sleep(0)  # or else the fork comes first
        await forks(zygote)
        await forks(zygote)
        assert imported() == "one first two first "

    assert len(with_modules(made, ["one"], do)) == 2


def test_one_that_has_imported_what_has_changed_since_is_replaced(
    made: Programs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stale = """channel.send(b'{"stale": "my/models.py"}'); continue"""
    pids = made(("", stale), GOOD)

    async def do(zygote: Zygote) -> None:
        await forks(zygote)

    with_zygote(made, do)
    assert len(pids) == 2
    assert caplog.messages == [
        "my/models.py, which the zygote has imported, has changed: the zygote starts anew"
    ]
