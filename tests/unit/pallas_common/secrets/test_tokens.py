"""Tokens of Pallas: each is new, a mistyped one is none, and none is ever shown."""

from __future__ import annotations

import hashlib
import re

import pytest

from pallas_common.secrets.patterns import KEY_SHAPES, REDACTED, may_hold_secrets, redact
from pallas_common.secrets.tokens import is_token, new_token, token_digest


@pytest.mark.parametrize("role", ["human", "agent"])
def test_a_token_says_its_role_and_is_recognised(role: str) -> None:
    token = new_token("human" if role == "human" else "agent")
    assert re.fullmatch(rf"plls_{role}_[0-9A-Za-z]{{43}}_[0-9A-Za-z]{{6}}", token)
    assert is_token(token)
    assert len({new_token("human") for _ in range(100)}) == 100


def test_a_mistyped_token_is_none() -> None:
    token = new_token("human")
    for at in range(len(token)):
        other = token[:at] + ("x" if token[at] != "x" else "y") + token[at + 1 :]
        assert not is_token(other), other
    assert not any(map(is_token, ("", token + " ", token[:-1], token.upper(), f"\n{token}")))


def test_its_digest_is_sha256() -> None:
    token = new_token("agent")
    assert token_digest(token) == hashlib.sha256(token.encode()).hexdigest()


@pytest.mark.parametrize("text", ["{}", "see {}.", "xxx{}", '{{"a": "{}"}}', "https://x/?t={}&u=1", "x={}\n"])
def test_it_is_taken_out_of_texts_by_its_looks(text: str) -> None:
    token = new_token("human")
    assert may_hold_secrets(text.format(token))
    for rules in (None, KEY_SHAPES):
        shown = redact(text.format(token)) if rules is None else redact(text.format(token), rules)
        assert token[12:] not in shown
        assert REDACTED in shown
