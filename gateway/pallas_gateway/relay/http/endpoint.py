"""Where a server is: an http or https URL, or a unix socket. Pure but for the certificates of the system."""

from __future__ import annotations

import functools
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from pallas_common.problems import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type", "accept"})
"""Headers that a configuration cannot say."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One URL, with what each request says."""

    host: str
    port: int
    target: str
    """Path and query."""
    is_tls: bool = False
    socket: str | None = None
    """Path of the unix socket to connect to instead."""
    closed: bool = False
    """Whether it may lead nowhere but where `pallas_common.http.reach` says."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Configured; they may hold secrets."""

    @property
    def origin(self) -> str:
        """For messages: where it is, without path, query and credentials."""
        if self.socket is not None:
            return self.socket
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"

    def head(self, method: str) -> bytes:
        """The lines of a request that are the same each time, from the request line on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = self.port == (443 if self.is_tls else 80)
        lines = [f"{method} {self.target} HTTP/1.1", f"host: {host}" + ("" if default else f":{self.port}")]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return ("\r\n".join(lines) + "\r\n").encode("latin-1")

    def redirected(self, location: str) -> Endpoint | None:
        """The same server's other path that a redirection names; None where it leads elsewhere."""
        try:
            other = parse_endpoint(urljoin(f"{self.origin}{self.target}", location), {})
        except ValueError:
            return None
        if (other.host, other.port, other.is_tls) != (self.host, self.port, self.is_tls):
            return None
        return replace(self, target=other.target)


def parse_endpoint(
    url: str, headers: Mapping[str, str], *, socket: str | None = None, closed: bool = False
) -> Endpoint:
    """The endpoint of a URL.

    Raises:
        ValueError: it is no http or https URL, or a header cannot be sent; the message says which.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"its `url` {quoted(url.partition('?')[0])} is no http or https URL")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError("its `url` has characters that have to be percent-encoded")
    sent = []
    for name, value in headers.items():
        if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise ValueError(f"{quoted(name)} is no name of a header")
        if any(character in value for character in "\r\n\0") or not _is_latin(value):
            raise ValueError(f"the header {quoted(name)} has characters that no header may have")
        if name.lower() not in _OURS:
            sent.append((name, value))
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    return Endpoint(parts.hostname, port, target, is_tls, socket, closed, tuple(sent))


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The context of all connections with TLS: making one reads all certificates of the system."""
    return ssl.create_default_context()


def _is_latin(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
