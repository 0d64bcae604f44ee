"""The chain of agents that a call has come by: what is read of it, and when it ends."""

from __future__ import annotations

import pytest

from pallas_common.protocol.mcp.chain import (
    DEEPEST,
    HEADER,
    META,
    chain_in_header,
    chain_in_meta,
    header_of,
    link,
    refusal,
)

A, B = link("a", "d"), link("b", "d")


def test_it_is_read_as_it_was_written() -> None:
    chain = (A, B, A)
    assert chain_in_meta({META: list(chain), "progressToken": 1}) == chain
    assert chain_in_header(header_of(chain)[HEADER]) == chain
    assert (header_of(()), chain_in_header(None), chain_in_meta(None)) == ({}, (), ())


@pytest.mark.parametrize(
    "said", [None, "a@d", {}, [1], ["a"], ["a@d", "two words@d"], ["a@d\r\nx: y@d"], ["x" * 100 + "@d"], [[]]]
)
def test_what_is_none_is_none(said: object) -> None:
    assert chain_in_meta({META: said}) == ()
    assert chain_in_meta(said) == ()


@pytest.mark.parametrize("value", ["", "a", "a@d,", "a@d;b@d", "ä@d", "," * 9_999])
def test_a_header_that_is_none_is_none(value: str) -> None:
    assert chain_in_header(value) == ()


def test_it_may_come_back_so_often() -> None:
    assert refusal((), A, 0) is None
    assert refusal((A, B), A, 1) is None
    assert refusal((A, B), A, 0) == (
        "the agent a was not asked: this call has come from it already (a → b → a), and may come back to it not at all "
        "(max_returns); answer with what is known so far"
    )
    said = refusal((A, B, A, B), A, 1)
    assert said is not None
    assert "1 time at most" in said
    assert refusal((A, B, A, B), link("a", "another"), 0) is None, "another deployment's of that name"


def test_it_may_be_so_deep() -> None:
    many = tuple(link(f"a{number}", "d") for number in range(DEEPEST))
    assert refusal(many[1:], A, 1) is None
    assert "16 agents have handed this call on" in (refusal(many, A, 1) or "")
    assert len(chain_in_meta({META: list(many) * 1_000})) == DEEPEST + 1
