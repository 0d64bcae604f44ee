"""The variables by which HTTP libraries go out: proxies and certificates; which of them cannot be used, and why.

Libraries read them where a client is made, and fail there in words of their own. So they are looked at once, before
anything starts. Knows variables and files; makes no connection. No message has a value: a proxy's may hold a password.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
"""Variables of proxies; in capitals as well, of which those in small letters win."""
EXCEPTIONS = "no_proxy"
"""The variable of the hosts that are reached directly."""
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
FOLDER = "SSL_CERT_DIR"
KEY_LOG = "SSLKEYLOGFILE"

_KINDS = frozenset(("http", "https", "socks5", "socks5h"))


class Unusable(NamedTuple):
    """A variable that keeps clients from being made."""

    variable: str
    message: str
    remedy: str


def unusable(environ: Mapping[str, str], *, socks: bool = True) -> Iterator[Unusable]:
    """Yield the variables that no client could be made with.

    Args:
        socks: whether the interpreter has `socksio`, which proxies of that kind take.
    """
    for name, value in environ.items():
        lower = name.lower()
        if not value:
            continue
        if lower in PROXIES and name in (lower, lower.upper()):
            yield from _of_proxy(name, value, socks=socks)
        elif lower == EXCEPTIONS and any("[" in host or "]" in host for host in value.split(",")):
            yield Unusable(
                name, "has an address in brackets", "write IPv6 addresses without them, as in `::1`"
            )
    for name in CERTIFICATES:
        if file := environ.get(name):
            yield from _of_certificates(name, file)
    if (folder := environ.get(FOLDER)) and not any(map(os.path.isdir, folder.split(os.pathsep))):
        yield Unusable(
            FOLDER, "names no folder that is there", "name one that holds certificates, or unset it"
        )
    if (keys := environ.get(KEY_LOG)) and not _can_be_written(Path(keys)):
        yield Unusable(KEY_LOG, "names a file that cannot be written", "name another one, or unset it")


def reached_directly(environ: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """Return the environment, in which these hosts are reached through no proxy."""
    changed = dict(environ)
    names = [name for name in (EXCEPTIONS, EXCEPTIONS.upper()) if environ.get(name)]
    if not any(environ.get(name) or environ.get(name.upper()) for name in PROXIES):
        return changed
    for name in names or (EXCEPTIONS, EXCEPTIONS.upper()):
        given = [host.strip() for host in environ.get(name, "").split(",") if host.strip()]
        changed[name] = ",".join(given if "*" in given else dict.fromkeys((*given, *hosts)))
    return changed


def _of_proxy(name: str, value: str, *, socks: bool) -> Iterator[Unusable]:
    remedy = "write it as http://HOST:PORT, or unset it"
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        yield Unusable(name, "is no address of a proxy", remedy)
    elif parts.scheme not in _KINDS:
        yield Unusable(name, "is of a kind of proxy that HTTP clients do not know", remedy)
    elif parts.scheme.startswith("socks") and not socks:
        yield Unusable(
            name,
            "is a SOCKS proxy, for which the package `socksio` is missing",
            "install it beside Pallas, name an HTTP proxy, or unset it",
        )


def _of_certificates(name: str, value: str) -> Iterator[Unusable]:
    path = Path(value)
    remedy = "name a file of certificates in PEM, or unset it"
    try:
        if not path.is_dir():
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=value)
        elif name == CERTIFICATES[0]:
            yield Unusable(name, "names a folder", f"{remedy}; {FOLDER} is for folders")
    except ssl.SSLError:
        yield Unusable(name, "names a file that holds no certificate", remedy)
    except OSError as error:
        yield Unusable(name, f"names a file that cannot be read ({error.strerror})", remedy)
    except ValueError:
        yield Unusable(name, "names no file", remedy)


def _can_be_written(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.access(path if path.exists() else path.parent, os.W_OK) and not path.is_dir()
    return False
