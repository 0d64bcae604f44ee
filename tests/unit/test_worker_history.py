"""The replayed history: good rows in their order, malformed ones skipped one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_worker.errors import ArgumentError
from pallas_worker.history import Row, Skipped, parse_history
from pallas_worker.images import Image
from unit.image_data import PNG

USER = {"role": "user", "content": "hello"}


def test_no_history() -> None:
    assert parse_history(None) == ((), ())
    assert parse_history([]) == ((), ())


def test_good_rows_keep_their_order_and_images() -> None:
    rows, skipped = parse_history(
        [
            USER | {"images": [{"data": PNG, "mime_type": "image/png"}]},
            {"role": "assistant", "content": "hi", "id": 7},
        ]
    )
    assert rows == (Row("user", "hello", (Image(PNG, "image/png"),)), Row("assistant", "hi"))
    assert skipped == ()


def test_rows_know_their_place_in_the_argument() -> None:
    rows, _ = parse_history([USER, None, USER])
    assert [row.index for row in rows] == [0, 2]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "a row must be an object with role and content"),
        ("hello", "a row must be an object with role and content"),
        ({"content": "x"}, 'role must be "user" or "assistant", not None'),
        ({"role": "system", "content": "x"}, 'role must be "user" or "assistant", not \'system\''),
        ({"role": ["user"], "content": "x"}, 'role must be "user" or "assistant", not [\'user\']'),
        ({"role": "user"}, "content must be a string, not None"),
        ({"role": "user", "content": {"text": "x"}}, "content must be a string, not {'text': 'x'}"),
        ({"role": "user", "content": ""}, "content is empty and there are no images"),
        (USER | {"images": [{"data": 1}]}, "images[0].data must be a base64 string, not number"),
        (
            USER
            | {"images": [{"data": PNG, "mime_type": "image/png"}, {"data": PNG, "mime_type": "image/gif"}]},
            "images[1].data is image/png by its content, and its mime_type says image/gif",
        ),
    ],
)
def test_a_malformed_row_is_skipped_with_its_reason(row: Any, reason: str) -> None:
    rows, skipped = parse_history([USER, row, USER])
    assert rows == (Row("user", "hello"),) * 2
    assert skipped == (Skipped(1, reason),)


def test_a_history_that_is_no_list_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="history must be a list"):
        parse_history({"role": "user", "content": "x"})


@given(st.lists(st.sampled_from([USER, None, 3, {"role": "tool", "content": ""}]), max_size=20))
def test_every_row_is_either_kept_or_named(entries: list[Any]) -> None:
    rows, skipped = parse_history(entries)
    assert len(rows) == entries.count(USER)
    assert [row.index for row in skipped] == [i for i, entry in enumerate(entries) if entry != USER]
