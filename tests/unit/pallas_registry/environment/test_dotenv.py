"""`.env` and the environment of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dotenv.main import DotEnv

from pallas_common.problems import ConfigurationError
from pallas_registry.environment.dotenv import load_dotenv, worker_environment

if TYPE_CHECKING:
    from pathlib import Path


def test_only_what_is_not_set_comes_from_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nB=file\nC=\n")
    environ = {"A": "set", "C": ""}
    assert load_dotenv(tmp_path, environ) == {"B": "file"}
    assert environ == {"A": "set", "C": ""}


def test_the_forms_of_dotenv(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# a comment\nexport A=1\nB='single # quoted'\nC=\"two\\nlines\"\nD=bare # comment\nALONE\nE=\n"
    )
    assert load_dotenv(tmp_path, {}) == {
        "A": "1",
        "B": "single # quoted",
        "C": "two\nlines",
        "D": "bare",
        "E": "",
    }


def test_references_are_filled_in_as_python_dotenv_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text(
        "HOST=db.test\nUSER_NAME=file\nALONE\n"
        'URL="pg://${USER_NAME}@${HOST}:${PORT:-5432}/$HOST"\n'
        "QUOTED='${HOST}'\nEMPTY=a${LATER}${ALONE}b\nLATER=x\nHOST=again\nLAST=${HOST}${EMPTY}\n"
    )
    environ = {"USER_NAME": "set"}
    for name in ("HOST", "PORT", "ALONE", "LATER", "EMPTY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER_NAME", "set")
    read = load_dotenv(tmp_path, environ)
    assert read["URL"] == "pg://set@db.test:5432/$HOST"
    # What has no value is no variable; else all is as there.
    expected = DotEnv(tmp_path / ".env", override=False).dict()
    assert read == {
        name: value for name, value in expected.items() if value is not None and name not in environ
    }


def test_references_cannot_make_a_value_of_any_size(tmp_path: Path) -> None:
    doubling = "A0=xxxxxxxx\n" + "".join(f"A{n + 1}=${{A{n}}}${{A{n}}}\n" for n in range(40))
    (tmp_path / ".env").write_text(doubling + f"MANY={'${A0' * 20000}}}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_dotenv(tmp_path, {})
    assert "A14: takes 131077 bytes, 131072 are allowed" in str(caught.value.problems[0])


def test_no_file_no_variables(tmp_path: Path) -> None:
    assert load_dotenv(tmp_path, {}) == {}
    (tmp_path / ".env").mkdir()  # some name a virtual environment so
    assert load_dotenv(tmp_path, {}) == {}


@pytest.mark.parametrize(
    ("data", "line", "part"),
    [(b"A=1\nB=\xff\n", 2, "is not UTF-8"), (b"A=1\nB=2\nC=\0\n", 3, "holds a NUL character")],
)
def test_what_no_environment_can_carry(tmp_path: Path, data: bytes, line: int, part: str) -> None:
    (tmp_path / ".env").write_bytes(data)
    with pytest.raises(ConfigurationError) as caught:
        load_dotenv(tmp_path, {})
    [problem] = caught.value.problems
    assert (problem.file, problem.line) == (str(tmp_path / ".env"), line)
    assert part in problem.message


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"\xef\xbb\xbfA=1\n")
    assert load_dotenv(tmp_path, {}) == {"A": "1"}


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("A=1\n\n\nthis is no line\n", 4, "cannot be understood; write the line as `NAME=value`"),
        ("A='hushed\nB=2\n", 1, "cannot be understood"),
        ('A=1\nB="hushed\nC=2', 2, "cannot be understood"),
        ("=value\n", 1, "cannot be understood"),
        ("'A=B'=1\n", 1, "names a variable with a `=` in it"),
        ("A=1\nKEY=" + "x" * 140_000, 2, "KEY: takes 140005 bytes, 131072 are allowed"),
        ("A=1\nB=2" + " " * 300_000 + "x", 2, "more than 256 blanks in a row"),
    ],
)
def test_what_is_no_assignment_is_refused_with_its_line_and_without_a_value(
    tmp_path: Path, text: str, line: int, part: str
) -> None:
    (tmp_path / ".env").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_dotenv(tmp_path, {})
    [problem] = caught.value.problems
    assert (problem.file, problem.line) == (str(tmp_path / ".env"), line)
    assert part in str(problem)
    assert "hushed" not in str(problem)


def test_every_line_that_is_wrong_is_named_and_there_is_an_end_to_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nno line\nB=2\nneither this\n")
    with pytest.raises(ConfigurationError) as caught:
        load_dotenv(tmp_path, {})
    assert [problem.line for problem in caught.value.problems] == [2, 4]
    (tmp_path / ".env").write_text("no line\n" * 100_000)
    with pytest.raises(ConfigurationError) as caught:
        load_dotenv(tmp_path, {})
    assert len(caught.value.problems) == 101
    assert str(caught.value.problems[-1]).endswith("99900 more problems; mend those above first")


def test_the_service_managers_variables_stop_at_the_supervisor() -> None:
    environ = {
        "PATH": "/bin",
        "NOTIFY_SOCKET": "/run/x",
        "WATCHDOG_USEC": "1",
        "WATCHDOG_PID": "1",
        "LISTEN_FDS": "1",
        "LISTEN_PID": "1",
        "LISTEN_FDNAMES": "x",
    }
    assert worker_environment(environ, {"LISTEN_FDS": "2"}) == {"PATH": "/bin"}


def test_the_gateways_secrets_stop_at_the_gateway() -> None:
    environ = {"PATH": "/bin", "PALLAS_GATEWAY_STORE": "x", "PALLAS_GATEWAY_CLIENT_SECRET": "y"}
    assert worker_environment(environ, {}) == {"PATH": "/bin"}


def test_the_agents_own_variables_win() -> None:
    assert worker_environment({"A": "1", "B": "1"}, {"A": "2", "C": "2"}) == {"A": "2", "B": "1", "C": "2"}


def test_look_alikes_pass() -> None:
    environ = {"LISTENER": "1", "MY_LISTEN_FDS": "1", "NOTIFY_SOCKETS": "1", "WATCHDOG": "1"}
    assert worker_environment(environ, {}) == environ
