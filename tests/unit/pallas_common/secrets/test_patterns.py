"""Redaction: credentials go, everything else stays, and hostile text costs no time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.secrets import values as known_secrets
from pallas_common.secrets.patterns import REDACTED, RULES, is_secret_name, redact
from pallas_common.secrets.references import REFERENCE
from support.faults.hostile_texts import cost, worst_texts

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


PATTERNS = {
    **{name: rule.pattern for name, rule in RULES.items()},
    "password in a URL": known_secrets._PASSWORD.pattern,
    "variable in a file": REFERENCE.pattern,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_no_text_costs_more_than_in_proportion_to_its_length(name: str) -> None:
    """Texts are made from the pattern itself, so that a new one is tried as well."""
    pattern = re.compile(PATTERNS[name])
    for what, text in worst_texts(pattern.pattern, pattern.findall, 3):
        # Sixteen times the length is 16 times the cost; it would be 256 times if it grew with the square.
        short, long = text(1 << 13), text(1 << 17)
        assert cost(pattern.findall, long) < 64 * max(cost(pattern.findall, short), 1e-4), what


def test_texts_made_from_a_pattern_find_what_grows_with_the_square() -> None:
    pattern = re.compile(r"(?<![a-z0-9])eyj[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}\.[a-z0-9_-]*")
    [(_, text)] = worst_texts(pattern.pattern, pattern.findall, 1)
    assert cost(pattern.findall, text(1 << 14)) > 8 * cost(pattern.findall, text(1 << 12))


@pytest.mark.parametrize(
    "piece", ["-eyjaaaaaaaa", "token=\\'", "authorization:'", "://:a@", "key ", "api_key=b\\"]
)
def test_a_hostile_text_as_a_whole_costs_linear_time(piece: str) -> None:
    def text(length: int) -> str:
        return piece * (length // len(piece)) + "token"

    assert cost(redact, text(1 << 18)) < 64 * max(cost(redact, text(1 << 14)), 1e-4)
