"""Which calls of a history are to be taken up."""

from __future__ import annotations

import pytest
from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

from pallas_worker.fastagent.tools.resume import pending_in
from pallas_worker.interface.errors import ArgumentError


def asks(*ids: str) -> PromptMessageExtended:
    calls = {
        id_: CallToolRequest(method="tools/call", params=CallToolRequestParams(name="echo", arguments={}))
        for id_ in ids
    }
    return PromptMessageExtended(role="assistant", content=[], tool_calls=calls)


def gets(*ids: str) -> PromptMessageExtended:
    results = {id_: CallToolResult(content=[], is_error=False) for id_ in ids}
    return PromptMessageExtended(role="user", content=[], tool_results=results)


USER = PromptMessageExtended(role="user", content=[])
ANSWER = PromptMessageExtended(role="assistant", content=[])


def test_calls_without_results_are_pending() -> None:
    last = asks("a", "b")
    assert pending_in([USER, asks("z"), gets("z"), last]) == (last, {})
    assert pending_in([last]) == (last, {})


def test_results_that_the_caller_gives_are_kept() -> None:
    last, given = asks("a", "b"), gets("b")
    assert pending_in([USER, last, given]) == (last, given.tool_results)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [USER],
        [USER, ANSWER],
        [USER, asks("a"), gets("a")],
        [gets("a")],
        [USER, gets("a")],
        [asks("a"), USER],
    ],
)
def test_a_history_without_such_calls_is_refused(history: list[PromptMessageExtended]) -> None:
    with pytest.raises(ArgumentError, match="there is nothing to take up") as caught:
        pending_in(history)
    assert caught.value.field == "resume"
