"""The faults of a campaign: what each does to the fleet, and which agents it may touch.

Knows how to hurt; what has to hold afterwards is `campaign`'s affair. A fault ends when it has been taken back, where
somebody has to take it back; an agent that it does not name must not notice.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import resource
import signal
import time
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import yaml

from support.faults.campaign import AGENTS, LEAVES, PATIENCE, Fault
from support.faults.clock import DAY
from support.faults.hostile_faults import HOSTILE_FAULTS
from support.fleet.deployment import PASSTHROUGH

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from support.faults.campaign import Campaign

EXHAUSTION = 0.7
"""Seconds for which the supervisor has no descriptor left."""

SHORT = 1.5
"""Seconds of a freeze that is nobody's death: half of what `campaign.LIVENESS` allows."""


def dependents(agent: str) -> tuple[str, ...]:
    """The agent, and what restarts because it does."""
    return (agent, "gamma") if agent == "beta" else (agent,)


# --- workers that end -------------------------------------------------------------------------------------


def _kill(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(AGENTS)
    campaign.kill(agent)
    return dependents(agent)


def _kill_all(campaign: Campaign) -> Collection[str]:
    pids = [campaign.pid(agent) for agent in AGENTS]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        campaign.await_death(pid)
    return AGENTS


def _kill_again_and_again(campaign: Campaign) -> Collection[str]:
    for _ in range(3):
        campaign.kill("delta")
        campaign.fleet.wait("delta")
    return ("delta",)


def _terminate(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(LEAVES)
    pid = campaign.pid(agent)
    os.kill(pid, signal.SIGTERM)
    campaign.await_death(pid)
    return (agent,)


def _order_and_end(campaign: Campaign, do: str, **details: Any) -> Collection[str]:
    agent = campaign.rng.choice(LEAVES)
    pid = campaign.pid(agent)
    campaign.orders.tell(agent, do, **details)
    campaign.await_death(pid)
    return (agent,)


def _exit(campaign: Campaign) -> Collection[str]:
    return _order_and_end(campaign, "exit", status=campaign.rng.choice([0, 1, 2, 70, 77, 127, 255]))


def _signal(campaign: Campaign) -> Collection[str]:
    number = campaign.rng.choice(
        [signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGQUIT]
    )
    return _order_and_end(campaign, "signal", number=int(number))


def _segfault(campaign: Campaign) -> Collection[str]:
    return _order_and_end(campaign, "segfault")


def _out_of_memory(campaign: Campaign) -> Collection[str]:
    return _order_and_end(campaign, "eat memory")


def _exit_for_good(campaign: Campaign) -> Collection[str]:
    """Exit status 78 says that a restart cannot help: the agent stays down until somebody starts it."""
    agent = "delta"
    campaign.orders.tell(agent, "exit", status=78)
    campaign.fleet.wait(agent, until="settled")
    with campaign.fleet.follow() as log:
        if campaign.fleet.agent(agent)["state"] != "failed":
            log.until(lambda record: record.get("agent") == agent and record.get("state") == "failed")
    assert campaign.fleet.post("/v1/start", agents=[agent]).json()["done"]
    return (agent,)


# --- workers that hang ------------------------------------------------------------------------------------


def _freeze(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(("alpha", "delta", "late"))
    pid = campaign.pid(agent)
    os.kill(pid, signal.SIGSTOP)
    campaign.await_death(pid)
    return (agent,)


def _block_the_loop(campaign: Campaign) -> Collection[str]:
    pid = campaign.pid("delta")
    campaign.orders.tell("delta", campaign.rng.choice(["block the loop", "hold the interpreter"]))
    campaign.await_death(pid)
    return ("delta",)


def _freeze_and_wake(campaign: Campaign) -> Collection[str]:
    """A short freeze is nobody's death."""
    pid = campaign.pid("delta")
    begun = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(campaign.rng.uniform(0.05, 0.5))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    # If this process stood still meanwhile, it was a long one.
    return () if time.monotonic() - begun < SHORT else ("delta",)


def _hang_at_import(campaign: Campaign) -> Collection[str]:
    return _hang(campaign, "hang")


def _hang_at_ready(campaign: Campaign) -> Collection[str]:
    return _hang(campaign, "block the loop")


def _hang(campaign: Campaign, do: str) -> Collection[str]:
    campaign.orders.prepare("late", do)
    campaign.kill("late")
    _await_order_taken(campaign, "late")
    return ("late",)


def _die_while_starting(campaign: Campaign) -> Collection[str]:
    do: dict[str, Any] = campaign.rng.choice(
        [{"do": "exit", "status": 1}, {"do": "segfault"}, {"do": "signal", "number": int(signal.SIGKILL)}]
    )
    campaign.orders.prepare("delta", **do)
    campaign.kill("delta")
    _await_order_taken(campaign, "delta")
    return ("delta",)


def _await_order_taken(campaign: Campaign, agent: str) -> None:
    path = campaign.orders.prepared(agent)
    deadline = time.monotonic() + PATIENCE
    while path.exists():
        assert time.monotonic() < deadline, f"{agent} was not started again"
        time.sleep(0.01)  # another process's doing, of which nothing tells


def _hang_at_stop(campaign: Campaign) -> Collection[str]:
    campaign.orders.ask("late", "ignore SIGTERM")
    pid = campaign.pid("late")
    assert campaign.fleet.post("/v1/stop", agents=["late"]).json()["done"]
    campaign.await_death(pid)
    assert campaign.fleet.post("/v1/start", agents=["late"]).json()["done"]
    return ("late",)


# --- workers that spread ----------------------------------------------------------------------------------


def _multiply(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(LEAVES)
    campaign.orders.ask(agent, "multiply", count=campaign.brood)
    campaign.kill(agent)
    return (agent,)


def _multiply_and_stop(campaign: Campaign) -> Collection[str]:
    campaign.orders.ask("late", "multiply", count=campaign.brood)
    campaign.fleet.post("/v1/restart", agents=["late"])
    return ("late",)


def _flood(campaign: Campaign) -> Collection[str]:
    campaign.orders.ask(campaign.rng.choice(("alpha", "delta", "own")), "flood", size=campaign.flood)
    return ()


def _flood_and_die(campaign: Campaign) -> Collection[str]:
    campaign.orders.tell("delta", "flood", size=1_000_000_000)
    time.sleep(campaign.rng.uniform(0.05, 0.3))
    campaign.kill("delta")
    return ("delta",)


def _close_stderr(campaign: Campaign) -> Collection[str]:
    campaign.orders.ask("delta", "close stderr")
    return ()


# --- things that run out ----------------------------------------------------------------------------------


def _worker_without_descriptors(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(("alpha", "delta"))
    campaign.orders.ask(agent, "take descriptors")
    time.sleep(0.5)  # calls come meanwhile
    campaign.orders.ask(agent, "give descriptors back")
    return ()


def _supervisor_without_descriptors(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(LEAVES)
    pid = campaign.pid(agent)
    before = resource.prlimit(campaign.fleet.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(campaign.fleet.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        os.kill(pid, signal.SIGKILL)
        time.sleep(EXHAUSTION)
    finally:
        resource.prlimit(campaign.fleet.pid, resource.RLIMIT_NOFILE, before)
    return (agent,)


def _log_disk_full(campaign: Campaign) -> Collection[str]:
    with campaign.log_disk.full(), campaign.fleet.follow() as log:
        campaign.kill("delta")
        log.until(lambda record: record.get("agent") == "delta" and record.get("state") == "ready")
        campaign.orders.ask("alpha", "flood", size=200_000)
    size = campaign.fleet.log_file.stat().st_size
    campaign.kill("late")
    deadline = time.monotonic() + PATIENCE
    while campaign.fleet.log_file.stat().st_size == size:
        assert time.monotonic() < deadline, "nothing was logged after the disk had room again"
        time.sleep(0.01)  # a file of another process
    return ("delta", "late")


def _runtime_disk_full(campaign: Campaign) -> Collection[str]:
    """Nobody can count for want of space; so no calls meanwhile, and new workers afterwards."""
    with campaign.calls.paused():
        with campaign.runtime_disk.full(), campaign.fleet.follow() as log:
            campaign.kill("delta")
            log.until(lambda record: record.get("agent") == "delta" and record.get("state") == "ready")
        campaign.kill("delta")
    return ("delta",)


# --- the zygote -------------------------------------------------------------------------------------------


def _kill_zygote(campaign: Campaign) -> Collection[str]:
    zygote = campaign.fleet.zygote()
    zygote.kill()
    campaign.await_death(zygote.pid)
    return ()


def _kill_zygote_and_worker(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(("alpha", "delta", "late", "gamma"))
    zygote = campaign.fleet.zygote()
    zygote.kill()
    campaign.kill(agent)
    campaign.await_death(zygote.pid)
    return (agent,)


def _kill_zygote_within_a_spawn(campaign: Campaign) -> Collection[str]:
    zygote, pid = campaign.fleet.zygote(), campaign.pid("delta")
    os.kill(pid, signal.SIGKILL)
    time.sleep(campaign.rng.uniform(0.0, 0.04))
    zygote.kill()
    campaign.await_death(pid)
    campaign.await_death(zygote.pid)
    return ("delta",)


def _freeze_zygote(campaign: Campaign) -> Collection[str]:
    """It is given up once it has not answered for some seconds."""
    campaign.fleet.zygote().suspend()
    campaign.kill("delta")
    return ("delta",)


# --- time, configuration, operators -----------------------------------------------------------------------


def _jump(campaign: Campaign) -> Collection[str]:
    """The wall clock jumps, somebody dies meanwhile, and it stays where it is until the next jump."""
    offset = campaign.rng.choice([o for o in (-DAY, 0, DAY) if o != campaign.clock.offset])
    campaign.kill("delta")
    campaign.clock.offset = offset
    return ("delta",)


def _reload_storm(campaign: Campaign) -> Collection[str]:
    path = campaign.deployment.directory / "agents.yaml"
    good = path.read_text()
    supervisor = psutil.Process(campaign.fleet.pid)
    for number in range(20):
        document = yaml.safe_load(good)
        match campaign.rng.randrange(4):
            case 0:
                text = "agents: [nonsense"
            case 1:
                text = good.replace("depends_on", "depends_upon")
            case 2:
                document["agents"]["delta"]["description"] = f"number {number}"
                text = yaml.safe_dump(document, sort_keys=False)
            case _:
                document["agents"]["delta"]["stop_timeout"] = 1 + number
                text = yaml.safe_dump(document, sort_keys=False)
        _replace(path, text)
        supervisor.send_signal(signal.SIGHUP)
        time.sleep(campaign.rng.uniform(0.0, 0.02))
    _replace(path, good)
    _reload(campaign)
    return ("delta",)


def _replace(path: Path, text: str) -> None:
    """As an editor does that leaves nobody half a file."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def _reload(campaign: Campaign) -> None:
    answer = campaign.fleet.post("/v1/reload")
    assert answer.status_code == 200, answer.text


def _come_and_go(campaign: Campaign) -> Collection[str]:
    """An agent is added and, ready or not, removed."""
    path = campaign.deployment.directory / "agents.yaml"
    good = path.read_text()
    document = yaml.safe_load(good)
    document["agents"]["guest"] = {"module": "agents.guest", "port": campaign.spare_port}
    (path.parent / "agents" / "guest.py").write_text(PASSTHROUGH.format(name="guest", servers=[]))
    _replace(path, yaml.safe_dump(document, sort_keys=False))
    _reload(campaign)
    if campaign.rng.random() < 0.5:
        campaign.fleet.wait("guest")
    _replace(path, good)
    _reload(campaign)
    return ()


def _contradict(campaign: Campaign) -> Collection[str]:
    """Many operators want different things of one agent at once; the last one wants it up."""
    agent = campaign.rng.choice(("gamma", "delta", "late"))
    verbs = [campaign.rng.choice(["start", "stop", "restart"]) for _ in range(12)]

    def say(verb: str) -> None:
        answer = campaign.fleet.post(f"/v1/{verb}", agents=[agent], wait=verb != "stop", timeout=1)
        assert answer.status_code in (200, 504), answer.text

    with concurrent.futures.ThreadPoolExecutor(4) as operators:
        list(operators.map(say, verbs))
    assert campaign.fleet.post("/v1/start", agents=[agent]).json()["done"]
    return (agent,)


def _contradict_by_command(campaign: Campaign) -> Collection[str]:
    """The same, through the real `pallasctl`, and with a worker that dies meanwhile."""
    verbs = [campaign.rng.choice(["start", "stop", "restart"]) for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(len(verbs)) as operators:
        running = [operators.submit(campaign.fleet.ctl, verb, "delta", "--timeout", "5") for verb in verbs]
        pid = campaign.fleet.agent("delta")["pid"]
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for done in running:
            assert done.result().returncode in (0, 1), done.result().stderr
    started = campaign.fleet.ctl("start", "delta")
    assert started.returncode == 0, started.stderr
    return ("delta",)


def _slow_reader(campaign: Campaign) -> Collection[str]:
    """Somebody follows the log and reads nothing, while a flood comes."""
    with (
        campaign.fleet._client() as client,
        client.stream("GET", "/v1/logs", params={"follow": "1"}, timeout=httpx.Timeout(PATIENCE)),
    ):
        campaign.orders.ask("delta", "flood", size=2_000_000)
    return ()


def _leaving_reader(campaign: Campaign) -> Collection[str]:
    """Somebody follows the log and goes away in the middle of a flood."""
    campaign.orders.tell("delta", "flood", size=20_000_000)
    for _ in range(3):
        campaign.fleet.leave_the_log()
    campaign.orders.ask("delta", "nothing")  # after the flood
    return ()


FAULTS = (
    Fault("kill", _kill, 6),
    Fault("kill all", _kill_all, 1),
    Fault("kill again and again", _kill_again_and_again, 2),
    Fault("terminate", _terminate, 2),
    Fault("exit", _exit, 4),
    Fault("signal", _signal, 4),
    Fault("segfault", _segfault, 2),
    Fault("out of memory", _out_of_memory, 2),
    Fault("exit for good", _exit_for_good, 1),
    Fault("freeze and wake", _freeze_and_wake, 2),
    Fault("freeze", _freeze, 1),
    Fault("block the loop", _block_the_loop, 1),
    Fault("hang at import", _hang_at_import, 1),
    Fault("hang at ready", _hang_at_ready, 1),
    Fault("hang at stop", _hang_at_stop, 1),
    Fault("die while starting", _die_while_starting, 2),
    Fault("multiply", _multiply, 2),
    Fault("multiply and restart", _multiply_and_stop, 1),
    Fault("flood", _flood, 1),
    Fault("flood and die", _flood_and_die, 1),
    Fault("close stderr", _close_stderr, 1),
    Fault("a worker without descriptors", _worker_without_descriptors, 1),
    Fault("the supervisor without descriptors", _supervisor_without_descriptors, 1),
    Fault("the log's disk full", _log_disk_full, 1),
    Fault("the runtime disk full", _runtime_disk_full, 1),
    Fault("kill the zygote", _kill_zygote, 1),
    Fault("kill the zygote and a worker", _kill_zygote_and_worker, 1),
    Fault("kill the zygote within a spawn", _kill_zygote_within_a_spawn, 2),
    Fault("freeze the zygote", _freeze_zygote, 0),
    Fault("the clock jumps", _jump, 2),
    Fault("reload storm", _reload_storm, 1),
    Fault("come and go", _come_and_go, 1),
    Fault("contradict", _contradict, 2),
    Fault("contradict by command", _contradict_by_command, 1),
    Fault("a reader that does not read", _slow_reader, 1),
    Fault("a reader that leaves", _leaving_reader, 1),
    *HOSTILE_FAULTS,
)
