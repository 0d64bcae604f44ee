"""HTTP over the supervisor's unix socket: requests, answers, and what can go wrong between.

Knows no verb and no output. It is the standard library's client because that loads in a tenth of the time of the
alternatives, and a command line is started often.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pallas_control.errors import (
    ControlError,
    ForbiddenError,
    RefusedError,
    UnknownAgentError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ANSWER_TIMEOUT = 10.0
"""Seconds in which a healthy supervisor answers anything that does not wait for an agent."""

GRACE = 10.0
"""Seconds beyond a verb's own time-out before the supervisor counts as hanging."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("pallas", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Control:
    """The control API on one socket. Each request opens a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, path: str, *, timeout: float = ANSWER_TIMEOUT, accept: Sequence[int] = (200,)) -> Any:
        """The answer's JSON object.

        Raises:
            UnreachableError: nothing answers on the socket.
            UnknownAgentError: an agent that the request names is not deployed.
            RefusedError: the answer's status is not in `accept`.
        """
        with self._exchange("GET", path, timeout=timeout) as response:
            return _object(response, accept)

    def post(self, path: str, body: Mapping[str, Any], *, timeout: float = ANSWER_TIMEOUT) -> Any:
        """The answer's JSON object; raises as `get` does."""
        with self._exchange("POST", path, body=body, timeout=timeout) as response:
            return _object(response, (200,))

    def delete(self, path: str, *, timeout: float = ANSWER_TIMEOUT) -> Any:
        """The answer's JSON object; raises as `get` does."""
        with self._exchange("DELETE", path, timeout=timeout) as response:
            return _object(response, (200,))

    def lines(
        self, path: str, query: Mapping[str, str | int | Sequence[str]], *, timeout: float | None = None
    ) -> Iterator[bytes]:
        """The answer's lines as they come, for as long as they come; raises as `get` does.

        Args:
            timeout: seconds between two lines after which the supervisor counts as stuck; without, it may be silent.
        """
        target = f"{path}?{urlencode(query, doseq=True)}"
        with self._exchange("GET", target, timeout=timeout) as response:
            if response.status != http.client.OK:
                _object(response, ())
            yield from response

    @contextlib.contextmanager
    def _exchange(
        self, method: str, target: str, *, body: Mapping[str, Any] | None = None, timeout: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = _UnixConnection(self.path, timeout)
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, target, json.dumps(body) if body is not None else None, headers)
            yield connection.getresponse()
        except FileNotFoundError:
            raise UnreachableError(not_running(self.path)) from None
        except ConnectionRefusedError:
            raise UnreachableError(
                f"pallas is not running here: nobody listens on {self.path}, it was left behind; "
                "start it with `pallas` or name another socket with --socket"
            ) from None
        except PermissionError:
            raise ForbiddenError(
                f"no permission for {self.path}: join the group that owns it, or use sudo"
            ) from None
        except TimeoutError:
            raise ControlError(
                f"the supervisor on {self.path} did not answer within {timeout:g} s: it is overloaded or "
                "stuck; its log says more"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(
                f"the connection to the supervisor on {self.path} failed: {reason}"
            ) from error
        finally:
            connection.close()


def not_running(path: Path) -> str:
    """The message for a control socket that does not exist."""
    return f"pallas is not running here: no socket at {path}; start it with `pallas` or name it with --socket"


def _object(response: http.client.HTTPResponse, accept: Sequence[int]) -> dict[str, Any]:
    data = response.read()
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ControlError(
            f"what answered on the control socket is not pallas (HTTP status {response.status}, no JSON "
            "object): check --socket and PALLAS_CONTROL_SOCKET"
        )
    if response.status not in accept:
        unknown = response.status == http.client.NOT_FOUND
        raise (UnknownAgentError if unknown else RefusedError)(response.status, document)
    return document
