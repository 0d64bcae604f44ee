"""An agent's defaults: what a request says comes first, null clears one, and each that is left is told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pallas_worker.interface.chat.defaults import parse_defaults, with_defaults
from pallas_worker.interface.chat.request import parse_chat
from pallas_worker.interface.tools import parse_send_message

if TYPE_CHECKING:
    from pallas_common.protocol.agent.parameters import Parameters
    from pallas_worker.interface.turn import TurnRequest

DEFAULTS = parse_defaults(
    {
        "temperature": 0.2,
        "max_completion_tokens": 9,
        "stop": "x",
        "extra": {"min_p": 0.5, "knob": 1},
        "tools_allowlist": ["web__*"],
        "response_format": {"type": "json_object"},
    }
)


def asked(**fields: Any) -> TurnRequest:
    """A chat completion's turn, with the defaults."""
    body = {"model": "a", "messages": [{"role": "user", "content": "x"}], **fields}
    return with_defaults(parse_chat(body, agent="a", may_override=True).turn, DEFAULTS)


def parameters(request: TurnRequest) -> Parameters:
    assert request.parameters is not None
    return request.parameters


def test_an_agent_may_have_none() -> None:
    assert parse_defaults({}) is None
    request = parse_send_message({"message": "x"})
    assert with_defaults(request, None) is request


@pytest.mark.parametrize("request_", [asked(), with_defaults(parse_send_message({"message": "x"}), DEFAULTS)])
def test_a_turn_of_which_nothing_is_said_has_all_of_them(request_: TurnRequest) -> None:
    assert parameters(request_).values == {"temperature": 0.2, "max_tokens": 9, "stop": ("x",)}
    assert parameters(request_).extra == {"min_p": 0.5, "knob": 1}
    assert request_.tools_allowlist == frozenset({"web__*"})
    assert request_.output is not None
    assert request_.by_default == {"temperature", "max_tokens", "stop", "extra", "tools_allowlist"}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_what_is_said_comes_first_by_either_name(name: str) -> None:
    request = asked(temperature=1, **{name: 5})
    assert parameters(request).values == {"temperature": 1, "max_tokens": 5, "stop": ("x",)}
    assert request.by_default == {"stop", "extra", "tools_allowlist"}


def test_null_clears_a_default() -> None:
    request = asked(temperature=None, extra=None, tools_allowlist=None, response_format=None)
    assert parameters(request).values == {"temperature": None, "max_tokens": 9, "stop": ("x",)}
    assert parameters(request).extra == {}
    assert (request.tools_allowlist, request.output) == (None, None)
    assert request.by_default == {"max_tokens", "stop"}


def test_another_form_or_allowlist_replaces_the_default() -> None:
    request = asked(response_format={"type": "text"}, tools_allowlist=["here__*"])
    assert (request.tools_allowlist, request.output) == (frozenset({"here__*"}), None)


def test_extra_is_completed_key_by_key_and_gives_way_to_a_parameter_of_that_name() -> None:
    request = asked(extra={"knob": 2, "other": 3}, min_p=0.1)
    assert parameters(request).extra == {"knob": 2, "other": 3}
    assert parameters(request).values["min_p"] == 0.1
    assert "extra" not in request.by_default
