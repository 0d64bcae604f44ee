"""The supervisor under a service manager that keeps its sockets: what is said to it, and what clients notice.

The manager is played here, descriptors and all; `real/test_systemd.py` has the real one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from typing import TYPE_CHECKING

import psutil
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.fleet.service_manager import ServiceManager
from support.load.steady_clients import Question, SteadyClients, ask_in_thread
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet.deployment import Deployment

TELLING = """
import json, os
with open("environment.json", "w") as file:
    json.dump(sorted(os.environ), file)
"""


class Service:
    """A fleet and its manager."""

    def __init__(self, deployment: Deployment, manager: ServiceManager) -> None:
        self.deployment = deployment
        self.manager = manager
        self.fleet = Fleet(deployment)

    def start(self) -> list[str]:
        """Start the supervisor as the manager does; what was said until it was ready."""
        heard = len(self.manager.said)
        self.fleet.environment |= {**self.manager.environment, "WATCHDOG_USEC": "2000000"}
        self.fleet.wrapper, self.fleet.inherited = self.manager.wrapper, self.manager.descriptors
        self.fleet.start()
        return self.manager.until(lambda said: "READY=1" in said, heard)

    def ports(self) -> set[str]:
        """The names under which the sockets of this deployment are kept."""
        ports = [self.deployment.document["registry_port"]]
        ports += [agent["port"] for agent in self.deployment.agents.values()]
        return {f"port-{port}" for port in ports}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("handover")
    deployment = make_deployment(directory / "fleet", "library")
    deployment.add("research", depends_on=["library"])
    module = deployment.directory / "agents" / "library.py"
    module.write_text(module.read_text() + TELLING)
    with ServiceManager(directory) as manager:
        service = Service(deployment, manager)
        with contextlib.ExitStack() as stack:
            stack.push(service.fleet.__exit__)
            yield service


def listened_on(process: psutil.Process) -> set[int]:
    """The ports that a process could accept on."""
    return {
        connection.laddr.port
        for connection in process.net_connections("tcp")
        if connection.status == "LISTEN"
    }


def test_the_manager_is_told_and_given_the_sockets_before_it_hears_ready(service: Service) -> None:
    said = service.start()
    assert set(service.manager.store) == service.ports()
    assert said.index("READY=1") > max(place for place, word in enumerate(said) if word == "FDSTORE=1")
    service.manager.until(lambda said: "STATUS=2/2 agents ready" in said)
    service.manager.until(lambda said: said.count("WATCHDOG=1") >= 3)


def test_workers_know_nothing_of_the_manager(service: Service) -> None:
    names = json.loads((service.deployment.directory / "environment.json").read_text())
    assert "PATH" in names
    assert not [name for name in names if name.startswith(("NOTIFY_", "LISTEN_", "WATCHDOG_"))]


def test_a_restart_refuses_nobody_and_answers_everybody(service: Service) -> None:
    fleet, manager = service.fleet, service.manager
    ports = [agent["port"] for agent in service.deployment.agents.values()]
    registry = Question(service.deployment.document["registry_port"])
    questions = [registry, *map(Question.to_agent, ports)]
    with SteadyClients(questions) as clients:
        clients.until_more(5)
        heard = len(manager.said)
        assert fleet.stop() == 0
        said = manager.until(
            lambda said: any(word.startswith("EXTEND_TIMEOUT_USEC=") for word in said), heard
        )
        assert "STOPPING=1" in said
        waiting = [ask_in_thread(question) for question in questions]  # nobody runs
        said = service.start()
        assert "FDSTORE=1" not in said[said.index("FDNAME=pallas-probe") + 1 :]  # the manager has them all
        for thread, outcome in waiting:
            thread.join(90)
            assert outcome == ["good"]
        clients.until_more(5)
    assert clients.failures == []
    pids = fleet.pids()
    assert {name: listened_on(psutil.Process(pids[name])) for name in pids} == {
        name: {agent["port"]} for name, agent in service.deployment.agents.items()
    }
    assert listened_on(fleet.zygote()) == set()


def test_a_reload_is_announced_and_the_manager_keeps_what_is_deployed_then(service: Service) -> None:
    fleet, manager, deployment = service.fleet, service.manager, service.deployment
    gone = deployment.agents["research"]["port"]
    heard = len(manager.said)
    del deployment.agents["research"]
    deployment.add("engineering")
    assert fleet.ctl("reload").returncode == 0
    said = manager.until(lambda said: "READY=1" in said, heard)
    announced = said.index("RELOADING=1")
    assert said[announced + 1].startswith("MONOTONIC_USEC=")
    assert announced < said.index("READY=1")
    assert set(manager.store) == service.ports()
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", gone)) != 0

    heard = len(manager.said)
    (deployment.directory / "agents.yaml").write_text("colour: blue")
    fleet.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]  # it runs
    said = manager.until(lambda said: "READY=1" in said, heard)
    assert said.index("RELOADING=1") < said.index("READY=1")
    deployment.write()
    heard = len(manager.said)
    assert fleet.ctl("reload", "--dry-run").returncode == 0
    assert "RELOADING=1" not in manager.said[heard:]


def test_after_a_sigkill_no_connection_is_refused_and_what_is_not_wanted_is_given_back(
    service: Service,
) -> None:
    fleet, manager, deployment = service.fleet, service.manager, service.deployment
    fleet.wait()
    old = deployment.agents["library"]["port"]
    deployment.agents["library"]["port"] = free_ports(1)[0]
    deployment.write()
    port = deployment.agents["engineering"]["port"]
    with (
        socket.create_server(("127.0.0.1", 0)) as foreign,
        SteadyClients([Question.to_agent(port)]) as clients,
    ):
        clients.until_more(5)
        os.kill(fleet.pid, signal.SIGKILL)
        fleet.process.wait()  # type: ignore[union-attr]  # it runs
        manager.store["web"] = [os.dup(foreign.fileno())]  # as if of a .socket unit
        manager.store["port-pipe"] = [os.open("/dev/null", os.O_RDONLY)]
        service.start()
        assert set(manager.store) == service.ports() | {"web"}
        assert foreign.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)  # it was not ours to shut down
        clients.until_more(5)
    assert clients.refused == []
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", old)) != 0
    warnings = [r["message"] for r in fleet.records() if r["level"] == "WARNING"]
    assert [text for text in warnings if text.startswith("web listens on port")]
    assert fleet.stop() == 0
