"""Agents without a port: a real fleet on unix sockets, beside an agent with a port, and who calls them meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.fleet.service_manager import ServiceManager
from support.load.steady_clients import Question, SteadyClients, ask_in_thread
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet.deployment import Deployment


class Service:
    """A fleet and its manager, which keeps its sockets."""

    def __init__(self, deployment: Deployment, manager: ServiceManager) -> None:
        self.deployment = deployment
        self.manager = manager
        self.fleet = Fleet(deployment)

    def start(self) -> None:
        heard = len(self.manager.said)
        self.fleet.environment |= self.manager.environment
        self.fleet.wrapper = self.manager.wrapper
        self.fleet.inherited = self.manager.descriptors
        self.fleet.start()
        self.manager.until(lambda said: "READY=1" in said, heard)

    def socket(self, name: str) -> str:
        path = self.fleet.agent(name)["socket"]
        assert isinstance(path, str)
        return path

    def questions(self) -> list[Question]:
        agents = self.fleet.get("/v1/status").json()["agents"]
        return [Question.to_agent(agent["port"] or agent["socket"]) for agent in agents]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("unix")
    deployment = make_deployment(directory / "fleet", "research")
    with ServiceManager(directory) as manager:
        service = Service(deployment, manager)
        with contextlib.ExitStack() as stack:
            stack.push(service.fleet.__exit__)
            service.start()
            declare(service.fleet, "one", start="always")
            declare(service.fleet, "two", start="always")
            service.fleet.wait()
            yield service


def test_the_status_names_the_socket_and_only_this_user_may_open_it(service: Service) -> None:
    fleet = service.fleet
    for name in ("one", "two"):
        agent = fleet.agent(name)
        assert (agent["port"], agent["url"]) == (None, None)
        path = Path(agent["socket"])
        assert path.parent == fleet.runtime / "agents"
        assert [stat.S_IMODE(found.lstat().st_mode) for found in (path.parent, path)] == [0o700, 0o600]
    assert fleet.agent("research")["socket"] is None
    servers = httpx.get(f"{service.deployment.registry}/v0.1/servers").json()["servers"]
    assert [server["server"]["title"] for server in servers] == ["Research"], "who has a URL"
    metrics = httpx.get(f"{service.deployment.registry}/metrics").text
    assert 'pallas_agent_info{agent="one",port=""} 1' in metrics


def test_it_is_asked_like_one_with_a_port_and_told_apart_where_it_matters(service: Service) -> None:
    fleet = service.fleet
    asked = fleet.ctl("ask", "one", "still there?")
    assert (asked.returncode, asked.stdout) == (0, "still there?\n")
    with httpx.Client(transport=httpx.HTTPTransport(uds=service.socket("one"))) as client:
        assert client.get("http://localhost/v1/models").json()["data"][0]["id"] == "one"
        assert client.get("http://a.page.elsewhere/v1/models").status_code == 421
        assert 'pallas_agent_info{agent="one",port=""} 1' in client.get("http://localhost/metrics").text
    connect = fleet.ctl("connect", "cursor", "one")
    assert connect.returncode == 1
    assert "one has no port" in connect.stderr
    assert f"curl --unix-socket {service.socket('one')} http://localhost/" in connect.stderr


def test_a_restart_and_the_death_of_a_worker_refuse_nobody(service: Service) -> None:
    fleet = service.fleet
    with SteadyClients(service.questions()) as clients:
        clients.until_more(3)
        assert fleet.ctl("restart", "one").returncode == 0
        clients.until_more(3)
        assert clients.failures == []
        assert fleet.ctl("restart", "--now", "one").returncode == 0
        fleet.kill("two")
        clients.until_more(3)
    assert clients.refused == []


def test_a_port_becomes_a_socket_and_a_socket_a_port(service: Service) -> None:
    fleet = service.fleet
    path, ports = service.socket("two"), free_ports(2)
    with SteadyClients([Question.to_agent(service.socket("one"))]) as clients:
        declare(fleet, "two", start="always", port=ports[0])
        declare(fleet, "three", start="always", port=ports[1])
        assert fleet.ctl("wait", "two", "three").returncode == 0
        assert not Path(path).exists()
        assert [ask(Question.to_agent(port)) for port in ports] == ["good"] * 2
        in_the_way = path_of(fleet, "three")
        in_the_way.mkdir()
        declare(fleet, "two", start="always")
        declare(fleet, "three", start="always")
        fleet.await_that(lambda: fleet.agent("three")["state"] == "failed", "it has failed")
        for port in ports:
            with socket.socket() as client:
                assert client.connect_ex(("127.0.0.1", port)) != 0
        in_the_way.rmdir()
        assert fleet.ctl("start", "three").returncode == 0
        fleet.wait()
        assert service.socket("two") == path
        assert [ask(question) for question in service.questions()] == ["good"] * 4
        clients.until_more(1)
    assert clients.failures == []
    assert fleet.ctl("delete", "agent", "three").returncode == 0
    assert not in_the_way.exists()


def test_the_next_supervisor_answers_who_has_waited_for_it(service: Service) -> None:
    fleet = service.fleet
    questions = service.questions()
    inodes = [Path(service.socket(name)).stat().st_ino for name in ("one", "two")]
    with SteadyClients(questions) as clients:
        clients.until_more(3)
        assert fleet.stop() == 0
        waiting = [ask_in_thread(question) for question in questions]  # nobody runs
        service.start()
        for thread, outcome in waiting:
            thread.join(90)
            assert outcome == ["good"]
        clients.until_more(3)
    assert clients.failures == []
    assert [Path(service.socket(name)).stat().st_ino for name in ("one", "two")] == inodes


def test_after_a_sigkill_no_connection_is_refused(service: Service) -> None:
    fleet = service.fleet
    fleet.wait()
    gone = service.socket("two")
    with SteadyClients([Question.to_agent(service.socket("one"))]) as clients:
        clients.until_more(3)
        os.kill(fleet.pid, signal.SIGKILL)
        fleet.process.wait()  # type: ignore[union-attr]  # it runs
        (fleet.state / "resources/agent/two.yaml").unlink()
        service.start()
        clients.until_more(3)
    assert clients.refused == []
    assert not Path(gone).exists()
    path = service.socket("one")
    assert fleet.stop() == 0
    assert Path(path).is_socket(), "the manager keeps it for the next one"


def test_what_lies_at_a_path_is_its_agents_trouble_alone_and_what_a_killed_one_left_is_replaced(
    tmp_path: Path,
) -> None:
    with Fleet(make_deployment(tmp_path / "fleet")) as fleet:
        declare(fleet, "one", start="always")
        declare(fleet, "two")
        assert fleet.ctl("wait", "one", "two").returncode == 0
        path = Path(fleet.agent("one")["socket"])
        other = Path(fleet.agent("two")["socket"])
        os.kill(fleet.pid, signal.SIGKILL)
        fleet.process.wait()  # type: ignore[union-attr]  # it runs
        assert path.is_socket()
        path.unlink()
        path.symlink_to(tmp_path)
        fleet.start()
        assert fleet.ctl("wait", "two").returncode == 0
        assert ask(Question.to_agent(str(other))) == "good"
        failed = fleet.agent("one")
        assert failed["state"] == "failed"
        assert failed["message"] == f"cannot be started: a symbolic link is in the way at {path}; remove it"
        asked = fleet.ctl("ask", "one", "hi")
        assert asked.returncode == 1
        assert "a symbolic link is in the way" in asked.stderr
        path.unlink()
        path_of(fleet, "three").mkdir()
        declare(fleet, "three")
        fleet.await_that(lambda: fleet.agent("three")["state"] == "failed", "it has failed")
        assert fleet.ctl("delete", "agent", "three").returncode == 0
        assert fleet.ctl("start", "one").returncode == 0
        assert fleet.ctl("wait", "one").returncode == 0
        assert ask(Question.to_agent(str(path))) == "good"
        assert fleet.stop() == 0
        assert [found.is_dir() for found in path.parent.iterdir()] == [True], "what is not ours"


def test_a_long_runtime_directory_fails_those_without_a_port_alone(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    deployment.add("research", start="on-demand")
    fleet = Fleet(deployment)
    fleet.runtime = tmp_path / ("x" * (90 - len(str(tmp_path))))
    fleet.environment["PALLAS_RUNTIME_DIR"] = str(fleet.runtime)
    (fleet.state / "resources/agent").mkdir(parents=True, mode=0o700)
    (fleet.state / "resources/agent/one.yaml").write_text(resource("one"))
    with fleet:
        fleet.await_that(lambda: fleet.agent("one")["state"] == "failed", "it has failed")
        assert fleet.agent("research")["state"] == "idle"
        records = fleet.records()
    messages = [record["message"] for record in records]
    (said,) = (
        place for place, text in enumerate(messages) if text.startswith("one cannot be reached: the path")
    )
    assert "set PALLAS_RUNTIME_DIR to a path that is shorter by 13, or give it a port" in messages[said]
    assert said < next(place for place, text in enumerate(messages) if "supervising 2 agents" in text)


def resource(name: str, **run: Any) -> str:
    """A declared agent that repeats what it is told."""
    spec = {"description": "Repeats.", "model": "passthrough"} | ({"run": run} if run else {})
    return yaml.safe_dump(
        {"apiVersion": "pallas/v1", "kind": "agent", "metadata": {"name": name}, "spec": spec}
    )


def declare(fleet: Fleet, name: str, **run: Any) -> None:
    """Have the agent in the fleet, with these fields of `run:`."""
    file = fleet.deployment.directory / f"{name}.yaml"
    file.write_text(resource(name, **run))
    applied = fleet.ctl("apply", "-f", str(file))
    assert applied.returncode == 0, applied.stderr


def path_of(fleet: Fleet, agent: str) -> Path:
    """Where the agent listens if it has no port."""
    return fleet.runtime / "agents" / f"{hashlib.sha256(agent.encode()).hexdigest()[:16]}.sock"


def ask(question: Question) -> str:
    """What comes of asking now."""
    thread, outcome = ask_in_thread(question)
    thread.join(90)
    return outcome[0]
