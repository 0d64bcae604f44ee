"""What is in the way of a start: ports, and a deployment of the same name."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from fakes.control_server import agent, serve, status
from pallas_check.machine import machine_findings
from pallas_check.places import Places
from pallas_registry.deployment.agents_file import read_deployment
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pallas_check.findings import Finding


@pytest.fixture
def held() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def found(directory: Path, environ: dict[str, str]) -> tuple[list[str], bool]:
    path = directory / "agents.yaml"
    findings, is_running = machine_findings(read_deployment(path), directory, environ, Places(path))
    assert all((each.level, each.cause) == ("error", "machine") for each in findings)
    return [str(each.problem).replace(f"{directory}/", "") for each in findings], is_running


def write(directory: Path, registry: int, port: int) -> None:
    (directory / "agents.yaml").write_text(
        f"name: demo\nregistry_port: {registry}\nagents:\n  one:\n    module: agents.one\n    port: {port}\n"
    )


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PALLAS_RUNTIME_DIR": str(tmp_path / "run"), "XDG_RUNTIME_DIR": str(tmp_path)}


def test_free_ports_are_no_finding_and_stay_free(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, *free_ports(2))
    assert found(tmp_path, environ) == found(tmp_path, environ) == ([], False)


def test_a_port_that_is_taken_has_its_place_and_its_holder(
    tmp_path: Path, environ: dict[str, str], held: int
) -> None:
    [free] = free_ports(1)
    write(tmp_path, free, held)
    [text], _ = found(tmp_path, environ)
    assert text.startswith(f"agents.yaml:6: agents.one.port: port {held} (one) is taken by ")
    assert text.endswith(f"(pid {os.getpid()}); free it or choose another in agents.yaml")
    write(tmp_path, held, free)
    [text], _ = found(tmp_path, environ)
    assert text.startswith(f"agents.yaml:2: registry_port: port {held} (registry) is taken by ")


@pytest.mark.parametrize("says_where", [True, False])
def test_the_ports_of_this_very_deployment_while_it_runs_are_its_own(
    tmp_path: Path, environ: dict[str, str], held: int, says_where: bool
) -> None:
    [free] = free_ports(1)
    write(tmp_path, free, held)
    where = {"file": str(tmp_path / "agents.yaml"), "directory": str(tmp_path)} if says_where else {}
    document = {**status(agent("one", port=held)), "url": f"http://localhost:{free}/", **where}
    (tmp_path / "run").mkdir()
    with serve(tmp_path / "run" / "control.sock", {"/v1/status": (200, document)}):
        assert found(tmp_path, environ) == ([], True)


def test_another_deployment_of_the_same_name(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, *free_ports(2))
    document = {**status(agent("one")), "file": "/srv/agents.yaml", "directory": "/srv"}
    (tmp_path / "run").mkdir()
    with serve(tmp_path / "run" / "control.sock", {"/v1/status": (200, document)}):
        [text], is_running = found(tmp_path, environ)
    assert not is_running
    assert text == (
        "agents.yaml:1: name: demo is running already, as process 99, from /srv/agents.yaml in /srv; "
        "give one of the two another name, or set PALLAS_RUNTIME_DIR"
    )


def test_the_gateways_port_is_looked_at_where_it_will_listen(
    tmp_path: Path, environ: dict[str, str], held: int
) -> None:
    write(tmp_path, *free_ports(2))
    path = tmp_path / "agents.yaml"
    path.write_text(f"{path.read_text()}gateway:\n  port: {held}\n")
    [text], _ = found(tmp_path, environ)
    assert text.startswith(f"agents.yaml:8: gateway.port: port {held} (gateway) is taken by ")
    assert text.endswith(f"(pid {os.getpid()}); free it, or write another one: `gateway: {{port: …}}`")
    path.write_text(f"{path.read_text()}  bind: 127.0.0.9\n")
    assert found(tmp_path, environ) == ([], False)


def test_the_gateways_port_is_its_own_while_it_runs(
    tmp_path: Path, environ: dict[str, str], held: int
) -> None:
    write(tmp_path, *free_ports(2))
    path = tmp_path / "agents.yaml"
    path.write_text(f"{path.read_text()}gateway:\n  port: {held}\n")
    where = {"file": str(path), "directory": str(tmp_path)}
    document = {**status(agent("one")), **where, "gateway": {"port": held, "bind": "127.0.0.1"}}
    (tmp_path / "run").mkdir()
    with serve(tmp_path / "run" / "control.sock", {"/v1/status": (200, document)}):
        assert found(tmp_path, environ) == ([], True)
        path.write_text(f"{path.read_text()}  bind: 192.0.2.1\n")
        [text], _ = found(tmp_path, environ)
    assert text.startswith(
        "agents.yaml:9: gateway.bind: no interface of this machine has the address 192.0.2.1; "
    )


@pytest.mark.parametrize("of_gateway", [True, False])
def test_an_address_that_this_machine_has_not_is_said_once(
    tmp_path: Path, environ: dict[str, str], of_gateway: bool
) -> None:
    registry, port, gateway = free_ports(3)
    write(tmp_path, registry, port)
    path = tmp_path / "agents.yaml"
    own = f"gateway:\n  port: {gateway}\n  bind: " if of_gateway else "bind: "
    path.write_text(f"{path.read_text()}{own}192.0.2.1\n")
    [text], _ = found(tmp_path, environ)
    place = "agents.yaml:9: gateway.bind" if of_gateway else "agents.yaml:7: bind"
    assert text == (
        f"{place}: no interface of this machine has the address 192.0.2.1; write one that it has (`ip address` lists "
        "them), or 0.0.0.0 for all of them"
    )


@pytest.mark.parametrize("by_environment", [True, False])
def test_a_postgresql_that_takes_no_connection_is_a_warning(
    tmp_path: Path, environ: dict[str, str], held: int, by_environment: bool
) -> None:
    registry, port, gateway, nobody = free_ports(4)
    write(tmp_path, registry, port)
    path = tmp_path / "agents.yaml"
    text = f"{path.read_text()}gateway:\n  port: {gateway}\n"

    def look(database: int) -> list[Finding]:
        url = f"postgresql://me:secret@127.0.0.1:{database}/pallas"
        path.write_text(text if by_environment else f"{text}  store: {url}\n")
        variables = {**environ, "PALLAS_GATEWAY_STORE": url} if by_environment else environ
        return machine_findings(read_deployment(path), tmp_path, variables, Places(path))[0]

    assert look(held) == []
    [finding] = look(nobody)
    assert (finding.level, finding.cause) == ("warning", "machine")
    place = "environment: PALLAS_GATEWAY_STORE" if by_environment else f"{path}:9: gateway.store"
    assert str(finding.problem) == (
        f"{place}: PostgreSQL at 127.0.0.1:{nobody} cannot be reached: Connection refused; see whether it runs and the "
        "address is right: until then the gateway can look up no token"
    )


def test_a_variable_that_names_no_store_is_an_error(tmp_path: Path, environ: dict[str, str]) -> None:
    registry, port, gateway = free_ports(3)
    write(tmp_path, registry, port)
    path = tmp_path / "agents.yaml"
    path.write_text(f"{path.read_text()}gateway: {{port: {gateway}}}\n")
    variables = {**environ, "PALLAS_GATEWAY_STORE": "mysql://me:secret@x/y"}
    [finding], _ = machine_findings(read_deployment(path), tmp_path, variables, Places(path))
    assert (finding.level, finding.cause) == ("error", "configuration")
    assert "secret" not in str(finding.problem)
