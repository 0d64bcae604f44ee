"""What single values of `agents.yaml` may be: a rule takes a text and says what is wrong with it, or nothing.

Pure; knows no file and no YAML. The limits of published values are those of the registry's server schema
(2025-12-11), those of agent names are what LLM providers accept as the name of a tool.
"""

from __future__ import annotations

import ipaddress
import os
import re
import unicodedata
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from pallas_common.problems import quoted, shortened
from pallas_common.secrets.references import referred

MODULE = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
MODULE_LENGTH = 200
SERVER_NAME_LENGTH = 200
VARIABLE_BYTES = 128 * 1024
"""What one variable may take in the environment of a process, its name and NUL included (execve(2), MAX_ARG_STRLEN)."""
LONGEST_MODEL = 255
LONGEST_URL = 255
LONGEST_STORE = 2000
_SYNCHRONOUS = ("synchronous=full", "synchronous=normal")
STORE_VARIABLE = "PALLAS_GATEWAY_STORE"
"""Comes before what `gateway.store` says, and may hold a password."""
CLIENT_SECRET_VARIABLE = "PALLAS_GATEWAY_CLIENT_SECRET"  # noqa: S105 - its name
"""Comes before what `gateway.oidc.client_secret` says."""
LONGEST_CLIENT = 500
"""Characters of a client's name at an issuer, and of its secret."""
RESERVED_AGENT_NAMES = frozenset({"send_message", "get_health"})
"""Tools that every worker lists beside the one that is named after its agent."""

AGENT_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
NAMESPACE = r"[A-Za-z0-9.-]+"
ENVIRONMENT_NAME = r"[A-Za-z_][A-Za-z0-9_]*"

_AGENT_NAME = re.compile(AGENT_NAME)
_NAMESPACE = re.compile(NAMESPACE)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_:~-]*")
_VERSION_RANGE = re.compile(r"^[\^~<>=!]|[*|,]|\s-\s|(^|\.)[xX](\.|$)")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_ENVIRONMENT_NAME = re.compile(ENVIRONMENT_NAME)
_SUPERVISORS_OWN = re.compile(r"NOTIFY_SOCKET|WATCHDOG_.*|LISTEN_.*")


_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})


class Complaint(NamedTuple):
    """What is wrong with a value, and what to do."""

    message: str
    remedy: str


def deployment_name(value: str) -> Complaint | None:
    """One printable line of 1 to 100 characters."""
    return one_line(value, 100)


def published_text(value: str) -> Complaint | None:
    """A title or a description: one line of 1 to 100 characters (ServerDetail.title, .description)."""
    return one_line(value, 100)


def agent_name(value: str) -> Complaint | None:
    """A tool is named after the agent, and its slug ends the server name."""
    if value in RESERVED_AGENT_NAMES:
        return Complaint("is the name of a tool that every agent has", "choose another name")
    if not _AGENT_NAME.fullmatch(value):
        return Complaint(
            "cannot be the name of a tool",
            "use 1 to 64 letters, digits, `_` and `-`, starting with a letter",
        )
    return None


def namespace(value: str) -> Complaint | None:
    """What stands before the slash of a server name (ServerDetail.name)."""
    if not _NAMESPACE.fullmatch(value):
        return Complaint(
            f"{quoted(value)} cannot start a server name",
            "use letters, digits, `.` and `-` only, as in `com.example.project`",
        )
    return None


def version(value: str) -> Complaint | None:
    """One version, never a range (ServerDetail.version); `latest` means the newest in the registry."""
    if not value:
        return Complaint("is empty", 'write a version, as in "1.0.0"')
    if len(value) > 255:
        return Complaint(f"has {len(value)} characters", "use at most 255")
    if value.lower() == "latest" or _VERSION_RANGE.search(value):
        return Complaint(f"{quoted(value)} is not one version", 'write the exact version, as in "1.2.3"')
    if not _VERSION.fullmatch(value):
        return Complaint(
            f"{quoted(value)} is not a version", 'write digits, letters and `.+-_`, as in "1.2.3"'
        )
    return None


def model(value: str) -> Complaint | None:
    """A model as fast-agent writes it: `openai.gpt-4.1`, an alias, with `?key=value` behind it."""
    if 0 < len(value) <= LONGEST_MODEL and value.isprintable() and " " not in value:
        return None
    return Complaint(f"{quoted(value)} is not a model", "write one as in `openai.gpt-4.1`")


def module(value: str) -> Complaint | None:
    """A dotted path of a Python module."""
    if len(value) > MODULE_LENGTH:
        return Complaint(f"has {len(value)} characters", f"use at most {MODULE_LENGTH}")
    if re.fullmatch(MODULE, value):
        return None
    if value.endswith(".py"):
        path = value.removesuffix(".py").strip("/").replace("/", ".")
        remedy = f"write {quoted(path)}" if re.fullmatch(MODULE, path) else "write its dotted path"
        return Complaint(f"{quoted(value)} is a file", remedy)
    return Complaint(f"{quoted(value)} is no module", "write a dotted path, as in `mypackage.models`")


def icon(value: str) -> Complaint | None:
    """An http or https URL, or a relative one, of at most 255 characters (Icon.src)."""
    if not 0 < len(value) <= 255:
        return Complaint(f"has {len(value)} characters", "use a URL of 1 to 255 characters")
    if not value.isprintable() or " " in value:
        return Complaint(f"{quoted(value)} is not a URL", "percent-encode spaces and control characters")
    try:
        parts = urlsplit(value)
    except ValueError:
        return Complaint(f"{quoted(value)} is not a URL", "write a URL, as in `https://example.com/icon.svg`")
    if parts.scheme not in {"", "http", "https"}:
        return Complaint(f"{quoted(value)} is not a web address", "use http, https or a relative URL")
    if parts.scheme and not parts.hostname:
        return Complaint(
            f"{quoted(value)} names no host", "write a URL, as in `https://example.com/icon.svg`"
        )
    return None


def host(value: str) -> Complaint | None:
    """A host name, or an IP address without brackets: what stands in the published URLs."""
    if "://" in value:
        return Complaint(
            f"{quoted(value)} is a URL", "write the host name alone; each agent has its own port"
        )
    if _is_address(value):
        return None
    if value.startswith("[") and _is_address(value.strip("[]")):
        return Complaint(f"{quoted(value)} has brackets", f"write {quoted(value.strip('[]'))}")
    name, colon, port = value.partition(":")
    if colon and port.isdigit():
        return Complaint(
            f"{quoted(value)} names a port", f"write `{shortened(name)}` alone; each agent has its own port"
        )
    labels = value.removesuffix(".").split(".")
    if len(value) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in labels):
        return Complaint(
            f"{quoted(value)} is not a host name", "write a name as in `agents.example.com`, or an address"
        )
    if labels[-1].isdigit():
        return Complaint(
            f"{quoted(value)} is neither a host name nor an address", "write an address as in `192.0.2.7`"
        )
    return None


def bind(value: str) -> Complaint | None:
    """An IP address of this machine, `0.0.0.0` or `::` for all of them."""
    if _is_address(value):
        return None
    return Complaint(
        f"{quoted(value)} is not an IP address", "write an address, as in `127.0.0.1` or `0.0.0.0`"
    )


def public_url(value: str) -> Complaint | None:
    """The address of a whole host by http or https, as in `https://agents.example.com`."""
    example = "write scheme and host, as in `https://agents.example.com`"
    parts = _web_address(value)
    if parts is None:
        return Complaint(f"{quoted(value)} is not a web address", example)
    if "@" in parts.netloc:
        return Complaint("names a user or a password", example)
    if parts.path not in {"", "/"} or parts.query or parts.fragment or value.endswith(("?", "#")):
        return Complaint("has more than scheme, host and port", f"{example}; paths are the gateway's")
    return None


def issuer(value: str) -> Complaint | None:
    """What identifies an issuer of tokens (OpenID Connect Core 1.0, 2): an https URL without query and fragment."""
    example = "write the issuer as its tokens name it, as in `https://login.example.com/realms/team`"
    parts = _web_address(value)
    if parts is None or "@" in parts.netloc:
        return Complaint(
            f"{quoted(value)} is not a web address" if parts is None else "names a user", example
        )
    if parts.query or parts.fragment:
        return Complaint("has a query or a fragment", example)
    if parts.scheme == "http" and not is_loopback(default_bind(parts.hostname or "")):
        return Complaint("is reached by http, and whoever is between could make tokens", "use https")
    return None


def store(value: str) -> Complaint | None:
    """Where a gateway keeps its rows: `sqlite:PATH` or `postgresql://…`.

    No message has the value: it may hold a password.
    """
    example = "write `sqlite:PATH`, or `postgresql://user@host/database`"
    scheme, colon, rest = value.partition(":")
    if not value.isprintable() or len(value) > LONGEST_STORE or not colon:
        return Complaint("names no store", example)
    if scheme == "sqlite":
        path, question, query = rest.partition("?")
        if not path.strip("/") or path.endswith("/") or path.startswith(":"):
            return Complaint("names no file", "write the path of a file, as in `sqlite:gateway.db`")
        if question and query not in _SYNCHRONOUS:
            return Complaint(
                "says something behind the path that is not known",
                "nothing but `?synchronous=full` may follow it",
            )
        return None
    if scheme != "postgresql":
        return Complaint("is no store that is known", example)
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return Complaint("is not a URL", "write `postgresql://user@host/database`")
    if not rest.startswith("//") or parts.path in {"", "/"}:
        return Complaint("names no database", "write `postgresql://user@host/database`")
    return None


def store_password(value: str) -> str | None:
    """The password that a store's URL holds."""
    scheme, _, _ = value.partition(":")
    return urlsplit(value).password if scheme == "postgresql" else None


def client_text(value: str) -> Complaint | None:
    """A client's name at an issuer, or its secret (RFC 6749, appendix A: printable ASCII). No message has the value."""
    if not 0 < len(value) <= LONGEST_CLIENT or not value.isascii() or not value.isprintable():
        return Complaint(
            "is empty, too long, or has characters that no issuer gives", "copy it as the issuer shows it"
        )
    return None


def client_secret(value: str) -> Complaint | None:
    """A client's secret in `agents.yaml`, in which no variable is put in."""
    if referred(value):
        return Complaint(
            "stays as it is written: no variable is put in here",
            f"put the secret into .env, as {CLIENT_SECRET_VARIABLE}=…, and leave it out here",
        )
    return client_text(value)


def environment_name(value: str) -> Complaint | None:
    """A variable that may be set for a worker."""
    if _SUPERVISORS_OWN.fullmatch(value):
        return Complaint("belongs to the service manager and never reaches a worker", "remove it")
    if not _ENVIRONMENT_NAME.fullmatch(value):
        return Complaint(
            "cannot be the name of a variable", "use letters, digits and `_`, not starting with a digit"
        )
    return None


def environment_value(name: str, value: str) -> Complaint | None:
    """What the environment of a process can carry (execve(2)); `name` is the variable's."""
    if "\0" in value:
        return Complaint("contains a NUL character", "remove it: no environment can carry it")
    length = len(os.fsencode(name)) + len(value.encode("utf-8", "surrogateescape")) + 2
    if length > VARIABLE_BYTES:
        message = f"takes {length} bytes, {VARIABLE_BYTES} are allowed"
        return Complaint(message, "put it into a file, and the file's path into the variable")
    return None


def belongs_to_supervisor(variable: str) -> bool:
    """Whether a variable is part of a service's talk with its manager (sd_notify, sd_listen_fds)."""
    return _SUPERVISORS_OWN.fullmatch(variable) is not None


def is_for_workers(variable: str) -> bool:
    """Whether workers get a variable: nothing of a service's talk with its manager, and not the gateway's secrets."""
    return not belongs_to_supervisor(variable) and variable not in (STORE_VARIABLE, CLIENT_SECRET_VARIABLE)


def default_bind(host_: str) -> str:
    """Where to listen when nothing is said: loopback while `host_` is a loopback name, else all interfaces.

    An address keeps its family, and a loopback address is itself where clients will look.
    """
    name = host_.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    if not _is_address(host_):
        return "0.0.0.0"
    address = ipaddress.ip_address(host_)
    if address.is_loopback:
        return host_
    return "::" if address.version == 6 else "0.0.0.0"


def is_loopback(bind_: str) -> bool:
    """Whether only this machine reaches what listens on that address."""
    return _is_address(bind_) and ipaddress.ip_address(bind_).is_loopback


def one_line(value: str, limit: int) -> Complaint | None:
    """A printable line of 1 to `limit` characters."""
    if not value.strip():
        return Complaint("is empty", f"write 1 to {limit} characters")
    if not value.isprintable() and any(unicodedata.category(each) in _CONTROL for each in value):
        return Complaint("has a line break or another control character", "write it on one line")
    if len(value) > limit:
        return Complaint(f"has {len(value)} characters", f"shorten it to {limit}")
    return None


def _web_address(value: str) -> SplitResult | None:
    """The parts of a URL of http or https with a host; None if it is none."""
    if not value.isprintable() or " " in value or "\\" in value or len(value) > LONGEST_URL:
        return None
    try:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            return None
    except ValueError:
        return None
    return None if host(parts.hostname) else parts


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
