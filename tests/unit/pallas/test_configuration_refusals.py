"""Broken configurations: `pallas`, `pallasctl check` and a reload say the same, all at once, and nothing is started.

All three run in this process, so that there can be many; what a running supervisor does is in
`tests/system/fleet/configuration/test_configuration.py`.
"""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from pallas.server import pallas
from pallas_common.problems import ConfigurationError
from pallas_registry.source import read_configuration
from pallas_supervisor.reload.drift import Drift
from pallas_supervisor.reload.source import Source
from pallasctl.main import pallasctl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GOOD = b"name: demo\nagents:\n  one: {module: agents.one, port: 24201}\n"
PIPE = None
"""In place of a file's content."""


class Case(NamedTuple):
    """What is wrong, and what has to be in the message: one needle for each line."""

    name: str
    files: Mapping[str, bytes | None]
    needles: tuple[str, ...]
    env: Mapping[bytes, bytes] = {}


def of_yaml(name: str, data: bytes, *needles: str) -> Case:
    return Case(name, {"agents.yaml": data}, needles)


def with_good(name: str, file: str, data: bytes | None, *needles: str) -> Case:
    return Case(name, {"agents.yaml": GOOD, file: data}, needles)


def in_environment(name: str, variable: str, value: bytes, *needles: str) -> Case:
    return Case(name, {"agents.yaml": GOOD}, needles, {variable.encode(): value})


SECRET = b"sk-abcdefghijklmnopqrstuvwxyz0123456789"

CASES = [
    of_yaml("empty", b"", "agents.yaml: is empty"),
    of_yaml("only comments", b"# nothing\n", "agents.yaml: is empty"),
    of_yaml("null", b"~\n", "agents.yaml:1: is empty, not a mapping"),
    of_yaml("a list", b"- a\n", "agents.yaml:1: is a list"),
    of_yaml("binary", b"\x7fELF\x02\x01\x01\0\0\0\x80\xff", "agents.yaml:1: the byte 0x80 is not UTF-8"),
    of_yaml("NUL", b"name: a\0b\n", "agents.yaml:1: holds a NUL character"),
    of_yaml("UTF-16", GOOD.decode().encode("utf-16"), "agents.yaml:1: is UTF-16; save the file as UTF-8"),
    of_yaml(
        "a control character", b"name: a\x1b[2Jb\n", "agents.yaml:1: the character U+001B is not allowed"
    ),
    of_yaml("an open bracket", b"name: [demo\n", "close the quote or the bracket"),
    of_yaml("an open quote", b"name: 'demo\n", "close the quote or the bracket"),
    of_yaml(
        "a tab",
        b"name: demo\nagents:\n\tone: {}\n",
        "agents.yaml:3: ",
    ),
    of_yaml("deep", b"name: " + b"[" * 50_000, "agents.yaml:1: nests too deeply"),
    of_yaml("deep blocks", b"- " * 50_000, "agents.yaml:1: nests too deeply"),
    of_yaml("too many", b"a:" + b"\n- b" * 60_000, "holds more than 50000 values"),
    of_yaml("too large", b"#" * (1 << 20) + b"\n", "has 1048577 bytes, more than any real configuration"),
    of_yaml("an alias in itself", b"name: &a [*a]\n", "agents.yaml:1: holds itself"),
    of_yaml("a merge of itself", b"a: &a\n  <<: *a\n", "agents.yaml:2: merges itself"),
    of_yaml(
        "aliases of aliases",
        b"a0: &a0 lol\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 30)),
        "holds more than 50000 values",
    ),
    of_yaml("an unknown alias", b"name: *nobody\n", "define the anchor"),
    of_yaml("two documents", GOOD + b"---\n" + GOOD, "keep one document in the file"),
    of_yaml(
        "a tag",
        b"name: !!python/object/apply:os.system [id]\nagents: {}\n",
        "agents.yaml:1: name: is tagged",
    ),
    of_yaml(
        "an unknown key and a duplicate",
        GOOD + b"name: other\nnmae: x\n",
        "given twice",
        "did you mean `name`?",
    ),
    of_yaml("a number of many digits", GOOD.replace(b"24201", b"9" * 5_000), "agents.one.port: "),
    of_yaml("a long name", GOOD.replace(b"demo", b"x" * 100_000), "has 100000 characters"),
    of_yaml(
        "a time without an end",
        GOOD.replace(b"}", b", start_timeout: 1e300}"),
        "use at most 1000000000 seconds",
    ),
    of_yaml(
        "a count without an end", GOOD.replace(b"}", b", max_queue: 1" + b"0" * 400 + b"}"), "is out of range"
    ),
    of_yaml("memory without an end", GOOD.replace(b"}", b", memory_limit: 99999999TB}"), "is out of range"),
    of_yaml(
        "a long variable",
        GOOD.replace(b"}", b", env: {A: " + b"x" * 140_000 + b"}}"),
        "agents.one.env.A: takes 140003 bytes",
    ),
    of_yaml("a variable with NUL", GOOD.replace(b"}", b', env: {A: "\\0"}}'), "contains a NUL character"),
    of_yaml("half of a surrogate pair", GOOD.replace(b"demo", b'"\\ud83d"'), "agents.yaml:1: "),
    Case("a pipe", {"agents.yaml": PIPE}, ("agents.yaml: is a pipe, not a file",)),
    Case("no file", {}, ("agents.yaml: there is no such file",)),
    with_good(".env: a pipe", ".env", PIPE, ".env: is a pipe, not a file"),
    with_good(".env: no assignment", ".env", b"A=1\nno assignment\n", ".env:2: cannot be understood"),
    with_good(".env: an open quote", ".env", b"KEY='" + SECRET, ".env:1: cannot be understood"),
    with_good(".env: not UTF-8", ".env", b"A=\xff\n", ".env:1: the byte 0xff is not UTF-8"),
    with_good(".env: NUL", ".env", b"A=\0\n", ".env:1: holds a NUL character"),
    with_good(".env: an impossible name", ".env", b"'A=B'=1\n", ".env:1: names a variable with a `=` in it"),
    with_good(".env: a long variable", ".env", b"A=" + b"x" * 140_000, ".env:1: A: takes 140003 bytes"),
    with_good(".env: blanks", ".env", b"A=x" + b" " * 500_000 + b"y\n", ".env:1: has more than 256 blanks"),
    with_good(
        ".env: a level", ".env", b"PALLAS_LOG_LEVEL=loud\n", "PALLAS_LOG_LEVEL: 'loud' is not a log level"
    ),
    with_good("settings: a pipe", "fastagent.config.yaml", PIPE, "fastagent.config.yaml: is a pipe"),
    with_good("settings: no YAML", "fastagent.config.yaml", b"a: [\n", "fastagent.config.yaml:"),
    with_good(
        "settings: deep", "fastagent.config.yaml", b"[" * 50_000, "fastagent.config.yaml:1: nests too deeply"
    ),
    with_good(
        "settings: our keys",
        "fastagent.config.yaml",
        b"default_model: [a]\nmodel_capabilities: {vision: perhaps}\nlogger: {level: loud}\n",
        *("default_model: is a list", "vision: is text", "logger.level: 'loud' is not a log level"),
    ),
    with_good("secrets: a pipe", "fastagent.secrets.yaml", PIPE, "fastagent.secrets.yaml: is a pipe"),
    with_good(
        "secrets: no YAML",
        "fastagent.secrets.yaml",
        b"openai:\n  api_key: '" + SECRET,
        "fastagent.secrets.yaml:2",
    ),
    with_good("home: no YAML", ".fast-agent/fast-agent.yaml", b"a: [\n", ".fast-agent/fast-agent.yaml:"),
    in_environment(
        "an interval", "PALLAS_PROBE_INTERVAL", b"soon", "PALLAS_PROBE_INTERVAL: 'soon' is no interval"
    ),
    in_environment("NaN", "PALLAS_PROBE_INTERVAL", b"nan", "PALLAS_PROBE_INTERVAL: 'nan' is no interval"),
    in_environment(
        "a huge one", "PALLAS_PROBE_INTERVAL", b"1e300", "PALLAS_PROBE_INTERVAL: '1e300' is no interval"
    ),
    in_environment(
        "a negative one", "PALLAS_PROBE_INTERVAL", b"-1", "PALLAS_PROBE_INTERVAL: '-1' is no interval"
    ),
    in_environment("a level", "PALLAS_LOG_LEVEL", b"\xff", r"PALLAS_LOG_LEVEL: '\udcff' is not a log level"),
    in_environment(
        "a root level", "PALLAS_ROOT_LOG_LEVEL", b"11", "PALLAS_ROOT_LOG_LEVEL: '11' is not a log level"
    ),
    in_environment("stderr", "PALLAS_LOG_STDERR", b"yes", "PALLAS_LOG_STDERR: 'yes' is neither 0 nor 1"),
    in_environment("a proxy", "ALL_PROXY", b"ftp://p", "environment: ALL_PROXY: is of a kind of proxy that"),
    with_good(
        "a log of .env",
        ".env",
        b"SSLKEYLOGFILE=/none/log\n",
        ".env: SSLKEYLOGFILE: names a file that cannot",
    ),
    of_yaml(
        "certificates of an agent",
        GOOD.replace(b"}", b", env: {SSL_CERT_FILE: /none}}"),
        "agents.yaml:3: agents.one.env.SSL_CERT_FILE: names a file that cannot be read",
    ),
    in_environment("a group", "PALLAS_CGROUP", b"a/b", "PALLAS_CGROUP: 'a/b' is no absolute path"),
    in_environment(
        "a home", "PALLAS_LOG_FILE", b"~nobody-is-called-so/x", "no home directory ~nobody-is-called-so"
    ),
    in_environment(
        "a runtime directory", "PALLAS_RUNTIME_DIR", b"/" + b"x" * 200, "a unix socket allows 107"
    ),
    in_environment(
        "another file", "PALLAS_AGENTS_CONFIG", b"\xff\x1b.yaml", r"\udcff\x1b.yaml: there is no such file"
    ),
    in_environment(
        "credentials", "CREDENTIALS_DIRECTORY", b"/proc/self/status", "cannot be read: Not a directory"
    ),
    Case(
        "all at once",
        {
            "agents.yaml": b"name: demo\nagents:\n  one: {port: 0}\n",
            ".env": b"no assignment\n",
            "fastagent.config.yaml": b"default_model: [a]\n",
            "fastagent.secrets.yaml": b"a: [\n",
        },
        (
            *(".env:1", "agents.yaml:3: agents.one.module", "agents.yaml:3: agents.one.port"),
            *("fastagent.config.yaml:1", "environment: PALLAS_PROBE_INTERVAL", "fastagent.secrets.yaml:"),
        ),
        {b"PALLAS_PROBE_INTERVAL": b"x"},
    ),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without variables of ours."""
    for name in list(os.environ):
        if name.startswith("PALLAS_") or name in ("FAST_AGENT_HOME", "CREDENTIALS_DIRECTORY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, case: Case) -> None:
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        if content is PIPE:
            os.mkfifo(folder / name)
        else:
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_start_and_check_refuse_it_with_the_same_words(case: Case, folder: Path) -> None:
    write(folder, case)
    before = sorted(folder.rglob("*"))
    with (
        patch.dict(os.environb, case.env),
        patch("pallas.serve.zygote_for", side_effect=AssertionError("it was started")),
    ):
        start = CliRunner().invoke(pallas, [])
        check = CliRunner().invoke(pallasctl, ["check"])
    assert (start.exit_code, check.exit_code) == (2, 2), (start.output, start.exception, check.output)
    assert isinstance(start.exception, SystemExit)
    said = [line.removeprefix("pallas: ").replace(f"{folder}/", "") for line in start.stderr.splitlines()]
    checked = [line.strip().replace(f"{folder}/", "") for line in check.stderr.splitlines()[1:]]
    assert said == checked
    assert len(said) == len(case.needles)
    for line, needle in zip(said, case.needles, strict=True):
        assert needle in line
        assert "; " in line, "the way out"
        assert len(line) < 700
        assert line.isprintable()
        assert "sk-abc" not in line
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "case",
    # Where the file is, and what the service manager hands over, is read at a start alone.
    [case for case in CASES if case.name not in ("another file", "credentials")],
    ids=lambda case: case.name,
)
def test_a_reload_refuses_it_with_the_same_words_and_keeps_what_there_is(case: Case, folder: Path) -> None:
    agents = folder / "agents.yaml"
    agents.write_bytes(GOOD)
    taken = read_configuration(folder, os.environ)
    drift = Drift(Source(path=agents, directory=folder), taken)
    agents.unlink()
    write(folder, case)
    with patch.dict(os.environb, case.env), pytest.raises(ConfigurationError) as raised:
        asyncio.run(drift.read())
    with patch.dict(os.environb, case.env):
        check = CliRunner().invoke(pallasctl, ["check"])
    checked = [line.strip().replace(f"{folder}/", "") for line in check.stderr.splitlines()[1:]]
    assert str(raised.value).replace(f"{folder}/", "").splitlines() == checked
    assert drift.taken is taken


def test_a_machine_that_can_start_nothing_is_said_in_one_line(folder: Path) -> None:
    (folder / "agents.yaml").write_bytes(GOOD)
    full = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    with (
        patch.dict(os.environ),
        patch("pallas.serve.withhold_all"),
        patch("pallas.serve.raise_descriptor_limit"),
        patch("pallas.serve.zygote_for", side_effect=full),
    ):
        start = CliRunner().invoke(pallas, [])
    assert start.exit_code == 1
    assert start.stderr == f"pallas: cannot start: {full}\n"


KEYS = [
    SECRET.decode(),
    "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "xoxb-123456789012-abcdefghijkl",
    "AIzaSyabcdefghijklmnopqrstuvwxyz0123456",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_literal_key_is_a_warning_with_its_place_and_never_shown(key: str, folder: Path) -> None:
    (folder / "agents.yaml").write_bytes(
        GOOD.replace(b"}", b",\n    env: {A: b, OPENAI_API_KEY: %s}}" % key.encode())
    )
    (folder / "fastagent.config.yaml").write_text(
        f"openai:\n  api_key: {key}\nmcp:\n  servers:\n    x:\n      headers: {{Authorization: 'Bearer {key}'}}\n"
    )
    (folder / "fastagent.secrets.yaml").write_text(f"openai:\n  api_key: {key}\n")
    (folder / ".env").write_text(f"OPENAI_API_KEY={key}\n")
    check = CliRunner().invoke(pallasctl, ["check", "--offline"])
    assert check.exit_code == 0
    said = [line.removeprefix("pallasctl: warning: ") for line in check.stderr.splitlines()]
    why = "looks like a key, and whoever reads the file has it; put it into .env, "
    reference = "and write `${NAME}` here, with its name there"
    assert [line.replace(f"{folder}/", "") for line in said] == [
        f"agents.yaml:4: agents.one.env.OPENAI_API_KEY: {why}whose variables every agent gets",
        f"fastagent.config.yaml:2: openai.api_key: {why}{reference}",
        f"fastagent.config.yaml:6: mcp.servers.x.headers.Authorization: {why}{reference}",
    ]
    assert key not in check.output


def test_a_variable_that_nothing_is_put_in_for_is_a_warning(folder: Path) -> None:
    (folder / "agents.yaml").write_bytes(GOOD.replace(b"}", b",\n    env: {A: b$, TOKEN: '${MY_TOKEN}'}}"))
    check = CliRunner().invoke(pallasctl, ["check", "--offline"])
    assert check.exit_code == 0
    (warning,) = check.stderr.splitlines()
    assert warning.endswith(
        "agents.yaml:4: agents.one.env.TOKEN: `${MY_TOKEN}` stays as it is written: nothing is put in here; "
        "write the value, or put the variable into .env, whose variables every agent gets"
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "text",
    [
        "name: *{0}",
        "{0}: 1",
        "? {0}\n: 1\n{0}: 2",
        "name: demo\nversion: '{0} x'",
        "name: demo\nhost: 'http://{0}'",
        "name: demo\nagents: {{one: {{module: '{0}', port: '{0}', icon: 'ftp://{0}', restart: '{0}'}}}}",
        "name: demo\nagents: {{one: {{module: m, port: 1, depends_on: ['{0}'], env: {{'{0}': 1}}}}}}",
        "name: !{0} x",
    ],
)
def test_no_problem_quotes_a_key(text: str, key: str, folder: Path) -> None:
    (folder / "agents.yaml").write_text(text.format(key))
    check = CliRunner().invoke(pallasctl, ["check"])
    assert check.exit_code == 2
    assert key not in check.output


def test_references_and_plain_words_are_no_keys(folder: Path) -> None:
    (folder / "agents.yaml").write_bytes(
        GOOD.replace(b"}", b", description: task-force, env: {A: ask-one-two-three}}")
    )
    (folder / "fastagent.config.yaml").write_text("openai: {api_key: '${OPENAI_API_KEY}'}\n")
    assert CliRunner().invoke(pallasctl, ["check", "--offline"]).stderr == ""


def test_problems_beyond_those_that_are_told_are_counted_once(folder: Path) -> None:
    (folder / "agents.yaml").write_bytes(
        GOOD + b"".join(b"  a%d: {module: agents.a}\n" % n for n in range(150))
    )
    (folder / "fastagent.config.yaml").write_bytes(b"default_model: [a]\n")
    check = CliRunner().invoke(pallasctl, ["check"])
    summary, *said = check.stderr.splitlines()
    assert summary == "pallasctl: agents.yaml: 151 problems"
    assert len(said) == 101
    assert said[-1].endswith(": 51 more problems; mend those above first")


def test_check_names_the_file_that_dotenv_names(folder: Path) -> None:
    (folder / ".env").write_bytes(b"PALLAS_AGENTS_CONFIG=other.yaml\n")
    (folder / "other.yaml").write_bytes(b"")
    check = CliRunner().invoke(pallasctl, ["check"])
    assert check.stderr.splitlines()[0] == "pallasctl: other.yaml: one problem"


def test_a_byte_order_mark_does_not_matter(folder: Path) -> None:
    mark = b"\xef\xbb\xbf"
    (folder / "agents.yaml").write_bytes(mark + GOOD)
    (folder / ".env").write_bytes(mark + b"PALLAS_LOG_LEVEL=debug\n")
    (folder / "fastagent.config.yaml").write_bytes(mark + b"default_model: passthrough\n")
    (folder / "fastagent.secrets.yaml").write_bytes(mark + b"openai: {api_key: x}\n")
    check = CliRunner().invoke(pallasctl, ["check", "--offline"])
    assert (check.exit_code, check.stderr) == (0, "")


def test_a_working_directory_that_is_gone_is_said_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command, arguments in ((pallas, []), (pallasctl, ["check"]), (pallasctl, ["status"])):
        result = CliRunner().invoke(command, arguments)
        assert result.exit_code not in (0, 3)
        [line] = result.stderr.splitlines()
        assert "the working directory no longer exists; cd to " in line
