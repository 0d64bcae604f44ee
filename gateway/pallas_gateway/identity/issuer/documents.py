"""What an issuer says over HTTP: JSON objects of bounded size, in bounded time; no redirection is followed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

LARGEST = 256 * 1024
"""Bytes of a document of the issuer."""
_URL = re.compile(r"[!-~]{1,2000}")
FETCH_TIMEOUT = 5.0
"""Seconds for what is asked at a time."""


async def document(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: there is none.
    """
    async with client.stream("GET", url, headers={"accept": "application/json"}) as response:
        if response.status_code != 200:
            raise ValueError(f"{url} answers with status {response.status_code}")
        return await json_object(response, url)


async def json_object(response: httpx.Response, url: str) -> dict[str, Any]:
    """The JSON object that an answer is.

    Raises:
        ValueError: it is none, or too large.
    """
    body = b""
    async for piece in response.aiter_bytes(16 * 1024):
        body += piece
        if len(body) > LARGEST:
            raise ValueError(f"{url} answers with more than {LARGEST} bytes")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 - what came is wrong, not the code
            f"{url} answers with no JSON object"
        )
    return found


def trusted_place(said: object, issuer: str) -> str | None:
    """A URL in the issuer's configuration, if it is reached as safely as the issuer itself; None if it is none."""
    if not isinstance(said, str) or _URL.fullmatch(said) is None:
        return None
    try:
        parts = urlsplit(said)
        trusted = parts.scheme in ("https", urlsplit(issuer).scheme) and parts.hostname and not parts.fragment
    except ValueError:
        return None
    return said if trusted and "@" not in parts.netloc else None
