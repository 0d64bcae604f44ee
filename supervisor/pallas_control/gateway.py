"""A client of the gateway's REST API, and where its address and a token for it come from.

Knows HTTP and the places of tokens; no verb and no output. It is the standard library's client, as that of the control
API, and follows no redirection: a token goes to the address that was meant, and nowhere else.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pallas_common.protocol.gateway import OPERATOR_FILE
from pallas_control.errors import ControlError, GatewayError, GatewayRefusedError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_control.client import Control

URL_VARIABLE = "PALLAS_GATEWAY_URL"
TOKEN_VARIABLE = "PALLAS_TOKEN"  # noqa: S105 - the name of a variable

TIMEOUT = 30.0
"""Seconds in which the gateway answers whatever takes no agent's time."""

_LONGEST_TOKEN = 8 * 1024
_LONGEST_ANSWER = 16 * 1024 * 1024
_LONGEST_LINE = 1024 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class Gateway:
    """The REST API at one address, asked with one token. Each request opens a connection of its own.

    Args:
        url: `http://…` or `https://…`, without a path of ours.
        token: the bearer token.
        origin: where that comes from and what to do when it does not do, said behind a refusal.
    """

    def __init__(self, url: str, token: str, origin: str) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._origin = origin

    def __repr__(self) -> str:
        """Without the token."""
        return f"Gateway({self.url!r})"

    def get(self, path: str) -> Any:
        """The answer's JSON object.

        Raises:
            GatewayError: nothing answers, or not a gateway.
            GatewayRefusedError: it will not or cannot.
        """
        return self._ask("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer's JSON object; raises as `get` does."""
        return self._ask("POST", path, body)

    def delete(self, path: str) -> Any:
        """The answer's JSON object; raises as `get` does."""
        return self._ask("DELETE", path)

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of an answer as they come, without end where it is a stream; raises as `get` does."""
        connection = self._connection()
        try:
            connection.request("GET", f"{urlsplit(self.url).path}{path}", None, self.headers())
            response = connection.getresponse()
            if response.status != http.client.OK:
                self.read_object(response.status, response.read(_LONGEST_ANSWER))
                raise GatewayError(f"the gateway answered with HTTP status {response.status}")
            if connection.sock is not None:
                connection.sock.settimeout(None)  # nothing may happen for long
            while line := response.readline(_LONGEST_LINE):
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        connection, headers = self._connection(), self.headers()
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            target = f"{urlsplit(self.url).path}{path}"
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read(_LONGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()
        return self.read_object(response.status, data)

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=TIMEOUT)

    def headers(self) -> dict[str, str]:
        """What says who asks, for a request that somebody else makes; holds the token."""
        return {"Accept": "application/json", "Authorization": f"Bearer {self._token}"}

    def _unreachable(self, error: Exception) -> GatewayError:
        if isinstance(error, TimeoutError):
            return GatewayError(
                f"the gateway at {self.url} did not answer within {TIMEOUT:g} s: see `pallasctl gateway status`"
            )
        reason = str(error) or type(error).__name__
        return GatewayError(
            f"the gateway at {self.url} cannot be reached: {reason}; see `pallasctl gateway status`"
        )

    def read_object(self, status: int, data: bytes) -> dict[str, Any]:
        """The JSON object of an answer that somebody else has read; raises as `get` does."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise GatewayError(
                f"what answered at {self.url} is not the gateway (HTTP status {status}, no JSON object): check "
                f"--gateway and {URL_VARIABLE}"
            )
        if 200 <= status < 300:
            return document
        error = document.get("error")
        said = error if isinstance(error, dict) else {}
        message = said.get("message")
        if not isinstance(message, str):
            message = error if isinstance(error, str) else f"the gateway answered with HTTP status {status}"
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            message += f"; {self._origin}"
        field = said.get("field")
        raise GatewayRefusedError(status, message, field=field if isinstance(field, str) else None)


def open_gateway(
    control: Control | ControlError,
    *,
    url: str | None = None,
    token_file: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Gateway:
    """The gateway of a deployment, or another one at a named address.

    The operator's token, which lies on this machine, goes to its own deployment's gateway alone: another one that is
    named by its address needs a token that is named, too.

    Args:
        control: of its supervisor; an error where none was found.
        url: its address; None: where the environment or the supervisor says.
        token_file: a file with a token, `-` for the standard input; None: the environment's token, or the operator's.

    Raises:
        GatewayError: there is none, or no token for it.
        ControlError: the supervisor cannot be asked.
    """
    named = url or environ.get(URL_VARIABLE) or None
    if named is not None and (
        urlsplit(named).scheme not in ("http", "https") or not urlsplit(named).hostname
    ):
        raise GatewayError(f"{named!r} is no address of a gateway: write http://HOST:PORT or https://HOST")
    token = _named_token(token_file, environ)
    origin = _origin(token_file)
    if named is not None and token is not None:
        return Gateway(named, token, origin)
    if isinstance(control, ControlError):
        raise control
    status = control.get("/v1/status")
    entry = status.get("gateway")
    own = () if entry is None else (entry["url"], entry["public_url"])
    if named is None:
        if entry is None:
            raise GatewayError(
                "this deployment has no gateway; `gateway: {}` in agents.yaml and `pallasctl reload` turn it on"
            )
        named = entry["url"]
    elif named.rstrip("/") not in own:
        raise GatewayError(
            f"a token for {named} is needed: it is not the gateway of this deployment, to which the operator's token "
            f"belongs; name one by --token-file or {TOKEN_VARIABLE}"
        )
    if token is None:
        return Gateway(named, _operator_token(control, status), _OPERATORS)
    return Gateway(named, token, origin)


_OPERATORS = (
    f"asked with the operator's token, of {OPERATOR_FILE} in the state directory: if that counts no more, "
    "`pallasctl gateway restart` makes a new one"
)


def _origin(file: str | None) -> str:
    """Where a token comes from that is named."""
    if file is not None:
        return "asked with the token of --token-file"
    return (
        f"asked with the token of the variable {TOKEN_VARIABLE}, which comes before the operator's: "
        f"`unset {TOKEN_VARIABLE}` to ask with that one"
    )


def _named_token(file: str | None, environ: Mapping[str, str]) -> str | None:
    if file is None:
        text = environ.get(TOKEN_VARIABLE, "")
        return _checked(text, TOKEN_VARIABLE) if text else None
    try:
        if file == "-":
            return _checked(sys.stdin.read(_LONGEST_TOKEN + 1), "the standard input")
        return _checked(_read(Path(file)), file)
    except (OSError, UnicodeDecodeError) as error:
        raise GatewayError(
            f"the token cannot be read from {file}: {getattr(error, 'strerror', error)}"
        ) from None


def _operator_token(control: Control, status: Mapping[str, Any]) -> str:
    """From its file, where this user may read that; else from the supervisor, which asks who is there."""
    directory = status["supervisor"].get("state_directory")
    if directory is not None:
        path = Path(directory, OPERATOR_FILE)
        try:
            return _checked(_read(path), str(path))
        except (OSError, UnicodeDecodeError, GatewayError):
            pass
    try:
        return _checked(control.post("/v1/operator-token", {})["token"], "the supervisor")
    except RefusedError as error:
        raise GatewayError(f"{error.message}; name a token by --token-file or {TOKEN_VARIABLE}") from None


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(21, "it is a folder")
        return (file.read(_LONGEST_TOKEN + 1) or b"").decode("ascii")


def _checked(text: str, place: str) -> str:
    """A text that can stand in a header; it is in no message."""
    token = text.strip()
    if len(token) > _LONGEST_TOKEN or _TOKEN.fullmatch(token) is None:
        raise GatewayError(f"what {place} holds is no token: it is empty, too long, or has other characters")
    return token
