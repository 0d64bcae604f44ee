"""Expressions whose value can be read."""

from __future__ import annotations

import ast

import pytest

from pallas_registry.projects.code.constants import UNKNOWN, fold, texts

NAMES = {"A": "one", "N": 2, "L": ["a", "b"], "Names.SCOUT": "scout", "D": {"k": "v"}, "U": UNKNOWN}


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("'a' 'b'", "ab"),
        ("A + '-x'", "one-x"),
        ("f'{A}-{N}'", "one-2"),
        ("f'{A!r}'", UNKNOWN),
        ("f'{U}'", UNKNOWN),
        ("['x', *L]", ["x", UNKNOWN]),
        ("L + ['c']", ["a", "b", "c"]),
        ("L[1]", "b"),
        ("L[5]", UNKNOWN),
        ("D['k']", "v"),
        ("Names.SCOUT", "scout"),
        ("Names.SCOUT.value", "scout"),
        ("Path(__file__).parent / 'cards'", "src/cards"),
        ("Path(__file__).resolve().parent.parent", "."),
        ("os.path.join(os.path.dirname(__file__), 'x')", "src/x"),
        ("textwrap.dedent('''\n  a\n  b''')", "a\nb"),
        ("' A '.strip().lower()", "a"),
        ("os.environ['X']", UNKNOWN),
        ("'a' * 10**9", UNKNOWN),
        ("unknown", UNKNOWN),
        ("None", None),
        ("True", True),
    ],
)
def test_values(code: str, value: object) -> None:
    assert fold(ast.parse(code, mode="eval").body, NAMES, "src/a.py") == value


def test_the_texts_in_a_value() -> None:
    assert texts(["a", UNKNOWN, 3, "b"]) == ("a", "b")
    assert texts("a") == ("a",)
    assert texts(UNKNOWN) == ()
