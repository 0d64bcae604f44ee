"""The unit under a real systemd, booted once for all of this: what the manager hears, does, keeps and writes down.

The tests are one story and run in their order: the service is started by the first and stopped for good by the last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.systemd_machine import PATIENCE, UNIT, Machine, require_machine
from support.load.steady_clients import Question, SteadyClients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet.deployment import Deployment

SECRET = "sk-of-the-credential-0123456789"
FROM_FILE = "sk-of-the-environment-file-0123"
LONG = 60_000
"""Bytes of a line: more than LineMax= of journald, which cuts what comes over stderr."""

TALKATIVE = f"""
import hashlib, os, sys
digests = [hashlib.sha256(os.environ.get(name, "").encode()).hexdigest() for name in ("A_API_KEY", "B_API_KEY")]
print("digests", *digests)
with open(os.path.join(os.environ["CREDENTIALS_DIRECTORY"], "client.pem")) as file:
    print("file", file.read())
print("strange \\x1b[31mred\\x1b[0m \\x00\\t\\u00fc\\u2028 {{half: json", file=sys.stderr)
sys.stdout.buffer.write(b"not utf-8: \\xff\\xfe\\n")
print("long", "x" * {LONG})
print("two\\nlines")
print("not manager's:", sorted(n for n in os.environ if n.startswith(("NOTIFY_", "LISTEN_", "WATCHDOG_"))))
"""

DROP_IN = """\
[Service]
# The manager's time is the tests' time.
WatchdogSec=15
RestartSec=100ms
LoadCredential=A_API_KEY:/etc/pallas/a-key
LoadCredential=client.pem:/etc/pallas/client.pem
"""

QUIET = """\
apiVersion: pallas/v1
kind: agent
metadata: {name: quiet}
spec: {description: Repeats., model: passthrough}
"""
"""It has no port, and starts on demand."""

type Entry = dict[str, Any]


class Service:
    """The deployment in the machine."""

    def __init__(self, machine: Machine, deployment: Deployment) -> None:
        self.machine = machine
        self.deployment = deployment

    @property
    def ports(self) -> list[int]:
        return [agent["port"] for agent in self.deployment.agents.values()]

    @property
    def socket(self) -> str:
        """Of the agent without a port, as this process can reach it."""
        (found,) = self.machine.path("/run/pallas/agents").iterdir()
        return str(found)

    @property
    def supervisor(self) -> int:
        """The process ID that the supervisor has inside."""
        return int(self.machine.properties("MainPID")["MainPID"])

    def until_ready(self) -> None:
        self.machine.run("pallasctl", "wait", "--all", "--timeout", "60")

    def kill(self, number: signal.Signals) -> None:
        self.machine.run("sh", "-c", f"kill -{number} {self.supervisor}")

    def write(self) -> None:
        """Change `agents.yaml`."""
        self.deployment.directory = self.machine.path("/srv/pallas")
        self.deployment.write()

    def clients(self) -> SteadyClients:
        """Clients inside, of the registry and of every agent, each in both manners."""
        registry = Question(self.deployment.document["registry_port"])
        agents: list[int | str] = [*self.ports, self.socket]
        clients = SteadyClients([registry, *map(Question.to_agent, agents)])
        self.machine.on_network(clients.start)
        return clients

    def ask(self, question: Question) -> str | None:
        """What is wrong with the answer to one question from inside; None if nothing is."""

        def once() -> str | None:
            with contextlib.closing(question.connection()) as connection:
                return question.ask(connection)

        return self.machine.on_network(once)

    def records(self, *matches: str) -> list[Entry]:
        """The supervisor's entries of the journal, each message read as the JSON that it has to be."""
        entries = self.machine.journal("SYSLOG_IDENTIFIER=pallas", "_TRANSPORT=journal", *matches)
        return [{**entry, "record": json.loads(entry["MESSAGE"])} for entry in entries]

    def until_logged(self, count: int) -> list[str]:
        """The lines of the log file, as soon as there are so many; the journal is written by another thread."""
        deadline = time.monotonic() + PATIENCE
        file = self.machine.path("/var/lib/pallas/pallas.log")
        while len(lines := file.read_text().splitlines()) < count:
            assert time.monotonic() < deadline, (lines[-5:], count)
            time.sleep(0.02)  # between two looks at a file
        return lines


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    require_machine()
    made: list[Deployment] = []

    def prepare(root: Path) -> None:
        deployment = make_deployment(root / "srv/pallas", "library")
        deployment.add("research", depends_on=["library"])
        module = deployment.directory / "agents/library.py"
        module.write_text(module.read_text() + TALKATIVE)
        group = (root / "srv/pallas").stat().st_gid
        for path in (root / "srv/pallas").rglob("*"):
            shutil.chown(path, "root", group)
            path.chmod(0o750 if path.is_dir() else 0o640)
        for name, content in (
            ("a-key", f"{SECRET}\n"),
            ("client.pem", "a certificate"),
            ("environment", f"B_API_KEY={FROM_FILE}\n"),
        ):
            secret = root / "etc/pallas" / name
            secret.write_text(content)
            secret.chmod(0o600)
        (root / f"etc/systemd/system/{UNIT}.d/test.conf").write_text(DROP_IN)
        declared = root / "var/lib/pallas/resources/agent/quiet.yaml"
        declared.parent.mkdir(parents=True)
        declared.write_text(QUIET)
        made.append(deployment)

    with Machine(tmp_path_factory.mktemp("machine"), prepare) as machine:
        yield Service(machine, made[0])


def test_start_returns_when_the_supervisor_is_ready_and_the_status_says_how_things_are(
    service: Service,
) -> None:
    machine = service.machine
    machine.run("systemctl", "start", UNIT)
    assert machine.properties("ActiveState", "SubState") == {"ActiveState": "active", "SubState": "running"}
    assert sorted(machine.listening()) == sorted(
        [*service.ports, service.deployment.document["registry_port"]]
    )
    service.until_ready()
    told = machine.properties("StatusText", "NFileDescriptorStore", "User", "WatchdogUSec")
    assert told == {
        "StatusText": "3/3 agents ready (1 idle)",
        "NFileDescriptorStore": "4",
        "User": "pallas",
        "WatchdogUSec": "15s",
    }


def test_each_worker_has_a_control_group_of_its_own_below_the_units(service: Service) -> None:
    machine = service.machine
    unit = f"/sys/fs/cgroup{machine.properties('ControlGroup')['ControlGroup']}"
    commands = machine.processes()

    def members(group: str) -> list[int]:
        return [int(pid) for pid in machine.run("cat", f"{unit}/{group}/cgroup.procs").stdout.split()]

    groups = {path.name for path in machine.path(unit).iterdir() if path.is_dir()}
    assert groups == {"supervisor", "worker-library.1", "worker-research.1"}
    assert service.supervisor in members("supervisor")
    for agent in ("library", "research"):
        (pid,) = members(f"worker-{agent}.1")
        assert commands[pid].startswith(f"pallas-worker {agent} 1 ")


def test_secrets_reach_the_agents_as_variables_and_files_and_no_place_shows_them(service: Service) -> None:
    service.machine.until_journal("not manager's:")  # the last that is said; it is written by another thread
    messages = [entry["record"]["message"] for entry in service.records("PALLAS_AGENT=library")]
    digests = [hashlib.sha256(value.encode()).hexdigest() for value in (SECRET, FROM_FILE)]
    assert f"digests {' '.join(digests)}" in messages
    assert "file a certificate" in messages
    assert "not manager's: []" in messages, [m for m in messages if m.startswith("not m")]
    everything = service.machine.run("journalctl", "-o", "export", "--all").stdout
    everything += service.machine.run("systemctl", "show", UNIT).stdout
    everything += service.machine.path("/var/lib/pallas/pallas.log").read_text()
    assert SECRET not in everything
    assert FROM_FILE not in everything


def test_every_line_of_the_journal_is_one_record_with_fields_and_priority(service: Service) -> None:
    entries = service.records()
    assert service.machine.journal("_TRANSPORT=stdout") == []  # nothing comes any other way
    output = [entry for entry in entries if entry.get("PALLAS_LOGGER") == "pallas.output"]
    messages = [entry["record"]["message"] for entry in output]
    assert "long " + "x" * LONG in "".join(messages)  # in pieces that follow each other
    assert {"two", "lines", "not utf-8: \ufffd\ufffd"} <= set(messages)
    assert any(message.startswith("strange \x1b[31mred") for message in messages)
    for entry in output:
        assert (entry["PALLAS_AGENT"], entry["PRIORITY"], entry["PALLAS_GENERATION"]) == ("library", "6", "1")
    for entry in entries:
        record = entry["record"]
        for key in ("agent", "pid", "generation"):
            assert entry.get(f"PALLAS_{key.upper()}") == (str(record[key]) if key in record else None)
        assert entry["PRIORITY"] == {"DEBUG": "7", "INFO": "6", "WARNING": "4", "ERROR": "3"}[record["level"]]
    pids = {entry["PALLAS_PID"] for entry in entries if "PALLAS_PID" in entry}
    assert len(pids) == 2
    assert pids < set(map(str, service.machine.processes()))
    lines = service.until_logged(len(entries))
    assert [json.loads(line) for line in lines[: len(entries)]] == [entry["record"] for entry in entries]


def test_reload_waits_until_it_is_done_and_fails_if_it_cannot_be(service: Service) -> None:
    machine = service.machine
    before = machine.properties("MainPID", "InvocationID")
    service.deployment.agents["research"]["description"] = "Another one"
    service.write()
    machine.run("systemctl", "reload", UNIT)
    machine.until_journal("reloaded: ")
    reloaded = [entry for entry in service.records() if entry["record"]["message"].startswith("reloaded: ")]
    assert len(reloaded) == 1
    port = service.deployment.document["registry_port"]
    assert service.ask(Question(port, path="/v0.1/servers", expected="Another one")) is None
    good = service.deployment.document
    service.deployment.document = {**good, "colour": "blue"}
    service.write()
    failed = machine.run("systemctl", "reload", UNIT, check=False)
    assert failed.returncode == 1
    machine.until_journal("colour")
    service.deployment.document = good
    service.write()
    assert machine.properties("MainPID", "InvocationID") == before


def test_a_signal_reloads_too_and_the_manager_is_told_and_given_the_new_socket(service: Service) -> None:
    machine = service.machine
    changed = machine.properties("StateChangeTimestampMonotonic")
    service.deployment.add("engineering")
    service.kill(signal.SIGHUP)
    machine.until_journal("reloaded: 1 added")
    service.until_ready()
    assert machine.properties("StateChangeTimestampMonotonic") != changed
    told = machine.properties("ActiveState", "StatusText", "NFileDescriptorStore")
    assert told == {
        "ActiveState": "active",
        "StatusText": "4/4 agents ready (1 idle)",
        "NFileDescriptorStore": "5",
    }


def test_a_restart_under_load_refuses_nobody_and_answers_everybody(service: Service) -> None:
    before, path = service.supervisor, Path(service.socket)
    inode = path.stat().st_ino
    clients = service.clients()
    try:
        clients.until_more(5)
        service.machine.run("systemctl", "restart", UNIT)
        clients.until_more(5)
    finally:
        clients.stop()
    assert clients.failures == []
    assert service.supervisor != before
    assert path.stat().st_ino == inode
    service.until_ready()
    assert service.machine.properties("NFileDescriptorStore", "NRestarts") == {
        "NFileDescriptorStore": "5",
        "NRestarts": "0",
    }


def test_one_that_hangs_is_killed_by_the_watchdog_and_started_again(service: Service) -> None:
    machine = service.machine
    before, workers = service.supervisor, set(machine.processes())
    clients = service.clients()
    try:
        clients.until_more(2)
        service.kill(signal.SIGSTOP)
        machine.until_journal(f"{UNIT}: Scheduled restart job")
        service.until_ready()
        clients.until_more(2)
    finally:
        clients.stop()
    assert clients.refused == []
    assert service.supervisor != before
    assert not workers & set(machine.processes())
    assert machine.properties("NRestarts")["NRestarts"] == "1"
    assert any("Watchdog timeout" in entry["MESSAGE"] for entry in machine.journal("_PID=1"))


def test_stop_leaves_nothing(service: Service) -> None:
    machine = service.machine
    group = machine.properties("ControlGroup")["ControlGroup"]
    assert len(machine.processes()) >= 4
    machine.run("systemctl", "stop", UNIT)
    assert machine.properties("ActiveState", "Result", "NFileDescriptorStore") == {
        "ActiveState": "inactive",
        "Result": "success",
        "NFileDescriptorStore": "0",
    }
    assert not machine.path(f"/sys/fs/cgroup{group}").exists()
    assert [command for command in machine.commands() if "pallas" in command] == []
    assert not machine.path("/run/pallas").exists()
    assert machine.listening() == []


def test_a_connection_to_a_socket_unit_starts_it_and_is_answered(service: Service) -> None:
    machine = service.machine
    file = machine.path("/etc/systemd/system/pallas-supervisor.socket")
    file.write_text(f"[Socket]\nListenStream=127.0.0.1:{service.ports[0]}\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", file.name)
    assert machine.listening() == [service.ports[0]]
    assert machine.properties("ActiveState")["ActiveState"] == "inactive"
    assert service.ask(Question.to_agent(service.ports[0])) is None
    service.until_ready()
    # What the socket unit does not list: ports of the other agents, the registry's, and a unix socket.
    assert machine.properties("NFileDescriptorStore")["NFileDescriptorStore"] == str(len(service.ports) + 1)
    machine.run("systemctl", "stop", file.name, UNIT)
    file.unlink()
    machine.run("systemctl", "daemon-reload")


def test_a_wrong_configuration_is_not_tried_again(service: Service) -> None:
    machine = service.machine
    service.deployment.document["colour"] = "blue"
    service.write()
    assert machine.run("systemctl", "start", UNIT, check=False).returncode == 1
    assert machine.properties("ActiveState", "ExecMainStatus", "NRestarts") == {
        "ActiveState": "failed",
        "ExecMainStatus": "2",
        "NRestarts": "0",
    }
    assert "agents.yaml:" in machine.journal_text()


def test_the_unit_that_install_service_writes_serves_and_is_stopped_by_its_manager(service: Service) -> None:
    machine = service.machine
    service.deployment.document.pop("colour", None)
    service.write()
    unit, own = "pallas-test-fleet.service", "/run/pallas/test-fleet/control.sock"
    install = "cd /srv/pallas && pallas install-service --system --run-as pallas"
    written = machine.run("sh", "-c", install).stdout
    assert written.startswith(f"/etc/systemd/system/{unit}: written\n")
    shutil.copytree(
        machine.path(f"/etc/systemd/system/{UNIT}.d"), machine.path(f"/etc/systemd/system/{unit}.d")
    )
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", unit)
    machine.run("pallasctl", "--socket", own, "wait", "--all", "--timeout", "60")
    assert machine.run("systemctl", "show", "-P", "StatusText", unit).stdout.endswith("agents ready\n")
    machine.run("systemctl", "reload", unit)
    down = machine.run("env", f"PALLAS_CONTROL_SOCKET={own}", "pallas", "down", check=False)
    assert (down.returncode, down.stderr) == (
        1,
        f"pallas: {unit} runs it: stop it with `systemctl stop {unit}`\n",
    )
    machine.run("systemctl", "stop", unit)
    assert machine.run("systemctl", "show", "-P", "Result", unit).stdout == "success\n"
    assert machine.listening() == []
