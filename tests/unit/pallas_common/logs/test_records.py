"""Log records as lines: one line whatever they hold, keys in order, secrets out, and back again."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pallas_common.logs.records import parse_record, record_line
from pallas_common.secrets.patterns import may_hold_secrets
from pallas_common.times import timestamp


def test_the_order_of_keys() -> None:
    line = record_line(
        {
            "exception": "E",
            "agent": "a",
            "message": "m",
            "pid": 1,
            "logger": "l",
            "level": "INFO",
            "time": "t",
        }
    )
    assert list(json.loads(line)) == ["time", "level", "logger", "message", "agent", "pid", "exception"]


def test_missing_keys_are_not_made_up() -> None:
    assert record_line({"b": 1, "message": "m"}) == b'{"message": "m", "b": 1}\n'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
ANYTHING = st.recursive(
    st.none()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.dates()
    | st.sets(st.integers()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.tuples(st.integers()) | st.text(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), ANYTHING, max_size=5))
def test_one_record_is_one_line_whatever_it_holds(record: dict[str, object]) -> None:
    line = record_line(record)
    assert line.endswith(b"\n")
    assert len(line.decode("ascii").splitlines()) == 1
    assert parse_record(line) is not None


@given(st.dictionaries(st.text(alphabet="abcdef"), JSON, max_size=5))
def test_what_json_can_carry_comes_back(record: dict[str, object]) -> None:
    assume(not may_hold_secrets(json.dumps(record)))
    assert parse_record(record_line(record)) == record


def test_values_that_json_has_no_form_for() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    loop: list[object] = []
    loop.append(loop)
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    record: dict[Any, Any] = {
        "path": Path("/a"),
        "bytes": b"\xff",
        "time": dt.datetime(2026, 3, 12, tzinfo=dt.UTC),
        "nan": math.nan,
        "big": 10**5000,
        "broken": Broken(),
        "proxy": MappingProxyType({"a": 1}),
        "surrogate": "\udc80",
        (1, 2): "key",
    }
    back = parse_record(record_line(record))
    assert back is not None
    assert back.pop("big").startswith("0x")
    assert back == {
        "time": "2026-03-12T00:00:00+00:00",
        "path": "/a",
        "bytes": "\\xff",
        "nan": "nan",
        "broken": "<Broken>",
        "proxy": {"a": 1},
        "surrogate": "\udc80",
        "(1, 2)": "key",
    }
    for endless in (loop, deep):
        shortened = parse_record(record_line({"message": "m", "x": endless}))
        assert shortened is not None
        assert shortened["message"] == "m"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_in_json_becomes_text(value: float) -> None:
    assert json.loads(record_line({"x": value, "y": [value]})) == {"x": str(value), "y": [str(value)]}


def test_secrets_go_wherever_they_stand() -> None:
    line = record_line(
        {
            "message": "sent Authorization: Bearer hunter2secret",
            "api_key": "hunter2",
            "pin_token": 1234567,
            "nested": [{"headers": {"Authorization": "Bearer hunter2", "accept": "x"}}],
            "proxy": MappingProxyType({"password": "hunter2"}),
            "pair": ("hunter", "sk-hunter2hunter2"),
            "unset": {"api_key": None, "token": "", "secret": False},
            "exception": 'Traceback\n  key="x"\nKeyError: OPENAI_API_KEY=hunter2',
        }
    )
    assert b"hunter2" not in line
    assert b"1234567" not in line
    assert json.loads(line)["unset"] == {"api_key": None, "token": "", "secret": False}
    assert json.loads(line)["nested"][0]["headers"]["accept"] == "x"


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"",
            b"\n",
            b"plain text",
            b"[1]",
            b'"text"',
            b"5",
            b"null",
            b"{",
            b'{"a": }',
            b"{'a': 1}",
            b"\xff{}",
        ),
        *(b'{"a": "\xff"}', b'{"a": ' * 20_000, b'{"a": ' + b"[" * 20_000, b'{"a": ' + b"9" * 5000 + b"}"),
    ],
)
def test_what_is_no_record(line: bytes) -> None:
    assert parse_record(line) is None


@pytest.mark.parametrize("line", [b"{}", b' {"a": 1} \n', b'{"a": 1}\r\n'])
def test_what_is_a_record(line: bytes) -> None:
    assert parse_record(line) == json.loads(line)


@given(st.binary())
def test_parsing_never_raises(line: bytes) -> None:
    record = parse_record(line)
    assert record is None or isinstance(record, dict)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1970-01-01T00:00:00.000000Z"), (1773309600.25, "2026-03-12T10:00:00.250000Z")],
)
def test_times_are_utc_with_microseconds(seconds: float, text: str) -> None:
    assert timestamp(seconds) == text
