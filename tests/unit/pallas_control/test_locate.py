"""Which supervisor `pallasctl` talks to, and what it says when it cannot."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from fakes.control_server import agent, run, serve, status
from pallas_control import locate
from pallas_control.client import Control
from pallas_control.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Supervisors(Protocol):
    """Starts a fake supervisor of a deployment, by default at its own place, and gives the path of its socket.

    Args:
        file: the `agents.yaml` that it runs; None: it does not say.
    """

    def __call__(self, deployment: str, path: str | None = None, file: Path | None = None) -> Path: ...


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Supervisors]:
    """A runtime directory with a path short enough for sockets; the working directory is an empty one."""
    for name in ("PALLAS_CONTROL_SOCKET", "PALLAS_RUNTIME_DIR", "RUNTIME_DIRECTORY", "PALLAS_AGENTS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    base = Path(tempfile.mkdtemp())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    monkeypatch.setattr(locate, "SYSTEM_SOCKET", base / "system.sock")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with ExitStack() as stack:

        def supervisor(deployment: str, path: str | None = None, file: Path | None = None) -> Path:
            place = base / (path or f"pallas/{deployment}/control.sock")
            place.parent.mkdir(parents=True, exist_ok=True)
            fake = stack.enter_context(serve(place))
            document = status(agent("one"), deployment=deployment)
            fake.answer("/v1/status", document if file is None else {**document, "file": str(file)})
            return place

        yield supervisor
    shutil.rmtree(base)


def deployment_file(name: str, rest: str = "") -> None:
    Path("agents.yaml").write_text(f"name: {name}\n{rest}", encoding="utf-8")


def test_by_option_before_or_after_the_verb(runtime: Supervisors) -> None:
    path = runtime("a")
    runtime("b")
    assert run("--socket", str(path), "status").exit_code == 0
    assert run("status", "--socket", str(path)).exit_code == 0


def test_by_variable_and_the_option_wins(runtime: Supervisors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_CONTROL_SOCKET", str(runtime("a")))
    assert run("status").exit_code == 0
    assert "/nowhere" in run("status", "--socket", "/nowhere").stderr


def test_by_the_deployment_in_the_working_directory(runtime: Supervisors) -> None:
    runtime("a")
    path = runtime("b")
    deployment_file("b")
    assert locate.control_socket_path(None) == path


def test_a_file_that_is_wrong_elsewhere_still_names_its_deployment(runtime: Supervisors) -> None:
    runtime("a")
    path = runtime("b")
    deployment_file("b", "agents: {x: {prot: 1}}\n")
    assert locate.control_socket_path(None) == path


def test_by_the_file_that_the_environment_names(
    runtime: Supervisors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime("a")
    path = runtime("b")
    file = tmp_path / "other.yaml"
    file.write_text("name: b\n")
    monkeypatch.setenv("PALLAS_AGENTS_CONFIG", str(file))
    assert locate.control_socket_path(None) == path


def test_by_the_runtime_directory_whether_it_lives_or_not(
    runtime: Supervisors, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime("a")
    monkeypatch.setenv("PALLAS_RUNTIME_DIR", "/somewhere")
    assert locate.control_socket_path(None) == Path("/somewhere/control.sock")
    assert "/somewhere/control.sock" in run("status").stderr


def test_by_dotenv_as_the_supervisor_reads_it(runtime: Supervisors) -> None:
    Path(".env").write_text("PALLAS_RUNTIME_DIR=/from/dotenv\n")
    assert locate.control_socket_path(None) == Path("/from/dotenv/control.sock")


def test_the_only_one_that_lives(runtime: Supervisors) -> None:
    path = runtime("a")
    stale = path.parent.parent / "stale" / "control.sock"
    stale.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(stale))
    assert locate.control_socket_path(None) == path


def test_the_systems_one(runtime: Supervisors) -> None:
    path = runtime("a", "system.sock")
    assert locate.control_socket_path(None) == path
    deployment_file("a")
    assert locate.control_socket_path(None) == path


def test_never_another_deployments(runtime: Supervisors) -> None:
    runtime("a")
    deployment_file("b")
    result = run("stop", "--all")
    assert result.exit_code == 1
    assert "pallas is not running here: no socket at" in result.stderr
    assert "/pallas/b/control.sock" in result.stderr


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """The `agents.yaml`, with the name `a`, of another folder than the working directory."""
    other = tmp_path / "other"
    other.mkdir()
    file = other / "agents.yaml"
    file.write_text("name: a\n")
    return file


def test_never_that_of_another_folder_with_the_same_name(runtime: Supervisors, elsewhere: Path) -> None:
    runtime("a", file=elsewhere)
    deployment_file("a")
    result = run("stop", "--all")
    assert result.exit_code == 1
    assert result.stderr == (
        f"pallasctl: a runs from {elsewhere}, and this is {Path.cwd() / 'agents.yaml'}: nothing was asked of it; "
        "go to its folder, or say --deployment a; for this one beside it, give it another `name:`\n"
    )


def test_never_that_of_another_folder_by_a_runtime_directory_that_dotenv_names(
    runtime: Supervisors, elsewhere: Path
) -> None:
    path = runtime("a", file=elsewhere)
    deployment_file("b")
    Path(".env").write_text(f"PALLAS_RUNTIME_DIR={path.parent}\n")
    assert f"runs from {elsewhere}" in run("stop", "--all").stderr


def test_never_that_of_another_folder_that_the_system_runs(runtime: Supervisors, elsewhere: Path) -> None:
    runtime("a", "system.sock", elsewhere)
    deployment_file("a")
    assert f"runs from {elsewhere}" in run("stop", "--all").stderr


def test_its_own_elsewhere_though_another_folder_has_its_place(runtime: Supervisors, elsewhere: Path) -> None:
    runtime("a", file=elsewhere)
    deployment_file("a")
    path = runtime("a", "system.sock", Path.cwd() / "agents.yaml")
    assert locate.control_socket_path(None) == path


def test_a_folder_by_a_link_is_the_same(
    runtime: Supervisors, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runtime("a", file=tmp_path / "link" / "agents.yaml")
    (tmp_path / "link").symlink_to(elsewhere.parent)
    monkeypatch.chdir(elsewhere.parent)
    assert locate.control_socket_path(None) == path


def test_one_that_hangs_says_by_its_lock_of_which_folder_it_is(runtime: Supervisors, elsewhere: Path) -> None:
    deployment_file("a")
    place = Path(os.environ["XDG_RUNTIME_DIR"], "pallas", "a")
    place.mkdir(parents=True)
    (place / "supervisor.lock").write_text(f"1\n{elsewhere}\n")
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(place / "control.sock"))
        mute.listen()
        assert f"runs from {elsewhere}" in run("stop", "--all").stderr


def test_what_a_killed_one_of_another_folder_has_left_is_nobodys(
    runtime: Supervisors, elsewhere: Path
) -> None:
    deployment_file("a")
    place = Path(os.environ["XDG_RUNTIME_DIR"], "pallas", "a")
    place.mkdir(parents=True)
    (place / "supervisor.lock").write_text(f"1\n{elsewhere}\n")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(place / "control.sock"))
    assert "it was left behind" in run("stop", "--all").stderr


def test_by_the_name_that_the_command_line_says(runtime: Supervisors, elsewhere: Path) -> None:
    path = runtime("a", file=elsewhere)
    runtime("b")
    deployment_file("a")
    assert locate.control_socket_path(None, deployment="a") == path
    assert run("--deployment", "a", "status").exit_code == 0
    assert run("status", "--deployment", "a").exit_code == 0


def test_a_name_that_none_or_several_have_is_refused(
    runtime: Supervisors, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runtime("a", file=elsewhere)
    monkeypatch.setenv("PALLAS_CONTROL_SOCKET", str(path))
    assert "no deployment called b runs here" in run("status", "--deployment", "b").stderr
    second = runtime("a", "system.sock")
    assert run("status", "--deployment", "a").stderr.splitlines() == [
        "pallasctl: more than one deployment called a runs here; name its socket with --socket",
        f"  {path}: {elsewhere}",
        f"  {second}",
    ]


def test_more_than_one(runtime: Supervisors) -> None:
    paths = [runtime("a"), runtime("b")]
    result = run("status")
    assert result.exit_code == 4
    assert result.stderr.splitlines() == [
        "pallasctl: more than one supervisor runs here; name one with --socket or --deployment",
        *(f"  {path}" for path in paths),
    ]


def test_none(runtime: Supervisors) -> None:
    result = run("status")
    assert result.exit_code == 4
    assert result.stderr.startswith("pallasctl: no running pallas found: no agents.yaml in this directory")


def test_a_socket_that_was_left_behind(runtime: Supervisors, tmp_path: Path) -> None:
    path = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    result = run("--socket", str(path), "stop", "--all")
    assert result.exit_code == 1
    assert f"nobody listens on {path}, it was left behind" in result.stderr


def test_a_socket_of_others(runtime: Supervisors, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = runtime("a", "system.sock")
    monkeypatch.setattr("pallas_control.client._UnixConnection.connect", refuse)  # root may use every socket
    for arguments in (["--socket", str(path), "status"], ["status"]):
        result = run(*arguments)
        assert result.exit_code == 4
        assert (
            result.stderr
            == f"pallasctl: no permission for {path}: join the group that owns it, or use sudo\n"
        )


def test_a_path_that_is_too_long(runtime: Supervisors) -> None:
    result = run("--socket", "/" + "x" * 200, "status")
    assert result.exit_code == 4
    assert "too long" in result.stderr


def test_a_supervisor_that_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "mute"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen()
        with pytest.raises(ControlError, match=r"did not answer within 0\.2 s"):
            Control(path).get("/v1/status", timeout=0.2)


def test_completion_offers_the_agents(runtime: Supervisors) -> None:
    path = runtime("a")
    environment = os.environ | {
        "_PALLASCTL_COMPLETE": "bash_complete",
        "COMP_WORDS": f"pallasctl --socket {path} stop o",
        "COMP_CWORD": "4",
    }
    command = [sys.executable, "-c", "from pallasctl.main import main; main()"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout == "plain,one\n"


def test_starting_loads_little() -> None:
    code = (
        "import sys, pallasctl.main as m, pallasctl.verbs.state.status\n"
        "print([n for n in ('httpx', 'yaml', 'asyncio', 'rich', 'fast_agent') if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout == "[]\n"
