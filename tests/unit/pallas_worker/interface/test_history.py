"""The replayed history: good rows in their order, what is malformed left out."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import MAX_NAMED, History, LeftOut, Row, parse_history
from pallas_worker.interface.images import Image
from pallas_worker.interface.tool_calls import MAX_VALUES
from support.data.image_data import PNG

USER = {"role": "user", "content": "hello"}


def part(url: Any = f"data:image/png;base64,{PNG}") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_no_history() -> None:
    assert parse_history(None) == parse_history([]) == History()


def test_good_rows_keep_their_order_and_images() -> None:
    rows, left_out, more = parse_history(
        [
            USER | {"images": [{"data": PNG, "mime_type": "image/png"}]},
            {"role": "assistant", "content": "hi", "id": 7},
        ]
    )
    assert rows == (Row("user", "hello", (Image(PNG, "image/png"),)), Row("assistant", "hi"))
    assert (left_out, more) == ((), 0)


def test_rows_know_their_place_in_the_argument() -> None:
    rows = parse_history([USER, None, USER]).rows
    assert [row.index for row in rows] == [0, 2]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "a row must be an object with role and content"),
        ("hello", "a row must be an object with role and content"),
        ({"content": "x"}, 'role must be "user", "assistant" or "tool", not None'),
        ({"role": "system", "content": "x"}, 'role must be "user", "assistant" or "tool", not \'system\''),
        ({"role": ["user"], "content": "x"}, 'role must be "user", "assistant" or "tool", not [\'user\']'),
        ({"role": "user"}, "content must be a string, not None"),
        ({"role": "user", "content": {"text": "x"}}, "content must be a string, not {'text': 'x'}"),
        ({"role": "user", "content": ""}, "content is empty and there are no images"),
        ({"role": "user", "content": "", "images": []}, "content is empty and there are no images"),
        (
            {"role": "user", "content": "", "images": [{"data": 1}]},
            "images[0].data must be a base64 string, not a number",
        ),
    ],
)
def test_a_malformed_row_is_skipped_with_its_reason(row: Any, reason: str) -> None:
    rows, left_out, _ = parse_history([USER, row, USER])
    assert rows == (Row("user", "hello"),) * 2
    assert left_out == (LeftOut(1, reason),)


GOOD, FALSE = {"data": PNG, "mime_type": "image/png"}, {"data": PNG, "mime_type": "image/gif"}


@pytest.mark.parametrize(
    ("images", "kept", "lost", "reason"),
    [
        ([{"data": 1}], 0, 1, "images[0].data must be a base64 string, not a number"),
        ([GOOD, FALSE], 1, 1, "images[1].data is image/png by its content, and its mime_type says image/gif"),
        ([FALSE, GOOD, None], 1, 2, "images[0].data is image/png by its content, *"),
        ({"data": PNG}, 0, 1, "images must be a list of objects, not an object"),
        ("PNG", 0, 1, "images must be a list of objects, not a string"),
        ([GOOD] * 22, 20, 2, "images has 22 images; 20 are allowed in one message"),
        ([FALSE] + [GOOD] * 20, 19, 2, "images[0].data is image/png by its content, *"),
    ],
)
def test_a_row_whose_images_alone_are_at_fault_keeps_its_text_and_the_good_ones(
    images: Any, kept: int, lost: int, reason: str
) -> None:
    (row,), (fault,), more = parse_history([USER | {"images": images}])
    assert row == Row("user", "hello", (Image(PNG, "image/png"),) * kept, unreadable=lost)
    assert (fault.index, fault.part, more) == (0, "images", 0)
    assert fnmatch(fault.reason, reason.replace("[", "[[]")), fault.reason


def test_images_keep_a_row_that_has_no_text() -> None:
    (row,), (fault,), _ = parse_history([{"role": "user", "content": "", "images": [FALSE, GOOD]}])
    assert row == Row("user", "", (Image(PNG, "image/png"),), unreadable=1)
    assert fault.part == "images"


def test_parts_of_a_message() -> None:
    content = [{"type": "text", "text": "a"}, part(), {"type": "text", "text": "b"}]
    (row,) = parse_history([{"role": "user", "content": content}]).rows
    assert row == Row("user", "a\n\nb", (Image(PNG, "image/png"),))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://elsewhere/x.png", "content[0].image_url.url must be a data URL, *"),
        (7, "content[0].image_url.url must be a string, not a number"),
        (f"data:image/gif;base64,{PNG}", "content[0].image_url.url is image/png by its content, *"),
        (f"data:text/html;base64,{PNG}", "content[0].image_url.url must be one of *"),
        ("data:image/png;base64,!", "content[0].image_url.url is not base64: *"),
    ],
)
def test_an_image_that_cannot_be_used_costs_a_row_no_more_than_that(url: Any, reason: str) -> None:
    rows, (fault,), _ = parse_history(
        [{"role": "user", "content": [part(url), {"type": "text", "text": "a"}]}]
    )
    assert rows == (Row("user", "a", unreadable=1),)
    assert fault.part == "images"
    assert fault.reason.startswith(reason.rstrip("*"))


def test_a_part_of_another_kind_costs_the_row() -> None:
    rows, left_out, _ = parse_history([{"role": "user", "content": [{"type": "thing"}]}])
    assert rows == ()
    reason = (
        'content[0] must be {"type": "text", "text": …} or {"type": "image_url", "image_url": {"url": …}}, '
        "not {'type': 'thing'}"
    )
    assert left_out == (LeftOut(0, reason),)


def test_of_many_malformed_rows_the_first_are_named() -> None:
    rows, left_out, more = parse_history([None, USER] * (MAX_NAMED + 7))
    assert len(rows) == MAX_NAMED + 7
    assert [fault.index for fault in left_out] == list(range(0, 2 * MAX_NAMED, 2))
    assert more == 7


def test_calls_of_all_rows_share_what_their_arguments_may_have() -> None:
    arguments = json.dumps({"a": [0] * (MAX_VALUES // 2)})
    call = {"id": "1", "function": {"name": "t", "arguments": arguments}}
    row = {"role": "assistant", "content": "x", "tool_calls": [call]}
    rows, left_out, _ = parse_history([row, row])
    assert [len(row.calls) for row in rows] == [1, 0]
    assert [(fault.index, fault.part) for fault in left_out] == [(1, "calls")]


def test_a_history_that_is_no_list_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="history must be a list"):
        parse_history({"role": "user", "content": "x"})


@given(st.lists(st.sampled_from([USER, None, 3, {"role": "tool", "content": ""}]), max_size=20))
def test_every_row_is_either_kept_or_named(entries: list[Any]) -> None:
    rows, left_out, _ = parse_history(entries)
    assert len(rows) == entries.count(USER)
    assert [fault.index for fault in left_out] == [i for i, entry in enumerate(entries) if entry != USER]
