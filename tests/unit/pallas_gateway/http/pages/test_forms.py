"""Forms within bounds: nobody keeps the process from others by what they send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.pages.forms import LONGEST_URLENCODED, MOST_FIELDS, MULTIPART, URLENCODED, parse_form

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.types import Message

LONGEST = 32 * 1024 * 1024
HEAD = b'--b\r\ncontent-disposition: form-data; name="images"; filename="a"\r\n\r\n'


def parsed(body: bytes, kind: str, longest: int = LONGEST) -> FormData:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", kind.encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    return asyncio.run(parse_form(Request(scope, receive), longest))


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"&" * LONGEST, URLENCODED, 413),
        (b"a=" + b"%41" * (LONGEST // 3 - 1), URLENCODED, 413),
        (b"&" * LONGEST_URLENCODED, URLENCODED, 400),
        (b"a=b&" * (LONGEST_URLENCODED // 4), URLENCODED, 400),
        (b"--b\r\n" + b"a:b\r\n" * 100_000 + b"\r\nx\r\n--b--\r\n", f"{MULTIPART}; boundary=b", 400),
        ((HEAD + b"\r\n") * 100_000 + b"--b--\r\n", f"{MULTIPART}; boundary=b", 400),
    ],
    ids=["no fields", "escapes", "no fields, short", "fields, short", "headers", "files"],
)
def test_what_would_take_long_to_read_is_not_read(body: bytes, kind: str, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        parsed(body, kind)
    assert refused.value.status == status


def test_fields_are_bounded_and_no_text_is_lost() -> None:
    text = "é & =%" * 500
    form = parsed(b"&".join([b"csrf=x"] * (MOST_FIELDS - 1) + [b"last=%C3%A9+b"]), URLENCODED)
    assert len(form.multi_items()) == MOST_FIELDS
    assert form["last"] == "é b"
    with pytest.raises(ApiError, match="fields"):
        parsed(b"&".join([b"a=1"] * (MOST_FIELDS + 1)), URLENCODED)
    with pytest.raises(ApiError, match="bytes at most"):
        parsed(b"a=" + b"x" * LONGEST_URLENCODED, URLENCODED)
    part = b'--b\r\ncontent-disposition: form-data; name="message"\r\n\r\n' + text.encode() + b"\r\n--b--\r\n"
    assert parsed(part, f"{MULTIPART}; boundary=b")["message"] == text


@pytest.mark.parametrize("charset", ["punycode", "unicode_escape", "'utf-16'"])
def test_a_form_is_in_utf_8(charset: str) -> None:
    part = b'--b\r\ncontent-disposition: form-data; name="csrf"\r\n\r\n\\ud800\r\n--b--\r\n'
    with pytest.raises(ApiError, match="UTF-8") as refused:
        parsed(part, f"{MULTIPART}; charset={charset}; boundary=b")
    assert refused.value.status == 415
    assert parsed(part, f'{MULTIPART}; charset="UTF-8"; boundary=b')["csrf"] == "\\ud800"
