"""The examples with real parts run as their READMEs say: the commands as they stand, in their order, on free ports."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pytest

from fakes.llm_stub import run_llm_stub
from support.documents.blocks import blocks_of
from support.documents.examples import copy_example
from support.documents.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def not_run(needed: str) -> NoReturn:
    message = f"not run: needs {needed}"
    if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def reader(name: str, tmp_path: Path) -> Iterator[tuple[Shell, list[str], Mapping[str, str]]]:
    """A reader of an example's README in its folder, the commands, and the ports in place of those that it names.

    In the end nothing runs any more, also where a command failed.
    """
    _, ports = copy_example(name, tmp_path / name)
    (tmp_path / "home").mkdir()
    blocks = [block for block in blocks_of(tmp_path / name / "README.md") if block.language == "bash"]
    assert all(block.not_run is None for block in blocks)
    shell = Shell(tmp_path / name, tmp_path / "home")
    try:
        yield shell, [block.text for block in blocks], ports
    finally:
        shell.run(["pallas down --now", "test ! -e nginx.pid || nginx -p . -c nginx.conf -s stop"])


def test_an_mcp_server_from_a_package(tmp_path: Path) -> None:
    with reader("real-server", tmp_path) as (shell, commands, _):
        *_, asked = shell.run(commands)
        assert '"timezone":"Europe/Berlin"' in asked.replace(" ", "")
        assert '"datetime"' in asked


def test_a_model_server_of_this_machine(tmp_path: Path) -> None:
    """The server is a stand-in that speaks the same protocol: weights of a model are too large for a test."""
    with reader("local-model", tmp_path) as (shell, commands, ports):
        with run_llm_stub(models=("llama3.2",), port=int(ports["11434"])) as stub:
            (answered,) = shell.run(commands)
        assert "A line about ports" in answered
        assert [asked.model for asked in stub.asked] == ["llama3.2"]


def test_two_agents_with_different_versions_of_a_library(tmp_path: Path) -> None:
    with reader("own-environments", tmp_path) as (shell, commands, _):
        *_, asked = shell.run(commands)
        assert "1.10.0, by semver 2.13.0" in asked
        assert "1.10.0, by semver 3.0.4" in asked


def test_a_proxy_with_tls_and_a_token(tmp_path: Path) -> None:
    if shutil.which("nginx") is None:
        not_run("nginx (apt-get install nginx-light)")
    with reader("behind-nginx", tmp_path) as (shell, commands, ports):
        without_token = (
            f"! curl --silent --fail --cacert certificate.pem https://localhost:{ports['8443']}/\n"
        )
        page = (
            f'curl --silent --fail --cacert certificate.pem --header "Authorization: $token" '
            f"https://localhost:{ports['8443']}/\n"
        )
        *others, stop = commands
        printed = shell.run([*others, without_token, page, stop])
        assert '"name":"greeter"' in printed[len(others) - 1].replace(" ", "")
        assert "<title>" in printed[-2]
