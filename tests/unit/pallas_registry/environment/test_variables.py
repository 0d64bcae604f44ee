"""`PALLAS_*` variables: one reader each, and the same answer to whoever asks."""

from __future__ import annotations

import pytest

from pallas_common.logs.levels import levels
from pallas_common.problems import ConfigurationError
from pallas_common.protocol.probe_interval import probe_interval
from pallas_registry.environment.variables import (
    check_variables,
    client_secret,
    control_group,
    log_file,
    logs_to_stderr,
)


def test_where_the_log_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(log_file({})) == "/home/someone/.local/state/pallas/pallas.log"
    assert str(log_file({"PALLAS_LOG_FILE": "/var/log/pallas.log"})) == "/var/log/pallas.log"
    assert str(log_file({"PALLAS_LOG_FILE": "~/p.log"})) == "/home/someone/p.log"
    assert str(log_file({"PALLAS_LOG_FILE": ""})) == "/home/someone/.local/state/pallas/pallas.log"


def test_without_a_home_there_is_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    with pytest.raises(ConfigurationError) as caught:
        log_file({})
    assert str(caught.value) == (
        "environment: PALLAS_LOG_FILE: there is no home directory ~ for the log file; set it to the path of a file"
    )
    assert str(log_file({"PALLAS_LOG_FILE": "/var/log/pallas.log"})) == "/var/log/pallas.log"


@pytest.mark.parametrize(("given", "wanted"), [("1", True), ("0", False), ("", False)])
def test_stderr_is_asked_for_with_a_one(given: str, wanted: bool) -> None:
    assert logs_to_stderr({"PALLAS_LOG_STDERR": given}) is wanted
    assert logs_to_stderr({}) is False


def test_a_control_group_has_an_absolute_path() -> None:
    assert str(control_group({"PALLAS_CGROUP": "/sys/fs/cgroup/x"})) == "/sys/fs/cgroup/x"
    assert control_group({"PALLAS_CGROUP": ""}) is control_group({}) is None


@pytest.mark.parametrize(
    "given", ["x", "nan", "-1", "0", "1e9", "inf", "1_5", "１５", "0x10", "\udcff", "1" * 99_999]
)
def test_what_is_no_interval(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PALLAS_PROBE_INTERVAL: .+ is no interval") as caught:
        probe_interval({"PALLAS_PROBE_INTERVAL": given})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("given", ["loud", "10", "\udcff", "INFO " * 99_999])
@pytest.mark.parametrize("variable", ["PALLAS_LOG_LEVEL", "PALLAS_ROOT_LOG_LEVEL"])
def test_what_is_no_level(variable: str, given: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{variable}: .+ is not a log level") as caught:
        levels({variable: given}, None)
    assert len(str(caught.value)) < 200


def test_the_clients_secret_is_not_shown_when_it_is_wrong() -> None:
    assert client_secret({"PALLAS_GATEWAY_CLIENT_SECRET": "a % secret"}) == "a % secret"
    assert client_secret({"PALLAS_GATEWAY_CLIENT_SECRET": ""}) is client_secret({}) is None
    for wrong in ("hunter2\n", "hunter2ä", "hunter2" * 100):
        with pytest.raises(ConfigurationError, match="PALLAS_GATEWAY_CLIENT_SECRET") as caught:
            client_secret({"PALLAS_GATEWAY_CLIENT_SECRET": wrong})
        assert "hunter2" not in str(caught.value)


def test_all_are_checked_in_one_go() -> None:
    environ = {
        "PALLAS_LOG_FILE": "~nobody-has-this-name/p.log",
        "PALLAS_LOG_STDERR": "true",
        "PALLAS_CGROUP": "pallas",
        "PALLAS_RUNTIME_DIR": "/" + "x" * 200,
    }
    with pytest.raises(ConfigurationError) as caught:
        check_variables(environ, "demo")
    assert [str(problem).partition(";")[0] for problem in caught.value.problems] == [
        "environment: PALLAS_LOG_FILE: there is no home directory ~nobody-has-this-name for the log file",
        "environment: PALLAS_LOG_STDERR: 'true' is neither 0 nor 1",
        "environment: PALLAS_CGROUP: 'pallas' is no absolute path",
        f"/{'x' * 200}/control.sock: the path has 214 bytes, a unix socket allows 107",
    ]
    check_variables({}, "demo")
