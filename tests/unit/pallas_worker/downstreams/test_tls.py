"""The TLS context is made once, also for forked processes, but for those that would make another one."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

import httpx2
import pytest

from pallas_worker.downstreams import tls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = tmp_path / "certificates.pem"
    file.write_text("certificates")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setattr(httpx2, "create_ssl_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    monkeypatch.setattr(tls, "_prepared", None)
    tls.shared_context.cache_clear()
    yield file
    tls.shared_context.cache_clear()


def test_it_is_made_once() -> None:
    assert tls.shared_context() is tls.shared_context()


def test_what_was_prepared_is_used() -> None:
    tls.prepare_context()
    assert tls._prepared is not None
    prepared = tls._prepared.context
    tls.prepare_context()
    assert tls._prepared.context is prepared
    assert tls.shared_context() is prepared


@pytest.mark.parametrize("change", ["file", "directory", "content", "gone"])
def test_what_would_be_another_one_is_made(
    change: str, certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls.prepare_context()
    assert tls._prepared is not None
    match change:
        case "file":
            other = tmp_path / "other.pem"
            other.write_text(certificates.read_text())
            monkeypatch.setenv("SSL_CERT_FILE", str(other))
        case "directory":
            monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
        case "content":
            os.utime(certificates, (1, 1))
        case "gone":
            monkeypatch.delenv("SSL_CERT_FILE")
    assert tls.shared_context() is not tls._prepared.context
