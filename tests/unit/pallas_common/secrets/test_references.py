"""`${NAME}` in texts: put in as fast-agent does, and found where it is left."""

from __future__ import annotations

import pytest

from pallas_common.secrets.references import expanded, referred, secrets_referred, with_secrets


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${A}", "1"),
        ("x${A}y${B:2}", "x1y2"),
        ("${B}", "${B}"),
        ("${B:}", ""),
        ("${A:2}", "1"),
        ("$A {A} ${}", "$A {A} ${}"),
    ],
)
def test_variables_are_put_in(text: str, said: str) -> None:
    assert expanded(text, {"A": "1"}) == said


def test_what_is_left_is_named() -> None:
    assert referred("Bearer ${TOKEN}${OTHER:x}") == ["TOKEN", "OTHER"]
    assert referred("$TOKEN ${} {A}") == []


SECRETS = {"litellm/API_KEY": "a${secret:litellm/API_KEY}"}


def test_the_values_of_secrets_are_put_in_once() -> None:
    text = "Bearer ${secret:litellm/API_KEY} ${HOME} ${secret:x}"
    assert secrets_referred(text) == ["litellm/API_KEY"]
    assert with_secrets(text, SECRETS) == f"Bearer {SECRETS['litellm/API_KEY']} ${{HOME}} ${{secret:x}}"


def test_a_secret_without_a_value_is_named() -> None:
    with pytest.raises(KeyError, match="gone/KEY"):
        with_secrets("${secret:gone/KEY}", SECRETS)
