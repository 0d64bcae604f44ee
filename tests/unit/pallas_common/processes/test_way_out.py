"""Variables by which HTTP clients go out: what cannot be used, and which hosts are reached directly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import httpx
import httpx2
import pytest

from fakes.downstream import run_downstream
from pallas_common.processes.way_out import reached_directly, unusable

if TYPE_CHECKING:
    from pathlib import Path

DEAD = "http://127.0.0.1:9"
"""A proxy that nobody is."""


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_hosts_that_are_reached_directly_go_through_no_proxy(library: Any, host: str) -> None:
    given = {"HTTP_PROXY": DEAD, "all_proxy": DEAD, "NO_PROXY": "example.com"}
    environment = reached_directly(given, ("localhost", "127.0.0.1", "::1", "agents.test"))
    with (
        run_downstream() as server,
        mock.patch.dict(os.environ, environment, clear=True),
        library.Client() as client,
    ):
        assert client.get(server.url.replace("127.0.0.1", host)).status_code
        with pytest.raises(library.ConnectError):
            client.get("http://elsewhere.test/")


def test_exceptions_that_are_there_stay() -> None:
    both = {"HTTP_PROXY": DEAD, "NO_PROXY": "a.test, b.test", "no_proxy": "*"}
    assert reached_directly(both, ("localhost", "b.test")) == {
        **both,
        "NO_PROXY": "a.test,b.test,localhost",
    }
    fresh = reached_directly({"https_proxy": DEAD}, ("localhost",))
    assert fresh == {"https_proxy": DEAD, "NO_PROXY": "localhost", "no_proxy": "localhost"}
    assert reached_directly({"PATH": "/bin"}, ("localhost",)) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HTTP_PROXY", "http://:8080", "is no address"),
        ("https_proxy", "http://host:port", "is no address"),
        ("ALL_PROXY", "http://[::1", "is no address"),
        ("ALL_PROXY", "socks://host:1080", "is of a kind"),
        ("all_proxy", "socks5h://user:secret@host:1080", "is a SOCKS proxy"),
        ("no_proxy", "a.test,[::1]", "in brackets"),
        ("SSL_CERT_FILE", "missing.pem", "cannot be read (No such file or directory)"),
        ("SSL_CERT_FILE", ".", "names a folder"),
        ("REQUESTS_CA_BUNDLE", "empty.pem", "holds no certificate"),
        ("CURL_CA_BUNDLE", "empty.pem", "holds no certificate"),
        ("SSL_CERT_DIR", "missing:absent", "no folder that is there"),
        ("SSLKEYLOGFILE", "missing/keys.log", "cannot be written"),
    ],
)
def test_what_no_client_can_be_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.pem").touch()
    [found] = unusable({variable: value}, socks=False)
    assert found.variable == variable
    assert message in found.message
    assert "secret" not in str(found)


def test_what_can_be_used_is_not_complained_of(tmp_path: Path) -> None:
    environment = {
        "HTTP_PROXY": "proxy.test:3128",
        "https_proxy": "http://user:word@proxy.test:3128/",
        "ALL_PROXY": "socks5://proxy.test",
        "http_PROXY": "not://read",
        "NO_PROXY": "localhost,127.0.0.0/8,::1,.test",
        "SSL_CERT_DIR": f"missing:{tmp_path}",
        "REQUESTS_CA_BUNDLE": str(tmp_path),
        "SSLKEYLOGFILE": str(tmp_path / "keys.log"),
        "SSL_CERT_FILE": "",
    }
    assert not list(unusable(environment))
