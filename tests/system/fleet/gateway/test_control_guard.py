"""The control socket refuses whatever agents have started, wherever it has gone, and nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_common.secrets.tokens import new_token
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.fleet.deployment import Deployment

PROBE = '''\
"""Ask the control socket, and write down what it says; as a daemon that nobody knows any more, if wanted."""
import http.client, json, os, socket, sys, time

path, out, daemon, requests = sys.argv[1], sys.argv[2], sys.argv[3] == "daemon", sys.argv[4:]
if daemon:
    os.setsid()
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.002)
answers = []
for request in requests:
    method, _, target = request.partition(" ")
    connection = http.client.HTTPConnection("pallas")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request(method, target)
    response = connection.getresponse()
    answers.append([response.status, response.read().decode()])
with open(out + ".new", "w") as file:
    json.dump(answers, file)
os.rename(out + ".new", out)
'''

ASKS = """
import subprocess, sys
for name, daemon in (("child", "no"), ("daemon", "daemon")):
    subprocess.Popen(
        [sys.executable, {probe!r}, {socket!r}, {out!r} + name, daemon, *{requests!r}], env={{}}, close_fds=True
    ).wait()
sys.argv = ["probe", {socket!r}, {out!r} + "itself", "no", *{requests!r}]
exec(compile(open({probe!r}).read(), "probe", "exec"))
"""
"""Of an agent's module: a child without environment, a daemon without session and parent, and the worker itself ask."""

REQUESTS = (
    *("GET /v1/status", "GET /v1/logs", "GET /v1/upstreams", "GET /nothing"),
    *("POST /v1/stop", "POST /v1/operator-token", "DELETE /v1/resources/agent/a"),
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("guard") / "fleet", "forked")
    deployment.add("executed", python=sys.executable)
    fleet = Fleet(deployment)
    for name in ("forked", "executed"):
        asking(deployment, name, fleet)
    with fleet as running:
        yield running


def asking(deployment: Deployment, name: str, fleet: Fleet) -> None:
    probe = deployment.directory / "probe.py"
    probe.write_text(PROBE)
    module = deployment.directory / "agents" / f"{name}.py"
    module.write_text(
        module.read_text()
        + ASKS.format(
            probe=str(probe),
            socket=str(fleet.runtime / "control.sock"),
            out=str(deployment.directory / f"{name}-"),
            requests=REQUESTS,
        )
    )


def answers(fleet: Fleet, path: Path) -> list[tuple[int, str]]:
    fleet.await_that(path.exists, f"{path.name} is written")
    return [(status, body) for status, body in json.loads(path.read_text())]


@pytest.mark.parametrize("name", ["forked", "executed"])
@pytest.mark.parametrize("who", ["itself", "child", "daemon"])
def test_nothing_that_comes_from_an_agent_is_answered(name: str, who: str, fleet: Fleet) -> None:
    fleet.wait()
    found = answers(fleet, fleet.deployment.directory / f"{name}-{who}")
    assert len(found) == len(REQUESTS)
    for status, body in found:
        assert status == 403
        assert list(json.loads(body)) == ["error"]
        assert "not for processes that agents" in body
    assert fleet.agent(name)["state"] == "ready"


def test_it_is_said_in_the_log_and_does_not_fill_it(fleet: Fleet) -> None:
    fleet.wait()
    answers(fleet, fleet.deployment.directory / "executed-itself")
    refused = [record for record in fleet.records() if "comes from an agent" in record["message"]]
    assert 0 < len(refused) < len(REQUESTS)


def test_everybody_else_is_answered(fleet: Fleet) -> None:
    assert fleet.ctl("status").returncode == 0
    out = fleet.deployment.directory / "outside"
    command = [sys.executable, str(fleet.deployment.directory / "probe.py")]
    subprocess.run(
        [*command, str(fleet.runtime / "control.sock"), str(out), "daemon", "GET /v1/status"], check=True
    )
    ((status, _),) = answers(fleet, out)
    assert status == 200


def test_ways_to_agents_are_for_the_gateway_alone(fleet: Fleet) -> None:
    answer = fleet.get("/v1/upstreams")
    assert answer.status_code == 403
    assert "for the gateway's process alone" in answer.json()["error"]


def test_the_operator_is_given_the_first_token(fleet: Fleet) -> None:
    file = fleet.state / "operator.token"
    assert fleet.post("/v1/operator-token").status_code == 404
    fleet.state.mkdir(exist_ok=True)
    token = new_token("human")
    file.write_text(f"{token}\n")
    assert fleet.post("/v1/operator-token").json() == {"token": token}
    file.write_text("something else that is secret")
    refused = fleet.post("/v1/operator-token")
    assert refused.status_code == 404
    assert "secret" not in refused.text
    file.unlink()
    (fleet.state / "elsewhere").write_text(token)
    file.symlink_to("elsewhere")
    assert fleet.post("/v1/operator-token").status_code == 404
    file.unlink()
    os.mkfifo(file)
    assert fleet.post("/v1/operator-token").status_code == 404
    file.unlink()
