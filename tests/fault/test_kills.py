"""SIGKILL for every kind of process of a fleet: what dies comes back, what does not die does not notice."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from typing import TYPE_CHECKING

import psutil

from support.clients import send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet, Record

if TYPE_CHECKING:
    from pathlib import Path


def test_any_worker_killed_is_restarted_and_the_others_do_not_notice(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one", "two", "three")
    with Fleet(deployment) as fleet:
        fleet.wait()
        for name in ("one", "two", "three"):
            before = fleet.pids()
            new = fleet.kill(name)
            after = fleet.pids()
            assert new != before[name]
            assert {**before, name: new} == after
            assert fleet.agent(name)["last_exit"] == "killed by SIGKILL"
            assert asyncio.run(send_message(deployment.url(name), "still there?")) == "still there?"


def test_five_failures_in_a_row_are_the_last_and_start_brings_the_agent_back(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "steady")
    deployment.add("shaky", "crashes")
    with Fleet(deployment) as fleet:
        fleet.wait("shaky", until="settled")
        shaky = fleet.agent("shaky")
        assert (shaky["state"], shaky["failures"], shaky["restarts"]) == ("failed", 5, 4)
        assert "exit status 9" in shaky["message"]
        pid = fleet.agent("steady")["pid"]
        source = deployment.directory / "agents"
        (source / "shaky.py").write_text((source / "steady.py").read_text())
        started = fleet.ctl("start", "shaky")
        assert started.returncode == 0, started.stderr
        assert fleet.agent("shaky")["state"] == "ready"
        assert fleet.agent("shaky")["failures"] == 0
        assert fleet.agent("steady")["pid"] == pid


def test_the_zygote_killed_goes_unnoticed_and_the_next_start_works(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one", "two")
    with Fleet(deployment) as fleet:
        fleet.wait()
        before = fleet.pids()
        zygote = fleet.zygote()
        with fleet.follow() as log:
            zygote.kill()
            log.until(lambda record: "the zygote died" in record["message"])
        assert fleet.pids() == before
        new = fleet.kill("one")
        assert fleet.pids() == {**before, "one": new}
        assert fleet.zygote().pid != zygote.pid


def test_the_keeper_killed_goes_unnoticed_and_nothing_is_left_in_the_end(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one", "two")
    with Fleet(deployment) as fleet:
        fleet.wait()
        before, keeper = fleet.pids(), fleet.keeper()
        with fleet.follow() as log:
            os.kill(keeper.pid, signal.SIGKILL)
            log.until(lambda record: "the keeper of workers has gone" in record["message"])
            log.until(lambda record: "the zygote died" in record["message"])
        assert fleet.pids() == before
        new = fleet.kill("one")
        assert fleet.pids() == {**before, "one": new}
        assert fleet.keeper().pid != keeper.pid
        assert psutil.Process(new).ppid() == fleet.keeper().pid
        fleet.kill("two")
        there = fleet.processes()
        assert fleet.stop() == 0
        assert not any(process.is_running() for process in there)


def test_the_supervisor_killed_takes_everything_along_and_a_second_start_works_at_once(
    tmp_path: Path,
) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one", "two", "three")
    fleet = Fleet(deployment)
    with fleet:
        fleet.wait()
        spare = fleet.spare()
        # What the zygote forks the spare by ends a moment later.
        fleet.await_that(
            lambda: len(fleet.processes()) == 7,
            "the supervisor, its keeper and zygote, a spare and the workers",
        )
        orphans = fleet.processes()[1:]
        for pid in (spare.pid, fleet.agent("two")["pid"]):  # which cannot act by themselves
            os.kill(pid, signal.SIGSTOP)
        os.kill(fleet.pid, signal.SIGKILL)
        fleet.process.wait()  # type: ignore[union-attr]  # it was started
        fleet.start()
        fleet.wait()
        _, alive = psutil.wait_procs(orphans, timeout=60)
        assert not alive
        assert fleet.stop() == 0


def test_nothing_is_left_of_grandchildren_that_hide(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "plain")
    deployment.add("parent")
    module = deployment.directory / "agents" / "parent.py"
    module.write_text(
        module.read_text()
        + """
import os, signal, subprocess
stubborn = "trap '' TERM; setsid sleep 1002 & exec sleep 1003"
commands = (["sleep", "1000"], ["setsid", "sleep", "1001"], ["sh", "-c", stubborn])
pids = [subprocess.Popen(command).pid for command in commands]
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        while True:
            signal.pause()
    os._exit(0)
pids.append(int(os.read(reader, 20)))
with open("pids.txt", "w") as file:
    print(*pids, file=file)
"""
    )
    with Fleet(deployment) as fleet:
        fleet.wait()
        worker = psutil.Process(fleet.agent("parent")["pid"])
        pids = [int(line) for line in (deployment.directory / "pids.txt").read_text().split()]
        hidden = [psutil.Process(pid) for pid in pids] + worker.children(recursive=True)
        assert len(pids) == 4
        plain = fleet.agent("plain")["pid"]
        assert fleet.ctl("stop", "parent").returncode == 0
        _, alive = psutil.wait_procs(hidden, timeout=60)
        assert not alive
        assert fleet.agent("plain")["pid"] == plain


def test_counters_survive_kills_and_never_go_back(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "counted", "other")
    url = deployment.url("counted")

    def counted() -> float:
        import httpx
        from prometheus_client.parser import text_string_to_metric_families

        text = httpx.get(f"{deployment.registry}/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "pallas_send_message_total" and sample.labels["agent"] == "counted"
        )

    def is_counted_in(state: str, record: Record) -> bool:
        return record.get("agent") == "counted" and record.get("state") == state

    with Fleet(deployment) as fleet:
        fleet.wait()
        seen = [counted()]
        for round_ in range(1, 4):
            for _ in range(5):
                asyncio.run(send_message(url, "count me"))
                seen.append(counted())
            assert seen[-1] == 5 * round_
            with fleet.follow() as log:
                os.kill(fleet.agent("counted")["pid"], signal.SIGKILL)
                for state in ("killing", "starting", "ready"):
                    log.until(partial(is_counted_in, state))
                    seen.append(counted())
            assert seen[-1] == 5 * round_
        assert seen == sorted(seen)
