"""Redaction: credentials go, everything else stays, and hostile text costs no time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_registry.redaction import REDACTED, is_secret_name, redact

SECRET = "S3cr3t-Va1ue"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}",
        f"authorization: ApiKey {SECRET}",
        f"Authorization={SECRET}",
        f"Authorization:\n  Bearer {SECRET}",
        f"{{'authorization': 'Bearer {SECRET}', 'accept': '*/*'}}",
        f'{{"Authorization": "Custom one two {SECRET}"}}',
        f"[(b'authorization', b'Bearer {SECRET}')]",
        f"sent bearer {SECRET} on",
        f"Bearer {JWT}",
        f"OPENAI_API_KEY={SECRET}",
        f"api_key: {SECRET}",
        f"x-api-key: {SECRET}",
        f"apiKey='{SECRET}'",
        f'{{"api_key": "with a space {SECRET}"}}',
        f'{{\\"api_key\\": \\"{SECRET}\\"}}',
        f"api_key='quo\"te {SECRET}'",
        f"https://example.com/?a=1&token={SECRET}&b=2",
        f"access_token={SECRET}",
        f"client_secret: {SECRET}",
        f"password = {SECRET}",
        f"passwd={SECRET}",
        f"Set-Cookie: session={SECRET}",
        f"postgres://user:{SECRET}@db/x",
        f"sk-ant-api03-{SECRET}",
        f"key sk-proj-{SECRET} is wrong",
        f"hf_{'a' * 20}{SECRET}",
        f"jwt {JWT}",
    ],
)
def test_credentials_go(text: str) -> None:
    clean = redact(text)
    assert SECRET not in clean
    assert JWT not in clean
    assert REDACTED in clean
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=5 input_tokens: 7 tokens: 9",
        "progressToken: 5, progress_token='a'",
        "task-runner-1234567 risk-assessment",
        "Authorization header missing",
        "the key of the mapping: value",
        "monkey: banana",
        "mail me@example.com",
        "http://puck.incus:23031/mcp",
        'password="" is empty',
        "keyboard interrupt",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert redact(text) == text


def test_what_stands_around_stays() -> None:
    assert redact(f"a=1 OPENAI_API_KEY={SECRET} b=2") == f"a=1 OPENAI_API_KEY={REDACTED} b=2"
    assert redact(f"{{'authorization': 'Bearer {SECRET}', 'x': 1}}") == (
        f"{{'authorization': '{REDACTED}', 'x': 1}}"
    )
    assert redact(f"GET /?token={SECRET}&page=2 HTTP/1.1") == f"GET /?token={REDACTED}&page=2 HTTP/1.1"
    assert redact(f"Authorization={SECRET} agent=jarvis") == f"Authorization={REDACTED} agent=jarvis"


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "proxy-authorization", "OPENAI_API_KEY", "x-api-key", "apiKey", "token"),
        *("access_token", "client_secret", "password", "db_passwd", "Set-Cookie", "credentials"),
        *("secret_key", "aws_access_key_id"),
    ],
)
def test_names_that_tell(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokens", "max_tokens", "progressToken", "key", "monkey", "author", "agent", ""]
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


@given(st.text(alphabet="""abk:='"\\ ,;tokenpiy_-sBr.@/{}[]\n"""))
def test_twice_is_once(text: str) -> None:
    clean = redact(text)
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "piece",
    [
        "token=\\'",
        "Bearer ",
        "://",
        "eyJ",
        "sk-",
        "authorization:'",
        'token:\\"',
        "key",
        'api_key="',
        "token ",
        "@:/",
    ],
)
def test_hostile_text_costs_linear_time(piece: str) -> None:
    def cost(length: int) -> float:
        text = piece * (length // len(piece)) + "token"
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    cost(10_000)
    # Quadratic growth would be a factor of 256; noise is not.
    assert cost(800_000) < 64 * max(cost(50_000), 0.005)
