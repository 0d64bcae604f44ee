"""Words for what goes wrong with an HTTP request, none of them the exception's own.

Knows httpx's exceptions; must not know who is asked. An exception's text may hold a header, and so a secret.
"""

from __future__ import annotations

import ssl

import httpx

from pallas_common.http.reach import REFUSED
from pallas_worker.downstreams.closed import is_forbidden

HTTP_FAILURES = (httpx.HTTPError, httpx.InvalidURL, UnicodeError)
"""All that a request with a configured URL and configured headers may raise."""


def describe(error: Exception) -> str:
    """What went wrong, in one short line."""
    match error:
        case httpx.ConnectError() if is_forbidden(error):
            return REFUSED
        case httpx.ConnectError():
            return "cannot connect: TLS failed" if _has_cause(error, ssl.SSLError) else "cannot connect"
        case httpx.TimeoutException():
            return "no answer in time"
        case httpx.LocalProtocolError() | UnicodeError():
            return "a configured header is not valid"
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            return "the connection broke off"
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return "the URL is not valid"
        case _:
            return type(error).__name__


def _has_cause(error: BaseException, type_: type[BaseException]) -> bool:
    cause = error.__cause__
    while cause is not None and not isinstance(cause, type_):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
